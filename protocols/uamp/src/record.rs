//! Records of the WebSocket binding (UAMP 1.0 §7): a length of four bytes, most significant first, and JSON.
//! Used by the binding and the client.
//!
//! Invariant: a message is whole records; a length beyond the bound or the message is an error before
//! anything is copied. PURE.

use serde_json::Value;

use crate::{
    canonical::read_strict,
    delta::Delta,
    envelope::Envelope,
    error::{UampCode, UampError},
};

/// Largest record, unless it is set otherwise, in bytes.
pub const MAX_RECORD: usize = 1 << 20;

/// What a record holds.
#[derive(Clone, Debug)]
pub enum UampRecord {
    /// An envelope.
    Envelope(Box<Envelope>),
    /// A delta; it is known by its `delta_seq`.
    Delta(Delta),
}

/// Appends a record.
pub fn write_record(json: &[u8], message: &mut Vec<u8>) {
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    message.extend(length.to_be_bytes());
    message.extend_from_slice(json);
}

/// Checks the length of a record.
///
/// # Errors
/// [`UampCode::PayloadTooLarge`] of a record with more than `most` bytes.
pub fn check_record(length: usize, most: usize) -> Result<(), UampError> {
    if length > most {
        let text = format!("a record has {length} bytes, the limit is {most}");
        return Err(UampError::coded(UampCode::PayloadTooLarge, text));
    }
    Ok(())
}

/// The JSON of each record of a message.
///
/// # Errors
/// [`UampCode::PayloadTooLarge`] of a record with more than `most` bytes, [`UampError::Field`] of one that is
/// cut short.
pub fn split_records(mut message: &[u8], most: usize) -> Result<Vec<&[u8]>, UampError> {
    let mut records = Vec::new();
    while !message.is_empty() {
        let Some((length, rest)) = message.split_first_chunk::<4>() else {
            return Err(UampError::field(
                "record",
                "has fewer than the four bytes of its length",
            ));
        };
        let length = u32::from_be_bytes(*length) as usize;
        check_record(length, most)?;
        let Some((record, rest)) = rest.split_at_checked(length) else {
            let text = format!("says {length} bytes, and its message has {} more", rest.len());
            return Err(UampError::field("record", text));
        };
        records.push(record);
        message = rest;
    }
    Ok(records)
}

/// Reads the JSON of a record.
///
/// # Errors
/// As [`Envelope::read`] and [`Delta::read`].
pub fn read_record(json: &[u8], most: usize) -> Result<UampRecord, UampError> {
    check_record(json.len(), most)?;
    let value = read_strict(json).map_err(|error| UampError::field("record", error.to_string()))?;
    if value.get("delta_seq").is_some_and(Value::is_number) {
        return Delta::from_value(&value).map(UampRecord::Delta);
    }
    Envelope::read(json, most).map(|envelope| UampRecord::Envelope(Box::new(envelope)))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn records_are_split_as_they_were_joined(
            records in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u8>(), 0..20), 0..5),
            cut in 1_usize..30,
        ) {
            let mut message = Vec::new();
            for record in &records {
                write_record(record, &mut message);
            }
            proptest::prop_assert_eq!(split_records(&message, 20).unwrap(), records.clone());
            if let Some(longest) = records.iter().map(Vec::len).max() && longest > 0 {
                proptest::prop_assert!(split_records(&message, longest - 1).is_err());
            }
            let short = &message[..message.len().saturating_sub(cut)];
            let whole: Vec<_> = (0..=records.len()).map(|count| 4 * count + records[..count].iter().map(Vec::len).sum::<usize>()).collect();
            proptest::prop_assert_eq!(split_records(short, 20).is_ok(), whole.contains(&short.len()));
        }
    }

    #[test]
    fn a_delta_is_known_by_its_number() {
        let ack = Delta::acknowledgement("s", 1, 0).to_value().to_string();
        assert!(matches!(
            read_record(ack.as_bytes(), 1000),
            Ok(UampRecord::Delta(_))
        ));
        assert!(matches!(read_record(b"{}", 1000), Err(UampError::Field { field, .. }) if field == "id"));
        assert_eq!(
            read_record(ack.as_bytes(), 10).unwrap_err().code(),
            Some(UampCode::PayloadTooLarge)
        );
        let huge = u32::MAX.to_be_bytes();
        assert_eq!(
            split_records(&huge, 100).unwrap_err().code(),
            Some(UampCode::PayloadTooLarge)
        );
    }
}
