//! Answers that a server packed with gzip though it was not asked to. PURE.
//!
//! Some servers and proxies pack each answer, and some do not say so in a header: packed bytes are told by
//! their first three, which no text begins with. Invariant: the unpacked bytes have a bound, and the same
//! bytes in other pieces give the same bytes.

use std::{borrow::Cow, io::Write as _};

use flate2::write::MultiGzDecoder;

/// The first bytes of each member: gzip, packed by deflate.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// How many packed bytes are unpacked before the bound is looked at: one byte becomes 1032 at most.
const STEP: usize = 1 << 10;

/// Unpacks bytes as they come; other bytes stay.
#[derive(Debug)]
pub struct Unpacker {
    /// Most unpacked bytes.
    max: usize,
    /// How many bytes were unpacked.
    unpacked: usize,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// The first bytes, of which it is not known whether they are packed.
    Unknown(Vec<u8>),
    Plain,
    Packed(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Unpacker {
    /// At most `max` bytes are unpacked. Bytes that are not packed have no bound here.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self {
            max,
            unpacked: 0,
            form: Form::Unknown(Vec::new()),
        }
    }

    /// What these bytes are, unpacked. Up to two bytes at the beginning are held until the next ones.
    ///
    /// # Errors
    /// [`UnpackError`]. The answer cannot be read on.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, UnpackError> {
        match &mut self.form {
            Form::Plain => return Ok(bytes.into()),
            Form::Packed(decoder) => {
                let unpacked = unpack(decoder, bytes, self.max - self.unpacked);
                let unpacked =
                    unpacked.map_err(|error| error.unwrap_or(UnpackError::TooLarge { max: self.max }))?;
                self.unpacked += unpacked.len();
                return Ok(unpacked.into());
            }
            Form::Unknown(begin) => {
                begin.extend_from_slice(bytes);
                if begin.len() < MAGIC.len() && MAGIC.starts_with(begin) {
                    return Ok(Cow::Borrowed(&[]));
                }
            }
        }
        let Form::Unknown(begin) = std::mem::replace(&mut self.form, Form::Plain) else {
            return Ok(bytes.into());
        };
        if begin.starts_with(&MAGIC) {
            self.form = Form::Packed(Box::new(MultiGzDecoder::new(Vec::new())));
            return self.take(&begin).map(|bytes| bytes.into_owned().into());
        }
        Ok(begin.into())
    }

    /// What is held at the end of the answer.
    ///
    /// # Errors
    /// [`UnpackError::Broken`] of packed bytes that are cut off.
    pub fn finish(&mut self) -> Result<Vec<u8>, UnpackError> {
        match &mut self.form {
            Form::Unknown(begin) => Ok(std::mem::take(begin)),
            Form::Plain => Ok(Vec::new()),
            Form::Packed(decoder) => {
                decoder.try_finish().map_err(|_| UnpackError::Broken)?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }
}

/// Unpacks bytes; `Err(None)`: they are more than `most`.
fn unpack(
    decoder: &mut MultiGzDecoder<Vec<u8>>,
    bytes: &[u8],
    most: usize,
) -> Result<Vec<u8>, Option<UnpackError>> {
    for step in bytes.chunks(STEP) {
        // What stands in the decoder goes out too: a stream of events is read as it comes.
        let written = decoder.write_all(step).and_then(|()| decoder.flush());
        written.map_err(|_| UnpackError::Broken)?;
        if decoder.get_ref().len() > most {
            return Err(None);
        }
    }
    Ok(std::mem::take(decoder.get_mut()))
}

/// Why an answer cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// It is larger than its reader allows.
    #[error("the answer has more than {max} bytes when it is unpacked")]
    TooLarge {
        /// How many bytes it may have.
        max: usize,
    },
    /// It is not gzip, or is cut off.
    #[error("the answer is packed with gzip, and cannot be unpacked")]
    Broken,
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8], cut: usize, max: usize) -> Result<Vec<u8>, UnpackError> {
        let mut unpacker = Unpacker::new(max);
        let mut out = Vec::new();
        for piece in bytes.chunks(cut) {
            out.extend_from_slice(&unpacker.take(piece)?);
        }
        out.extend(unpacker.finish()?);
        Ok(out)
    }

    proptest! {
        #[test]
        fn packed_and_plain_bytes_are_read_alike(text in prop::collection::vec(any::<u8>(), 0..300), cut in 1..50_usize) {
            prop_assert_eq!(read(&packed(&text), cut, 300).unwrap(), text.clone());
            prop_assume!(!text.starts_with(&MAGIC));
            prop_assert_eq!(read(&text, cut, 0).unwrap(), text);
        }

        #[test]
        fn hostile_bytes_do_no_harm(tail in prop::collection::vec(any::<u8>(), 0..100), cut in 1..50_usize) {
            let _ = read(&[&MAGIC[..], &tail].concat(), cut, 1 << 20);
        }
    }

    #[test]
    fn a_stream_is_unpacked_as_it_comes() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut unpacker = Unpacker::new(100);
        for event in ["data: a\n\n", "data: b\n\n"] {
            encoder.write_all(event.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let bytes = std::mem::take(encoder.get_mut());
            assert_eq!(&*unpacker.take(&bytes).unwrap(), event.as_bytes());
        }
    }

    #[test]
    fn what_cannot_be_unpacked_is_an_error() {
        let bomb = packed(&vec![0; 10 << 20]);
        assert_eq!(
            read(&bomb, 64 << 10, 1 << 20),
            Err(UnpackError::TooLarge { max: 1 << 20 })
        );
        let whole = packed(b"hello");
        assert_eq!(read(&whole[..whole.len() - 3], 7, 100), Err(UnpackError::Broken));
        assert_eq!(read(&[0x1f], 1, 100).unwrap(), [0x1f]);
    }
}
