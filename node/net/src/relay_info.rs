//! What relays of ours tell this node: where their registry is, and the limits that a node plans by.
//!
//! The swarm's task asks each bootstrap relay that offers `Protocol::RelayInfo` once while it is
//! connected, and [`super::Handle::relay_answers`] hands the answers on. The connection proves who says it, so
//! an answer counts for that relay only. An answer has at most [`MAX_BYTES`].

use std::{collections::BTreeMap, io, time::Duration};

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::RelayInfo;
use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use prost::Message as _;
use tokio::time::timeout;

use super::{
    frame::FrameDecoder,
    streams::{OpenError, Protocol, StreamControl},
};

/// Longest answer, in bytes: three addresses of 255 bytes and numbers are less than 1 KiB.
const MAX_BYTES: usize = 4 << 10;

/// How long a relay may take to answer. It reads nothing from its disk for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A relay's answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RelayAnswer {
    /// The address that this node dialled it at, a multiaddr.
    pub dialled: String,
    /// What it says.
    pub info: RelayInfo,
}

impl RelayAnswer {
    /// What a relay says that was dialled at this multiaddr.
    #[must_use]
    pub const fn new(dialled: String, info: RelayInfo) -> Self {
        Self { dialled, info }
    }
}

/// The last answer of each bootstrap relay.
pub type RelayAnswers = BTreeMap<PeerId, RelayAnswer>;

/// Asks a connected relay.
pub(super) async fn ask(control: &StreamControl, relay: PeerId) -> Result<RelayInfo, OpenError> {
    let mut opened = control.open(relay.into(), Protocol::RelayInfo).await?;
    let answer = timeout(TIMEOUT, async {
        // The node has nothing to write; the end of its half is what makes the relay answer.
        opened.stream.close().await?;
        let mut decoder = FrameDecoder::new(MAX_BYTES);
        loop {
            let count = opened.stream.read(decoder.space()).await?;
            if count == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            if let Some(payload) = decoder.filled(count).map_err(invalid)? {
                return RelayInfo::decode(payload).map_err(invalid);
            }
        }
    });
    Ok(answer.await.map_err(|_| OpenError::Timeout)??)
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
