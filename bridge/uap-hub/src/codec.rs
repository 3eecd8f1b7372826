//! How the generated clients and servers read and write messages.

/// The codec of the generated clients and servers.
pub type BoundedCodec<E, D> = tonic_prost::ProstCodec<E, D>;
