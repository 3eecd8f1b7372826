//! Clients that send what they should not: it costs them their own session, and others nothing.

use agentanycast_gateway::fake::agents::FakeEnd;
use agentanycast_uap_hub::v1::{Attachment, Telemetry, test_response::Event};
use bytes::{Buf as _, BufMut as _, Bytes};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};

use crate::fixture::{TestClient, TestHub, reason, registration, soon};

/// Sends bytes as they are.
#[derive(Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, target: &mut EncodeBuf<'_>) -> Result<(), Status> {
        target.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

/// Opens the stream of a session, on which bytes are sent as they are.
async fn raw_stream(client: &TestClient, channel: Channel, session: &str) -> mpsc::Sender<Bytes> {
    let (says, said) = mpsc::channel(1);
    let request = client.named(session, ReceiverStream::new(said));
    let mut grpc = Grpc::new(channel).max_encoding_message_size(usize::MAX);
    grpc.ready().await.unwrap();
    let path = "/uap.v1.AgentHub/Execute".parse().unwrap();
    let mut hears = soon(grpc.streaming(request, path, RawCodec))
        .await
        .unwrap()
        .into_inner();
    assert!(soon(hears.message()).await.unwrap().is_some(), "no start");
    tokio::spawn(async move { while let Ok(Some(_)) = hears.message().await {} });
    says
}

#[tokio::test]
async fn what_cannot_be_read_fails_its_own_session_only() {
    let hub = TestHub::start().await;
    let mut good = hub.client("good", "other").await;
    hub.give("good", "other");
    let good_stream = good.begin().await;
    let mut client = hub.client("bad", "junit").await;
    let channel = Channel::from_shared(hub.url().to_owned())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let nested = |depth: usize| {
        let within = |tag: u8, inner: &[u8]| {
            let mut outer = vec![tag];
            prost::encoding::encode_varint(inner.len() as u64, &mut outer);
            outer.extend_from_slice(inner);
            outer
        };
        // Steps within steps, in a report of the result of a response.
        let steps = (0..depth).fold(Vec::new(), |inner, _| within(0x22, &inner));
        within(0x22, &within(0x12, &steps))
    };
    let many = {
        let telemetry = Telemetry {
            attachments: vec![Attachment::default(); 300_000],
            ..Telemetry::default()
        };
        let mut bytes = Vec::new();
        Event::Telemetry(telemetry).encode(&mut bytes);
        bytes
    };
    for (what, bytes, told) in [
        (
            "garbage",
            vec![0xff; 100],
            "Stream error: this is no uap.v1.TestResponse",
        ),
        (
            "deep",
            nested(5000),
            "Stream error: this is no uap.v1.TestResponse",
        ),
        (
            "many",
            many,
            "has more than 250000 steps, attachments, values and entries",
        ),
        (
            "large",
            vec![0; (64 << 20) + 1],
            "Stream error: a message of 67108865 bytes, the most are 67108864",
        ),
    ] {
        hub.give(what, "junit");
        let session = client.accept().await;
        let says = raw_stream(&client, channel.clone(), &session).await;
        // The hub may end the stream before it has all.
        let _ = says.send(bytes.into()).await;
        let reason = reason(hub.end_of(what).await);
        assert!(reason.contains(told), "{what}: {reason}");
    }
    good_stream
        .status(agentanycast_uap_hub::v1::TestState::Completed, "")
        .await;
    drop(good_stream.says);
    assert!(matches!(hub.end_of("good").await, FakeEnd::Completed(..)));
    assert_eq!(hub.figure("uap_hub_clients", ""), 2, "their Listens stand");
}

#[tokio::test]
async fn garbage_on_a_listen_ends_it() {
    let hub = TestHub::start().await;
    let mut client = hub.client("bad", "junit").await;
    hub.give("t", "junit");
    let _stream = client.begin().await;
    let (says, said) = mpsc::channel(1);
    let mut request = tonic::Request::new(ReceiverStream::new(said));
    request
        .metadata_mut()
        .insert("x-client-id", client.id.parse().unwrap());
    let channel = Channel::from_shared(hub.url().to_owned())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = "/uap.v1.AgentHub/Listen".parse().unwrap();
    let mut hears = soon(grpc.streaming(request, path, RawCodec))
        .await
        .unwrap()
        .into_inner();
    says.send(vec![0xff; 10].into()).await.unwrap();
    assert!(soon(hears.message()).await.unwrap().is_none());
    assert_eq!(reason(hub.end_of("t").await), "agent disconnected: bad");
}

#[tokio::test]
async fn thousands_of_clients_that_never_listen_disturb_nothing() {
    let hub = TestHub::start().await;
    let connected = hub.connect().await;
    let registering: Vec<_> = (0..10)
        .map(|_| {
            let mut connected = connected.clone();
            tokio::spawn(async move {
                for _ in 0..1000 {
                    soon(connected.register(registration("silent", "junit")))
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for registered in registering {
        registered.await.unwrap();
    }
    assert_eq!(hub.figure("uap_hub_clients", ""), 0);
    assert!(hub.agents.card().skills.is_empty());
    let mut client = hub.client("runner", "junit").await;
    hub.give("t", "junit");
    client.complete().await;
    assert!(matches!(hub.end_of("t").await, FakeEnd::Completed(..)));
}

#[tokio::test]
async fn a_client_that_answers_what_was_not_asked_is_not_heard() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    for session in ["", "JOB-1", &"x".repeat(10_000)] {
        client.answer(session, true, &"y".repeat(10_000)).await;
        client.answer(session, false, "\u{0}\n").await;
    }
    hub.give("t", "junit");
    let session = client.proposal().await;
    client.answer(&session, true, "").await;
    client.answer(&session, false, "changed my mind").await;
    hub.until_figure("uap_hub_sessions", "ready", 1).await;
    let mut stream = client.execute(&session).await.unwrap();
    stream.init().await;
    drop(stream.says);
    hub.end_of("t").await;
}

#[tokio::test]
async fn a_call_of_another_service_or_protocol_is_refused() {
    let hub = TestHub::start().await;
    let channel = Channel::from_shared(hub.url().to_owned())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = "/uap.v1.Other/Call".parse().unwrap();
    let request = tonic::Request::new(Bytes::new());
    let refused = soon(grpc.unary(request, path, RawCodec)).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unimplemented);
}
