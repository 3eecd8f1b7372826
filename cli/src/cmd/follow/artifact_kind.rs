//! What kind of artifact it is: text that is printed, or bytes that are summarised.

use crate::output;

/// Whether bytes of this type are for people to read; an artifact without a type is taken for text.
pub(super) fn is_text(media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    media_type.is_empty() || media_type.starts_with("text/") || media_type.ends_with("json")
}

/// What is said about bytes that are not shown.
pub(super) fn summary(name: &str, media_type: &str, bytes: u64) -> String {
    let kind = if media_type.is_empty() {
        "bytes of no known type"
    } else {
        media_type
    };
    let (name, kind) = (output::brief(name), output::brief(kind));
    format!("[{name}: {kind}, {bytes} bytes; --output DIR saves it]")
}
