//! Fetches documents of identities over HTTPS (`did:web`, issuers' documents, status lists).
//!
//! With the feature `bridge` this is the bridge's client with its egress filter; without it every fetch is refused.

#[cfg(not(feature = "bridge"))]
mod disabled;

#[cfg(feature = "bridge")]
pub use agentanycast_bridge::fetch::{FetchError, Fetcher};
#[cfg(not(feature = "bridge"))]
pub use disabled::{FetchError, Fetcher};
