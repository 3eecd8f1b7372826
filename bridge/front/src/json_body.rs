//! Bodies: JSON of bounded size, depth and time.

use axum::body::Body;
use futures::StreamExt as _;
use http::{HeaderMap, header};
use serde_json::Value;

use super::{admission::RequestPermit, offload};
use crate::{
    json_scan::JsonScan,
    refusal::{Refusal, RefusalKind},
};

/// Deepest nesting of a body: what travels inside text (annexes) must still be read back by a parser that takes 128.
const MAX_DEPTH: usize = 100;

/// Most values of a body. Two bytes say one, that the daemon takes microseconds for.
pub const MAX_VALUES: usize = 100_000;

/// What some editors and clients put before a text in UTF-8; it is no part of the JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Bytes that a value takes, at least, until it is sent on.
const VALUE: usize = 100;

/// Reads a body of JSON of at most so many bytes; an empty one is `Null`.
pub async fn read(
    most: usize,
    headers: &HeaderMap,
    body: Body,
    place: Option<&RequestPermit>,
) -> Result<Value, Refusal> {
    let bytes = take(most, headers, body).await?;
    let place = place.cloned();
    offload::offload(bytes.len(), move || parse(&bytes, place.as_ref())).await
}

/// Takes a body of at most so many bytes that says it is JSON.
pub async fn take(most: usize, headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Refusal> {
    check_media_type(headers)?;
    gather(body, most).await?.ok_or_else(|| {
        let text = format!("the body is larger than {most} bytes");
        Refusal::new(RefusalKind::Invalid, text)
    })
}

/// Counts what a body unfolds to, by its request's place.
pub fn charge(place: &RequestPermit, bytes: usize, values: usize) -> Result<(), Refusal> {
    let (length, longest) = (bytes + values * VALUE, place.max_body());
    if length > longest {
        let text = format!(
            "the body takes {length} bytes, {VALUE} for each of its {values} values; the most of one caller is {longest}"
        );
        return Err(Refusal::new(RefusalKind::Invalid, text));
    }
    place
        .charge_body(length)
        .then_some(())
        .ok_or_else(too_much_memory)
}

/// Too much is being read.
pub fn too_much_memory() -> Refusal {
    let text = "too many large requests are being read; try again later";
    Refusal::new(RefusalKind::Exhausted, text)
}

/// The JSON of a body; `Null` if it is empty. What it takes counts by its request's place.
pub fn parse(bytes: &[u8], place: Option<&RequestPermit>) -> Result<Value, Refusal> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let scan = JsonScan::new(bytes);
    if scan.values > MAX_VALUES {
        let text = format!("the body has more than {MAX_VALUES} values");
        return Err(Refusal::new(RefusalKind::Invalid, text));
    }
    scan.check_numbers()?;
    if let Some(place) = place {
        charge(place, bytes.len(), scan.values)?;
    }
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Refusal::new(RefusalKind::Malformed, format!("the body is not JSON: {error}")))?;
    if agentanycast_proto::struct_json::depth(&value) > MAX_DEPTH {
        let text = format!("the body is nested more than {MAX_DEPTH} levels deep");
        return Err(Refusal::new(RefusalKind::Invalid, text));
    }
    Ok(value)
}

/// The body; `None` if it is larger than `most` bytes. As much again is read and thrown away, since a client that is
/// cut off while it writes does not read why.
pub async fn gather(body: Body, most: usize) -> Result<Option<Vec<u8>>, Refusal> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut length = 0_usize;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(broken)?;
        length += chunk.len();
        if length <= most {
            bytes.extend_from_slice(&chunk);
        } else {
            bytes = Vec::new();
            if length / 2 > most {
                break;
            }
        }
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok((length <= most).then_some(bytes))
}

/// Why a body did not arrive.
pub fn broken(error: axum::Error) -> Refusal {
    match error.into_inner().downcast::<Refusal>() {
        Ok(error) => *error,
        Err(_) => Refusal::new(RefusalKind::Invalid, "the body broke off"),
    }
}

/// Checks that the body says it is JSON; one that says nothing is taken for it.
fn check_media_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(given) = headers.get(header::CONTENT_TYPE) else {
        return Ok(());
    };
    let given = given.to_str().unwrap_or("?");
    let essence = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let shown: String = given.chars().take(80).collect();
    Err(Refusal::new(
        RefusalKind::MediaType,
        format!("{shown:?} is not taken; send application/json"),
    ))
}
