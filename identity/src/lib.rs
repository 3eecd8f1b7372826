//! Who a node is: its key, its peer id, its decentralised identifiers.

mod did;
mod key;
mod peer_id;
pub mod proof;

pub use did::{did_key_of, peer_of_did_key};
pub use key::{KEY_FILE_LEN, KeyError, load, load_or_create, peer_id};
pub use libp2p_identity::Keypair;
pub use peer_id::{InvalidPeerId, PeerId};
