//! Who a node is: its key, its peer id, its decentralised identifiers.

pub mod key;
mod peer_id;

pub use key::{KeyError, load_or_create, peer_id};
pub use libp2p_identity::Keypair;
pub use peer_id::{InvalidPeerId, PeerId};
