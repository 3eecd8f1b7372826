//! Middleware in its orders, handlers by type, pairs of frames, messages that are not valid.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use std::sync::{Arc, Mutex};

use agentanycast_aip::{
    messages::{ClientMessage, ClientMessageType, DecodeError, Limits, MessageStatus, ServerMessage},
    protocol::{
        AipProtocol, AnyMessage, Connection, CustomMessage, MessageHandler, Middleware, Outbox,
        ProtocolError, Received, Side, payload_frames,
    },
    transport::{FrameSender, Transport, TransportError, WireFrame, memory_pair},
};
use async_trait::async_trait;

type Log = Arc<Mutex<Vec<String>>>;

struct Named(&'static str, Log);

#[async_trait]
impl Middleware for Named {
    async fn outgoing(&self, message: AnyMessage) -> Option<AnyMessage> {
        self.1.lock().unwrap().push(format!("{} out", self.0));
        Some(message)
    }

    async fn incoming(&self, message: AnyMessage) -> Option<AnyMessage> {
        self.1.lock().unwrap().push(format!("{} in", self.0));
        let drops =
            matches!(&message, AnyMessage::Client(message) if message.kind == ClientMessageType::Error);
        (!drops).then_some(message)
    }
}

#[async_trait]
impl MessageHandler for Named {
    async fn handle(&self, peer: &str, message: &CustomMessage, _: &Outbox) {
        let line = format!("{} handles {} of {peer}", self.0, message.value["type"]);
        self.1.lock().unwrap().push(line);
    }
}

fn heartbeat() -> ClientMessage {
    ClientMessage::new(ClientMessageType::Heartbeat, MessageStatus::Ok)
}

fn service(protocol: AipProtocol) -> (Connection, Transport) {
    let (near, far) = memory_pair();
    (Connection::new(Arc::new(protocol), near), far)
}

async fn send(far: &mut Transport, text: &str) {
    far.sender.send(WireFrame::Text(text.to_owned())).await.unwrap();
}

#[tokio::test]
async fn middleware_and_handlers_run_in_their_orders() {
    let log = Log::default();
    let named = |name| Named(name, Arc::clone(&log));
    let protocol = AipProtocol::new(Side::Service)
        .with_middleware(named("first"))
        .with_middleware(named("second"))
        .with_handler("dance", named("a"))
        .with_handler("dance", named("b"))
        .with_handler("heartbeat", named("c"));
    let (mut connection, mut far) = service(protocol.clone());
    let outbox = connection.outbox().clone();
    outbox.send(ServerMessage::error("no")).await.unwrap();
    send(&mut far, r#"{"type":"error","status":"error"}"#).await;
    send(&mut far, r#"{"type":"heartbeat","status":"ok"}"#).await;
    send(&mut far, r#"{"type":"dance","steps":3}"#).await;
    // The error was dropped by the middleware that sees it first.
    let received = connection.next().await.unwrap().unwrap();
    let Received::Message(message) = received else {
        panic!("{received:?}")
    };
    assert_eq!(message, AnyMessage::Client(heartbeat()));
    protocol.handle_message("p", &message, &outbox).await;
    let received = connection.next().await.unwrap().unwrap();
    let Received::Custom(custom) = received else {
        panic!("{received:?}")
    };
    assert!(protocol.handle("p", &custom, &outbox).await);
    assert_eq!(
        *log.lock().unwrap(),
        [
            "first out",
            "second out",
            "second in",
            "second in",
            "first in",
            "c handles \"heartbeat\" of p",
            "a handles \"dance\" of p",
            "b handles \"dance\" of p",
        ]
    );
}

#[tokio::test]
async fn a_bad_frame_is_an_error_and_the_next_one_is_read() {
    let limits = Limits {
        bytes: 1000,
        ..Limits::default()
    };
    let (mut connection, mut far) = service(AipProtocol::new(Side::Service).with_limits(limits));
    let error =
        |received: Option<Result<Received, ProtocolError>>| received.unwrap().unwrap_err().to_string();
    send(&mut far, "not JSON").await;
    assert!(error(connection.next().await).contains("not a valid message"));
    send(&mut far, r#"{"type":"dance"}"#).await;
    assert!(error(connection.next().await).contains(r#"unknown type "dance""#));
    send(
        &mut far,
        &format!(
            r#"{{"type":"heartbeat","status":"ok","error":"{}"}}"#,
            "x".repeat(1000)
        ),
    )
    .await;
    let large = connection.next().await.unwrap().unwrap_err();
    assert!(matches!(
        large,
        ProtocolError::Decode(DecodeError::TooLarge { max: 1000, .. })
    ));
    far.sender.send(WireFrame::Binary(vec![1].into())).await.unwrap();
    assert!(error(connection.next().await).contains("binary_data"));
    send(&mut far, r#"{"type":"binary_data","size":1}"#).await;
    send(&mut far, r#"{"type":"heartbeat","status":"ok"}"#).await;
    assert!(error(connection.next().await).contains("has to follow"));
    for frame in payload_frames(vec![1, 2].into(), Some("a"), None) {
        far.sender.send(frame).await.unwrap();
    }
    let received = connection.next().await.unwrap().unwrap();
    assert!(
        matches!(received, Received::Binary(header, bytes) if header.size == Some(2) && bytes.len() == 2)
    );
    drop(far);
    assert!(connection.next().await.is_none());
}

#[tokio::test]
async fn messages_that_are_too_large_are_not_sent() {
    let limits = Limits {
        bytes: 1000,
        ..Limits::default()
    };
    let (connection, _far) = service(AipProtocol::new(Side::Service).with_limits(limits));
    let refused = connection
        .outbox()
        .send(ServerMessage {
            user_request: Some("x".repeat(1000)),
            ..ServerMessage::error("too large")
        })
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ProtocolError::Decode(DecodeError::TooLarge { .. })),
        "{refused}"
    );
}

/// A sender whose connection has ended.
struct Broken;

#[async_trait]
impl FrameSender for Broken {
    async fn send(&mut self, _: WireFrame) -> Result<(), TransportError> {
        Err(TransportError::Closed)
    }

    async fn close(&mut self, _: u16) {}
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_said_last_is_read_though_nothing_can_be_sent_any_more() {
    let (near, mut far) = memory_pair();
    let broken = Transport {
        sender: Box::new(Broken),
        receiver: near.receiver,
    };
    let mut connection = Connection::new(Arc::new(AipProtocol::new(Side::Service)), broken);
    let outbox = connection.outbox().clone();
    outbox.send(ServerMessage::error("no")).await.unwrap();
    outbox.closed().await;
    send(&mut far, r#"{"type":"heartbeat","status":"ok"}"#).await;
    let received = connection.next().await.unwrap().unwrap();
    assert_eq!(received, Received::Message(AnyMessage::Client(heartbeat())));
    // The peer neither says anything nor closes: it is not waited for.
    let begun = tokio::time::Instant::now();
    assert_eq!(connection.next().await, None);
    assert!(begun.elapsed().as_secs() <= 1);
}
