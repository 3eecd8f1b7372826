//! The client of a program that is built without the feature `egress`: it refuses.

#![allow(
    clippy::unused_async,
    clippy::unused_self,
    reason = "the functions are those of the client of `agentanycast_egress`"
)]

use std::{convert::Infallible, time::Duration};

use agentanycast_gateways::bridge::{LEFT_OUT, outbound::OutboundConfig};
use bytes::Bytes;

/// Why a document is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{LEFT_OUT}")]
pub struct FetchError {
    /// Whether it may be there in a moment.
    pub is_transient: bool,
}

/// Fetches nothing.
pub struct Fetcher;

impl Fetcher {
    /// Of any settings.
    ///
    /// # Errors
    /// Never.
    pub fn new(_: &OutboundConfig) -> Result<Self, Infallible> {
        Ok(Self)
    }

    /// Refuses.
    ///
    /// # Errors
    /// [`FetchError`], always.
    pub async fn get(&self, _: &str, _: usize, _: Duration) -> Result<Bytes, FetchError> {
        Err(FetchError { is_transient: false })
    }
}
