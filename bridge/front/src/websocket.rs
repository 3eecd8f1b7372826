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
use futures::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    sync::{Mutex, mpsc},
    time::{MissedTickBehavior, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Bytes, Error, Message,
        handshake::server::create_response,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    admission::RequestPermit,
    client_connection::ClientConnection,
    json_body::too_much_memory,
    lingering_io::{LingerSwitch, LingeringIo},
    refusal::{Refusal, RefusalKind},
};

/// How often a silent client is asked whether it is there, and after what silence it is gone.
const PING_EVERY: Duration = Duration::from_secs(30);
const GONE_AFTER: Duration = Duration::from_secs(80);

/// Longest reason of a close frame, in bytes: a control frame has 125, with the code.
const LONGEST_REASON: usize = 120;

/// How long a client may take that is told that its socket ends.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// What is read of a socket at a time, in bytes. Each connection has a buffer of this size for as long as it
/// is open: the library's 128 KiB make 131 MiB for 1000 clients.
const READ_BUFFER: usize = 16 << 10;

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

type Socket = WebSocketStream<LingeringIo<TokioIo<Upgraded>>>;

/// A socket. Dropping it ends the connection.
pub struct WebSocket {
    sender: WebSocketSender,
    messages: mpsc::Receiver<Heard>,
    _reader: AbortOnDropHandle<()>,
    heard: Instant,
    ping: tokio::time::Interval,
    permit: RequestPermit,
    linger: LingerSwitch,
    _slot: Option<Arc<Slot>>,
}

/// Sends on a socket, beside what receives on it. Clones send on the same one, one message after another.
#[derive(Clone)]
pub struct WebSocketSender(Arc<Mutex<SplitSink<Socket, Message>>>);

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
    let not_one = |_| {
        Refusal::new(
            RefusalKind::Invalid,
            "this path takes a WebSocket: a GET over HTTP/1.1 with Upgrade: websocket",
        )
    };
    let answer = create_response(&head_of(request)).map_err(not_one)?;
    let begun = request.extensions_mut().remove::<OnUpgrade>();
    let begun = begun.ok_or_else(|| not_one(Error::ConnectionClosed))?;
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
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .max_message_size(Some(max_message))
            .max_frame_size(Some(max_message))
            .max_write_buffer_size(usize::MAX);
        let (io, linger) = LingeringIo::new(TokioIo::new(upgraded), slot.clone());
        let socket = Socket::from_raw_socket(io, Role::Server, Some(config)).await;
        let (sender, receiver) = socket.split();
        let sender = WebSocketSender(Arc::new(Mutex::new(sender)));
        let (heard, messages) = mpsc::channel(READ_AHEAD);
        // Apart, since a message that is being read must not be given up for something else.
        let reader = tokio::spawn(read(receiver, (sender.clone(), linger.clone()), heard));
        let mut ping = tokio::time::interval(PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        serve(WebSocket {
            sender,
            messages,
            _reader: AbortOnDropHandle::new(reader),
            heard: Instant::now(),
            ping,
            permit,
            linger,
            _slot: slot,
        })
        .await;
    });
    Ok(answer.map(|()| Body::empty()))
}

/// What the handshake looks at.
fn head_of(request: &Request) -> http::Request<()> {
    let mut head = http::Request::new(());
    *head.method_mut() = request.method().clone();
    *head.version_mut() = request.version();
    *head.headers_mut() = request.headers().clone();
    head
}

/// Reads messages until the socket ends. A message that is not taken closes it with the code of the reason.
async fn read(
    mut receiver: SplitStream<Socket>,
    (sender, linger): (WebSocketSender, LingerSwitch),
    heard: mpsc::Sender<Heard>,
) {
    while let Some(read) = receiver.next().await {
        let read = match read {
            Ok(Message::Text(text)) => Heard::Message(WebSocketMessage::Text(text.as_str().to_owned())),
            Ok(Message::Binary(bytes)) => Heard::Message(WebSocketMessage::Binary(bytes.into())),
            Ok(Message::Pong(_)) => Heard::Pong,
            Ok(Message::Ping(_) | Message::Frame(_)) => continue,
            Ok(Message::Close(_)) => {
                // The answer to it is waiting to be sent.
                let _ = timeout(CLOSE_WITHIN, async { sender.0.lock().await.flush().await }).await;
                return;
            }
            Err(error) => {
                if let Some(code) = close_code(&error) {
                    linger.turn_on();
                    let reason = error.to_string();
                    let closing = sender.close_with(code, &reason);
                    let _ = timeout(CLOSE_WITHIN, closing).await;
                }
                return;
            }
        };
        if heard.send(read).await.is_err() {
            return;
        }
    }
}

/// The code by which a socket is closed after a message that is not taken (RFC 6455, 7.4.1). `None`: it is closed already.
fn close_code(error: &Error) -> Option<u16> {
    let code = match error {
        Error::Capacity(_) => CloseCode::Size,
        Error::Utf8(_) => CloseCode::Invalid,
        Error::Protocol(_) => CloseCode::Protocol,
        _ => return None,
    };
    Some(code.into())
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
        // While a message is being sent, that shows whether the client is there.
        let Ok(mut sender) = self.sender.0.try_lock() else {
            return true;
        };
        sender.send(Message::Ping(Bytes::new())).await.is_ok()
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

    /// Closes the socket by this code (RFC 6455, 7.4).
    pub async fn close_with(self, code: u16) {
        self.linger.turn_on();
        self.sender.close_with(code, "").await;
    }
}

impl WebSocketSender {
    /// Sends text. False: the client is gone.
    pub async fn send_text(&self, text: &str) -> bool {
        self.send(Message::text(text)).await
    }

    /// Sends bytes. False: the client is gone.
    pub async fn send_binary(&self, bytes: impl Into<Bytes>) -> bool {
        self.send(Message::Binary(bytes.into())).await
    }

    async fn send(&self, message: Message) -> bool {
        self.0.lock().await.send(message).await.is_ok()
    }

    /// Closes the socket in good order, by code 1000.
    pub async fn close(&self) {
        self.close_with(CloseCode::Normal.into(), "").await;
    }

    /// Closes the socket by this code (RFC 6455, 7.4) and with this reason, of which 120 bytes are sent at most.
    pub async fn close_with(&self, code: u16, reason: &str) {
        let frame = CloseFrame {
            code: code.into(),
            reason: reason[..reason.floor_char_boundary(LONGEST_REASON)].into(),
        };
        // One that is closed already needs no second frame.
        let _ = self.0.lock().await.send(Message::Close(Some(frame))).await;
    }
}
