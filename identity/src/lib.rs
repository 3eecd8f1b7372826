//! Who a node is: its key, its peer id, its decentralised identifiers.

mod did;
mod peer_id;

pub use did::{did_key_of, peer_of_did_key};
pub use peer_id::{InvalidPeerId, PeerId};
