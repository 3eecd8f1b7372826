//! Who a node is: its key, its peer id, its decentralised identifiers.

pub mod credential;
mod did;
pub mod instance;
pub mod json;
mod key;
mod peer_id;
pub mod proof;
pub mod rotation;
pub mod sealed_box;

pub use did::{
    DidDns, DidWeb, Document, DocumentError, InvalidDid, MAX_DOCUMENT, MAX_TXT, Use, did_key_of, document_of,
    peer_of_did_key, public_key_of_did_key,
};
pub use instance::Instance;
pub use key::{
    KEY_FILE_LEN, KeyError, KeyLock, Replaced, RotateError, Rotated, Statements, load, load_and_hold,
    load_or_create, rotate, rotations, rotations_path,
};
pub use libp2p_identity::Keypair;
pub use peer_id::{InvalidPeerId, PeerId, peer_id};
pub use rotation::MAX_ROTATIONS;
