//! Why a text is not a message.

use thiserror::Error;

/// Why a text is not a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It has too many bytes.
    #[error("a message of {size} bytes is too large; at most {max} are allowed")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// How many are allowed.
        max: usize,
    },
    /// It has too many objects or arrays within each other.
    #[error("a message nests objects and arrays too deeply; at most {max} levels are allowed")]
    TooDeep {
        /// How many levels are allowed.
        max: usize,
    },
    /// It has too many of something.
    #[error("a message has too many {what}; at most {max} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        max: usize,
    },
    /// It is not JSON, a field is missing or of a wrong type, or an enumeration has no such value.
    #[error("not a valid message: {reason}")]
    Invalid {
        /// What is wrong, with the field and its value.
        reason: String,
    },
}

/// The longest text of an error, in characters. A text may repeat a value of the message that it is about, of up to
/// 100 MiB.
pub const LONGEST_ERROR: usize = 500;

/// The text of an error without what exceeds [`LONGEST_ERROR`].
pub(crate) fn cut_error(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_ERROR) {
        text.truncate(end);
        text.shrink_to_fit();
    }
    text
}

impl DecodeError {
    pub(crate) fn invalid(error: &serde_json::Error) -> Self {
        Self::Invalid {
            reason: cut_error(error.to_string()),
        }
    }
}
