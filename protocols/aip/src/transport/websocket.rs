//! WebSockets (RFC 6455) as transports: of clients, and of servers that have no listener of their own.
//!
//! Invariant: a message has a largest size, and a peer that answers no ping is gone after a time.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use http::{Response, StatusCode};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Mutex, mpsc},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async_with_config, client_async_with_config,
    tungstenite::{
        Bytes, Error, Message,
        client::IntoClientRequest as _,
        error::ProtocolError,
        handshake::server::{Request as HandshakeRequest, Response as HandshakeResponse},
        protocol::{CloseFrame, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    FrameReceiver, FrameSender, Transport, TransportError, WireFrame,
    counted_io::{CountedIo, ReadCounter},
};
use crate::messages::MAX_MESSAGE;

/// Largest handshake, in bytes.
const MAX_HANDSHAKE: usize = 64 << 10;

/// How long a handshake of a client may take that [`accept`] answers.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);

/// How long a peer may take that is told why its message is not taken.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// What is read of a socket at a time, in bytes. Each connection has a buffer of this size for as long as it
/// is open: the library's 128 KiB make 131 MiB for 1000 devices.
const READ_BUFFER: usize = 16 << 10;

/// Messages that are read before they are taken.
const READ_AHEAD: usize = 1;

/// How a WebSocket behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebSocketSettings {
    /// How often the peer is pinged. The protocol: 20 s for devices, 30 s for services.
    pub ping: Duration,
    /// After what silence the peer is gone. The protocol: 180 s.
    pub pong_timeout: Duration,
    /// How long closing may take. The protocol: 10 s.
    pub close_timeout: Duration,
    /// Largest message, in bytes. The protocol: 100 MiB.
    pub max_message: usize,
}

impl Default for WebSocketSettings {
    fn default() -> Self {
        Self {
            ping: Duration::from_secs(20),
            pong_timeout: Duration::from_mins(3),
            close_timeout: Duration::from_secs(10),
            max_message: MAX_MESSAGE,
        }
    }
}

type Socket<T> = WebSocketStream<CountedIo<T>>;

/// What sends on a socket: its owner, and what pings.
type SharedSink<T> = Arc<Mutex<SplitSink<Socket<T>, Message>>>;

/// A WebSocket over `socket`, whose client this side is.
pub(super) async fn connect_over<T>(
    socket: T,
    host: &str,
    resource: &str,
    address: &str,
    settings: &WebSocketSettings,
) -> Result<Transport, TransportError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |reason: String| TransportError::Connect {
        address: address.to_owned(),
        reason,
    };
    let request = format!("ws://{host}{resource}").into_client_request();
    let request = request.map_err(|error| failed(error.to_string()))?;
    let (socket, counter) = CountedIo::new(socket, MAX_HANDSHAKE);
    match client_async_with_config(request, socket, Some(config(settings))).await {
        Ok((socket, _)) => Ok(transport(socket, counter, settings)),
        Err(Error::Http(response)) => Err(TransportError::Rejected {
            address: address.to_owned(),
            status: response.status().as_u16(),
        }),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn config(settings: &WebSocketSettings) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(settings.max_message))
        .max_frame_size(Some(settings.max_message))
        .max_write_buffer_size(usize::MAX)
}

/// Answers a client's handshake on `socket`. `admit` gets the path with its query, and gives the HTTP status with
/// which the client is refused.
///
/// # Errors
/// When it is not a handshake, or the client is refused.
pub async fn accept<T>(
    socket: T,
    settings: &WebSocketSettings,
    admit: impl FnOnce(&str) -> Result<(), u16> + Unpin,
) -> Result<Transport, TransportError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (socket, counter) = CountedIo::new(socket, MAX_HANDSHAKE);
    let mut refused = None;
    #[allow(clippy::result_large_err, reason = "the library's form of a callback")]
    let check = |request: &HandshakeRequest, response: HandshakeResponse| {
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        let Err(status) = admit(path) else {
            return Ok(response);
        };
        refused = Some(TransportError::Rejected {
            address: request.uri().path().to_owned(),
            status,
        });
        let mut response = Response::new(None);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
        Err(response)
    };
    let answered = accept_hdr_async_with_config(socket, check, Some(config(settings)));
    let answered = timeout(ACCEPT_WITHIN, answered).await;
    match (answered, refused) {
        (Err(_), _) => Err(TransportError::Closed),
        (Ok(_), Some(refused)) => Err(refused),
        (Ok(Err(error)), None) => Err(TransportError::Protocol {
            reason: error.to_string(),
        }),
        (Ok(Ok(socket)), None) => Ok(transport(socket, counter, settings)),
    }
}

