//! What the keys of the store look like, and how records are encoded.
//!
//! A key is a tag, the length-prefixed name of what it belongs to, and a number. Each part of the engine has its own
//! tags and its own records.

/// Tags: the first byte of each key.
pub(crate) mod tag {
    pub(crate) const TASK: u8 = b't';
    pub(crate) const HEAD: u8 = b'h';
    pub(crate) const MESSAGE: u8 = b'm';
    pub(crate) const RESULT: u8 = b'a';
    pub(crate) const OUTBOX: u8 = b'o';
    pub(crate) const ENTRY: u8 = b'e';
    pub(crate) const BODY: u8 = b'b';
    pub(crate) const APPLIED: u8 = b'p';
    pub(crate) const APPLIED_ID: u8 = b'i';
    pub(crate) const APPLIED_SLOT: u8 = b'j';
    pub(crate) const IDEMPOTENCY: u8 = b'k';
    pub(crate) const SEALED: u8 = b's';
    pub(crate) const CARD: u8 = b'c';
    pub(crate) const OWN_CARD: u8 = b'C';
    pub(crate) const CARD_SIZE: u8 = b'd';
    pub(crate) const ADDRESSES: u8 = b'x';
    pub(crate) const LISTEN: u8 = b'L';
    pub(crate) const NOTE: u8 = b'n';
    pub(crate) const KEY_ROTATION: u8 = b'r';
    pub(crate) const CLOCK: u8 = b'g';
    pub(crate) const INVITE: u8 = b'v';
    pub(crate) const ACCEPTED: u8 = b'w';
    pub(crate) const TRUST: u8 = b'T';
    pub(crate) const ACCESS_REQUEST: u8 = b'R';
    pub(crate) const AGENT: u8 = b'y';
    pub(crate) const AGENT_CARD: u8 = b'z';
}

/// `tag ‖ length ‖ name`.
pub(crate) fn key(tag: u8, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 11);
    key.push(tag);
    key.extend_from_slice(&(name.len() as u16).to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// `tag ‖ length ‖ name ‖ number`.
pub(crate) fn numbered(tag: u8, name: &[u8], number: u64) -> Vec<u8> {
    let mut key = key(tag, name);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The name in a key, and what follows it. None when the key is none of ours.
pub(crate) fn split(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(u16::from_be_bytes(key.get(1..3)?.try_into().ok()?));
    Some((key.get(3..3 + length)?, key.get(3 + length..)?))
}

/// The number that follows the name in a key.
pub(crate) fn number_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(split(key)?.1.get(..8)?.try_into().ok()?))
}

/// The number that is the name in a key.
pub(crate) fn number_in_name(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(split(key)?.0.try_into().ok()?))
}

/// The encoded form of a record.
pub(crate) fn encode<M: prost::Message>(record: &M) -> Vec<u8> {
    record.encode_to_vec()
}

/// Reads a record; None when it is damaged.
pub(crate) fn decode<M: prost::Message + Default>(bytes: &[u8]) -> Option<M> {
    M::decode(bytes).ok()
}
