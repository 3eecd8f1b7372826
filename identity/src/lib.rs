//! Who a node is: its key, its peer id, its decentralised identifiers.

mod peer_id;

pub use peer_id::{InvalidPeerId, PeerId};
