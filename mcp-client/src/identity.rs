//! Who the client is, by its own word.

/// What the client says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// It answers questions of tools ([`CallEvent::Question`](crate::CallEvent::Question)).
    pub asks: bool,
}
