//! Tells each node that asks where this relay's registry and directory are, and the limits that it plans by.
//!
//! The node opens a stream of [`PROTOCOL`] and writes nothing; the relay writes one frame (a `RelayInfo`) and
//! closes. Invariants: the answer is the same for every node, and answers that are being written are bounded
//! per connection.

use std::{io, sync::Arc, time::Duration};

use agentanycast_proto::v1::RelayInfo;
use libp2p::{
    StreamProtocol,
    futures::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
};
use libp2p_request_response::{self as request_response, ProtocolSupport};
use prost::Message as _;

/// The protocol, as identify lists it.
const PROTOCOL: StreamProtocol = StreamProtocol::new("/agentanycast/relay-info/1.0");

/// How long a node may take to read the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers that are written on one connection at once. A node asks once per connection.
const MAX_ANSWERS: usize = 4;

/// Writes the answer; reads nothing.
#[derive(Clone, Debug)]
pub(super) struct InfoCodec {
    /// The length in four bytes, big-endian, then the encoded `RelayInfo`.
    frame: Arc<[u8]>,
}

/// The behaviour that answers.
pub(super) type Behaviour = request_response::Behaviour<InfoCodec>;

/// A behaviour that answers with `info`.
pub(super) fn behaviour(info: &RelayInfo) -> Behaviour {
    let payload = info.encode_to_vec();
    // The longest address has 255 bytes, so the frame has less than 1 KiB.
    let length = u32::try_from(payload.len()).unwrap_or_default();
    let codec = InfoCodec {
        frame: [&length.to_be_bytes()[..], &payload].concat().into(),
    };
    let config = request_response::Config::default()
        .with_request_timeout(ANSWER_TIMEOUT)
        .with_max_concurrent_streams(MAX_ANSWERS);
    Behaviour::with_codec(codec, [(PROTOCOL, ProtocolSupport::Inbound)], config)
}

/// Answers a request; other events say nothing that the relay acts on.
pub(super) fn answer(behaviour: &mut Behaviour, event: request_response::Event<(), ()>) {
    if let request_response::Event::Message {
        message: request_response::Message::Request { channel, .. },
        ..
    } = event
    {
        // An error means that the node has closed the stream.
        let _ = behaviour.send_response(channel, ());
    }
}

impl request_response::Codec for InfoCodec {
    type Protocol = StreamProtocol;
    type Request = ();
    type Response = ();

    async fn read_request<T: AsyncRead + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        _: &mut T,
    ) -> io::Result<()> {
        Ok(())
    }

    async fn read_response<T: AsyncRead + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        _: &mut T,
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn write_request<T: AsyncWrite + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        _: &mut T,
        (): (),
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn write_response<T: AsyncWrite + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        stream: &mut T,
        (): (),
    ) -> io::Result<()> {
        stream.write_all(&self.frame).await?;
        stream.close().await
    }
}
