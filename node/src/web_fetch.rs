//! Fetches documents of identities over HTTPS (`did:web`, issuers' documents, status lists).
//!
//! With the feature `egress` this is the client with the egress filter; without it every fetch is refused.

#[cfg(not(feature = "egress"))]
mod disabled;

#[cfg(feature = "egress")]
pub use agentanycast_egress::fetch::{FetchError, Fetcher};
#[cfg(not(feature = "egress"))]
pub use disabled::{FetchError, Fetcher};