fn transport<T>(socket: Socket<T>, counter: Arc<ReadCounter>, settings: &WebSocketSettings) -> Transport
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    counter.lift();
    let (sender, receiver) = socket.split();
    let sender = Arc::new(Mutex::new(sender));
    let gone = CancellationToken::new();
    let (found, frames) = mpsc::channel(READ_AHEAD);
    // Apart, so that pings are answered while the owner does something else.
    let (max, ended, closing) = (settings.max_message, gone.clone(), Arc::clone(&sender));
    let reader = tokio::spawn(async move {
        ended
            .run_until_cancelled(read(receiver, closing, max, found))
            .await;
    });
    let pinger = tokio::spawn(ping(Arc::clone(&sender), counter, *settings, gone));
    Transport::new(
        WebSocketSender {
            socket: sender,
            close_timeout: settings.close_timeout,
        },
        WebSocketReceiver {
            frames,
            _tasks: [AbortOnDropHandle::new(reader), AbortOnDropHandle::new(pinger)],
        },
    )
}

/// Reads until the socket ends. A message that is not taken closes it with the code of the reason (RFC 6455, 7.4.1).
async fn read<T>(
    mut socket: SplitStream<Socket<T>>,
    sender: SharedSink<T>,
    max: usize,
    found: mpsc::Sender<Result<WireFrame, TransportError>>,
) where
    T: AsyncRead + AsyncWrite + Send + Unpin,
{
    while let Some(message) = socket.next().await {
        let frame = match message {
            Ok(Message::Text(text)) => Ok(WireFrame::Text(text.as_str().to_owned())),
            Ok(Message::Binary(bytes)) => Ok(WireFrame::Binary(bytes)),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => continue,
            Ok(Message::Close(_)) => {
                // The answer to it is waiting to be sent.
                let _ = timeout(CLOSE_WITHIN, async { sender.lock().await.flush().await }).await;
                return;
            }
            Err(Error::Capacity(_)) => Err((CloseCode::Size, TransportError::TooLarge { max })),
            Err(Error::Utf8(_)) => Err((
                CloseCode::Invalid,
                TransportError::Protocol {
                    reason: "its text is not UTF-8".to_owned(),
                },
            )),
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => return,
            Err(Error::Protocol(error)) => Err((
                CloseCode::Protocol,
                TransportError::Protocol {
                    reason: error.to_string(),
                },
            )),
            Err(_) => return,
        };
        if let Err((code, _)) = &frame {
            let _ = timeout(CLOSE_WITHIN, close(&sender, *code)).await;
        }
        let ends = frame.is_err();
        let taken = found.send(frame.map_err(|(_, error)| error)).await;
        if ends || taken.is_err() {
            return;
        }
    }
}

/// Closes a socket. One that is closed already needs no second frame.
async fn close<T>(sender: &SharedSink<T>, code: CloseCode)
where
    T: AsyncRead + AsyncWrite + Send + Unpin,
{
    let frame = CloseFrame {
        code,
        reason: "".into(),
    };
    let _ = sender.lock().await.send(Message::Close(Some(frame))).await;
}

async fn ping<T>(
    sender: SharedSink<T>,
    counter: Arc<ReadCounter>,
    settings: WebSocketSettings,
    gone: CancellationToken,
) where
    T: AsyncRead + AsyncWrite + Send + Unpin,
{
    let mut ticks = interval(settings.ping);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if counter.silence() > settings.pong_timeout {
            return gone.cancel();
        }
        // While a message is being sent, what is sent shows that this side is there.
        let Ok(mut sender) = sender.try_lock() else {
            continue;
        };
        // A socket that takes nothing may still hold what the peer sent last: the reader finds its end.
        let _ = sender.send(Message::Ping(Bytes::new())).await;
    }
}

struct WebSocketSender<T> {
    socket: SharedSink<T>,
    close_timeout: Duration,
}

#[async_trait]
impl<T> FrameSender for WebSocketSender<T>
where
    T: AsyncRead + AsyncWrite + Send + Unpin,
{
    async fn send(&mut self, frame: WireFrame) -> Result<(), TransportError> {
        let message = match frame {
            WireFrame::Text(text) => Message::text(text),
            WireFrame::Binary(bytes) => Message::Binary(bytes),
        };
        let sent = self.socket.lock().await.send(message).await;
        sent.map_err(|_| TransportError::Closed)
    }

    async fn close(&mut self, code: u16) {
        let _ = timeout(self.close_timeout, close(&self.socket, code.into())).await;
    }
}

struct WebSocketReceiver {
    frames: mpsc::Receiver<Result<WireFrame, TransportError>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

#[async_trait]
impl FrameReceiver for WebSocketReceiver {
    async fn receive(&mut self) -> Option<Result<WireFrame, TransportError>> {
        self.frames.recv().await
    }
}
