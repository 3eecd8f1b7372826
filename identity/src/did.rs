//! Decentralised identifiers of nodes (W3C DID): `did:key` is the key itself, `did:web` a document on a web server,
//! `did:dns` a record of a domain. PURE: others fetch.

mod dns;
mod document;
mod key;
mod web;

pub use dns::{DidDns, MAX_TXT};
pub use document::{Document, DocumentError, MAX_DOCUMENT, Use, document_of};
pub use key::{did_key_of, peer_of_did_key, public_key_of_did_key};
pub(crate) use key::{key_url_of, multikey_of, raw_key_of};
#[cfg(test)]
pub(crate) use key::{peer_of_multikey, peer_of_raw_key};
pub use web::{DidWeb, InvalidDid};

/// A name of the DNS as it counts here: ASCII, small letters, labels of 1 to 63 bytes, 253 in all, and no address. `None`
/// for anything else.
fn domain(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A last label of digits, or of hexadecimal ones behind 0x, is read as an address by browsers and resolvers.
    let last = text.rsplit('.').next()?;
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (text.len() <= 253 && text.split('.').all(label) && !is_number).then_some(text)
}
