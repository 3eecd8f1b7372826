//! From text to messages and back.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{ClientMessage, DecodeError, Limits, ServerMessage, TransferFrame};

/// An array of JSON would count as an object with the fields in their order.
fn check_object(text: &str) -> Result<(), DecodeError> {
    if text.trim_start().starts_with('{') {
        return Ok(());
    }
    Err(DecodeError::Invalid {
        reason: r#"a message is a JSON object with "type""#.to_owned(),
    })
}

/// A message that [`decode`] makes.
pub trait Decodable: DeserializeOwned + sealed::Counted {}

impl<T: DeserializeOwned + sealed::Counted> Decodable for T {}

mod sealed {
    /// How many commands or results a message has.
    pub trait Counted {
        /// Them.
        fn commands(&self) -> usize;
    }
}

impl sealed::Counted for ClientMessage {
    fn commands(&self) -> usize {
        self.action_results.as_ref().map_or(0, Vec::len)
    }
}

impl sealed::Counted for ServerMessage {
    fn commands(&self) -> usize {
        self.actions.as_ref().map_or(0, Vec::len)
    }
}

impl sealed::Counted for TransferFrame {
    fn commands(&self) -> usize {
        0
    }
}

/// The message that `text` is.
///
/// # Errors
/// When it exceeds a limit, or is not such a message.
pub fn decode<T: Decodable>(text: &str, limits: &Limits) -> Result<T, DecodeError> {
    limits.check(text)?;
    check_object(text)?;
    decode_checked(text, limits)
}

/// The message that `text` is, of which [`type_of`] has read the type.
pub(crate) fn decode_checked<T: Decodable>(text: &str, limits: &Limits) -> Result<T, DecodeError> {
    let message: T = serde_json::from_str(text).map_err(|error| DecodeError::invalid(&error))?;
    if message.commands() > limits.commands {
        return Err(DecodeError::TooMany {
            what: "commands or results",
            max: limits.commands,
        });
    }
    Ok(message)
}

/// The text of a message.
///
/// # Errors
/// When it has too many bytes for a message.
pub fn encode<T: Serialize>(message: &T, limits: &Limits) -> Result<String, DecodeError> {
    let text = serde_json::to_string(message).map_err(|error| DecodeError::invalid(&error))?;
    if text.len() > limits.bytes {
        return Err(DecodeError::TooLarge {
            size: text.len(),
            max: limits.bytes,
        });
    }
    Ok(text)
}

/// The `type` of `text`, by which its handler is chosen. The text is checked against `limits` first.
///
/// # Errors
/// When it exceeds a limit, is not an object of JSON, or has no type.
pub fn type_of(text: &str, limits: &Limits) -> Result<String, DecodeError> {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        kind: String,
    }
    limits.check(text)?;
    check_object(text)?;
    let typed: Typed = serde_json::from_str(text).map_err(|error| DecodeError::invalid(&error))?;
    Ok(typed.kind)
}
