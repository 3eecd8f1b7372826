//! WebSockets (RFC 6455): requests that become one, and messages of bounded size on it.
//!
//! The one rule: a socket has its request's place and its connection's slot until it ends, and a client that is gone is found
//! out, since it does not answer pings.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentanycast_limits::Slot;
use axum::{body::Body, extract::Request, response::Response};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use soketto::{
    Data, Incoming, Sender,
    handshake::http::{Server, is_upgrade_request},
};
use tokio::{
    sync::{Mutex, mpsc},
    time::MissedTickBehavior,
};
use tokio_util::{
    compat::{Compat, TokioAsyncReadCompatExt as _},
    task::AbortOnDropHandle,
};

use crate::{
    admission::{ClientConnection, RequestPermit},
    json_body::too_much_memory,
    refusal::{Refusal, RefusalKind},
};

/// How often a silent client is asked whether it is there, and after what silence it is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const GONE_AFTER: Duration = Duration::from_secs(80);

/// Messages that are read ahead of who takes them.
const READ_AHEAD: usize = 1;

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketMessage {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

type Socket = Compat<TokioIo<Upgraded>>;

/// A socket. Dropping it ends the connection.
pub struct WebSocket {
    sender: WebSocketSender,
    messages: mpsc::Receiver<Heard>,
    _reader: AbortOnDropHandle<()>,
    heard: Instant,
    ping: tokio::time::Interval,
    permit: RequestPermit,
    _slot: Option<Arc<Slot>>,
}

/// Sends on a socket, beside what receives on it. Clones send on the same one, one message after another.
#[derive(Clone)]
pub struct WebSocketSender(Arc<Mutex<Sender<Socket>>>);

/// What the reader has heard.
enum Heard {
    Message(WebSocketMessage),
    Pong,
}

/// Answers a request that becomes a socket, which `serve` has from then on. Messages have at most so many bytes.
///
/// # Errors
/// When it is no such request.
pub fn upgrade<F>(
    request: &mut Request,
    permit: RequestPermit,
    max_message: usize,
    serve: impl FnOnce(WebSocket) -> F + Send + 'static,
) -> Result<Response, Refusal>
where
    F: Future<Output = ()> + Send + 'static,
{
    let not_one = || {
        Refusal::new(
            RefusalKind::Invalid,
            "this path takes a WebSocket: a GET over HTTP/1.1 with Upgrade: websocket",
        )
    };
    let mut handshake = Server::new();
    let upgrades = is_upgrade_request(request);
    let answer = handshake.receive_request(request).map_err(|_| not_one())?;
    let begun = request.extensions_mut().remove::<OnUpgrade>();
    let begun = begun.filter(|_| upgrades).ok_or_else(not_one)?;
    let slot = request.extensions().get::<ClientConnection>();
    let slot = slot.and_then(|connection| connection.slot.upgrade());
    tokio::spawn(async move {
        let upgraded = match begun.await {
            Ok(upgraded) => upgraded,
            Err(error) => {
                tracing::debug!(%error, "a WebSocket did not come about");
                return;
            }
        };
        if let Some(slot) = &slot {
            // It does not give way to who comes, though no request of it is being answered.
            slot.sitter().is_served();
        }
        let mut builder = handshake.into_builder(TokioIo::new(upgraded).compat());
        builder.set_max_message_size(max_message);
        builder.set_max_frame_size(max_message);
        let (sender, mut receiver) = builder.finish();
        let (heard, messages) = mpsc::channel(READ_AHEAD);
        // Apart, since a message that is being read must not be given up for something else.
        let reader = tokio::spawn(async move {
            loop {
                let mut bytes = Vec::new();
                let read = match receiver.receive(&mut bytes).await {
                    Ok(Incoming::Data(Data::Text(_))) => match String::from_utf8(bytes) {
                        Ok(text) => Heard::Message(WebSocketMessage::Text(text)),
                        Err(_) => return,
                    },
                    Ok(Incoming::Data(Data::Binary(_))) => Heard::Message(WebSocketMessage::Binary(bytes)),
                    Ok(Incoming::Pong(_)) => Heard::Pong,
                    Ok(Incoming::Closed(_)) | Err(_) => return,
                };
                if heard.send(read).await.is_err() {
                    return;
                }
            }
        });
        let mut ping = tokio::time::interval(PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        serve(WebSocket {
            sender: WebSocketSender(Arc::new(Mutex::new(sender))),
            messages,
            _reader: AbortOnDropHandle::new(reader),
            heard: Instant::now(),
            ping,
            permit,
            _slot: slot,
        })
        .await;
    });
    Ok(answer.map(|()| Body::empty()))
}

impl WebSocket {
    /// The next message; `None`: the client has closed the socket or is gone. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When its caller has too much in memory.
    pub async fn receive(&mut self) -> Option<Result<WebSocketMessage, Refusal>> {
        loop {
            tokio::select! {
                heard = self.messages.recv() => {
                    self.heard = Instant::now();
                    match heard? {
                        Heard::Pong => {}
                        Heard::Message(message) => {
                            let length = match &message {
                                WebSocketMessage::Text(text) => text.len(),
                                WebSocketMessage::Binary(bytes) => bytes.len(),
                            };
                            if !self.permit.charge_body(length) {
                                return Some(Err(too_much_memory()));
                            }
                            return Some(Ok(message));
                        }
                    }
                }
                _ = self.ping.tick() => {
                    if self.heard.elapsed() > GONE_AFTER || !self.ping().await {
                        return None;
                    }
                }
            }
        }
    }

    async fn ping(&self) -> bool {
        let Ok(empty) = (&[][..]).try_into() else {
            return false;
        };
        // While a message is being sent, that shows whether the client is there.
        let Ok(mut sender) = self.sender.0.try_lock() else {
            return true;
        };
        sender.send_ping(empty).await.is_ok() && sender.flush().await.is_ok()
    }

    /// Sends while this side waits for messages.
    pub fn sender(&self) -> WebSocketSender {
        self.sender.clone()
    }

    /// The message that was received last is not in memory any more.
    pub fn release_message(&self) {
        self.permit.release_body();
    }

    /// Sends text. False: the client is gone.
    pub async fn send_text(&self, text: &str) -> bool {
        self.sender.send_text(text).await
    }

    /// Closes the socket in good order.
    pub async fn close(self) {
        self.sender.close().await;
    }
}

impl WebSocketSender {
    /// Sends text. False: the client is gone.
    pub async fn send_text(&self, text: &str) -> bool {
        let mut sender = self.0.lock().await;
        sender.send_text(text).await.is_ok() && sender.flush().await.is_ok()
    }

    /// Sends bytes. False: the client is gone.
    pub async fn send_binary(&self, bytes: &[u8]) -> bool {
        let mut sender = self.0.lock().await;
        sender.send_binary(bytes).await.is_ok() && sender.flush().await.is_ok()
    }

    /// Closes the socket in good order, by code 1000.
    pub async fn close(&self) {
        let _ = self.0.lock().await.close().await;
    }
}
