//! WebSockets (RFC 6455) as transports: of clients, and of servers that have no listener of their own.
//!
//! Invariant: a message has a largest size, and a peer that answers no ping is gone after a time.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use soketto::{
    Data, Incoming, Receiver, Sender,
    base::Error as FrameError,
    connection::{Builder, Error as SocketError},
    handshake::{Client, Server, ServerResponse, server::Response},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Mutex, mpsc},
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::{
    compat::{Compat, TokioAsyncReadCompatExt as _},
    sync::CancellationToken,
    task::AbortOnDropHandle,
};

use super::{
    CLOSE_NORMAL, FrameReceiver, FrameSender, Transport, TransportError, WireFrame,
    counted_io::{CountedIo, ReadCounter},
};
use crate::messages::MAX_MESSAGE;

/// Largest handshake, in bytes.
const MAX_HANDSHAKE: usize = 64 << 10;

/// How long a handshake of a client may take that [`accept`] answers.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);

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

type Socket<T> = Compat<CountedIo<T>>;

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
    let (socket, counter) = CountedIo::new(socket, MAX_HANDSHAKE);
    let mut handshake = Client::new(socket.compat(), host, resource);
    let answer = handshake
        .handshake()
        .await
        .map_err(|error| TransportError::Connect {
            address: address.to_owned(),
            reason: error.to_string(),
        })?;
    match answer {
        ServerResponse::Accepted { .. } => Ok(transport(handshake.into_builder(), counter, settings)),
        ServerResponse::Rejected { status_code } | ServerResponse::Redirect { status_code, .. } => {
            Err(TransportError::Rejected {
                address: address.to_owned(),
                status: status_code,
            })
        }
    }
}

/// Answers a client's handshake on `socket`. `admit` gets the path with its query, and gives the HTTP status with
/// which the client is refused.
///
/// # Errors
/// When it is not a handshake, or the client is refused.
pub async fn accept<T>(
    socket: T,
    settings: &WebSocketSettings,
    admit: impl FnOnce(&str) -> Result<(), u16>,
) -> Result<Transport, TransportError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let broken = |error: soketto::handshake::Error| TransportError::Protocol {
        reason: error.to_string(),
    };
    let (socket, counter) = CountedIo::new(socket, MAX_HANDSHAKE);
    let mut handshake = Server::new(socket.compat());
    let answered = async {
        let request = handshake.receive_request().await.map_err(broken)?;
        let path = request.path().to_owned();
        let admitted = admit(&path);
        let key = request.key();
        let response = match admitted {
            Ok(()) => Response::Accept { key, protocol: None },
            Err(status_code) => Response::Reject { status_code },
        };
        handshake.send_response(&response).await.map_err(broken)?;
        admitted.map_err(|status| TransportError::Rejected {
            address: path.split('?').next().unwrap_or_default().to_owned(),
            status,
        })
    };
    timeout(ACCEPT_WITHIN, answered)
        .await
        .unwrap_or(Err(TransportError::Closed))?;
    Ok(transport(handshake.into_builder(), counter, settings))
}

fn transport<T>(
    mut builder: Builder<Socket<T>>,
    counter: Arc<ReadCounter>,
    settings: &WebSocketSettings,
) -> Transport
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    counter.lift();
    builder.set_max_message_size(settings.max_message);
    builder.set_max_frame_size(settings.max_message);
    let (sender, receiver) = builder.finish();
    let sender = Arc::new(Mutex::new(sender));
    let gone = CancellationToken::new();
    let (found, frames) = mpsc::channel(READ_AHEAD);
    // Apart, since soketto loses a message whose reading is given up.
    let (max, ended) = (settings.max_message, gone.clone());
    let reader = tokio::spawn(async move {
        ended.run_until_cancelled(read(receiver, max, found)).await;
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

async fn read<T>(
    mut socket: Receiver<Socket<T>>,
    max: usize,
    found: mpsc::Sender<Result<WireFrame, TransportError>>,
) where
    T: AsyncRead + AsyncWrite + Send + Unpin,
{
    loop {
        let mut bytes = Vec::new();
        let frame = match socket.receive(&mut bytes).await {
            Ok(Incoming::Data(Data::Text(_))) => match String::from_utf8(bytes) {
                Ok(text) => Ok(WireFrame::Text(text)),
                Err(_) => Err(TransportError::Protocol {
                    reason: "its text is not UTF-8".to_owned(),
                }),
            },
            Ok(Incoming::Data(Data::Binary(_))) => Ok(WireFrame::Binary(bytes.into())),
            Ok(Incoming::Pong(_)) => continue,
            Ok(Incoming::Closed(_)) | Err(SocketError::Closed | SocketError::Io(_)) => return,
            Err(
                SocketError::MessageTooLarge { .. } | SocketError::Codec(FrameError::PayloadTooLarge { .. }),
            ) => Err(TransportError::TooLarge { max }),
            Err(error) => Err(TransportError::Protocol {
                reason: error.to_string(),
            }),
        };
        let ends = frame.is_err();
        if found.send(frame).await.is_err() || ends {
            return;
        }
    }
}

async fn ping<T>(
    sender: Arc<Mutex<Sender<Socket<T>>>>,
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
        let Ok(empty) = (&[][..]).try_into() else {
            return;
        };
        // A socket that takes nothing may still hold what the peer sent last: the reader finds its end.
        if sender.send_ping(empty).await.is_ok() {
            let _ = sender.flush().await;
        }
    }
}

struct WebSocketSender<T> {
    socket: Arc<Mutex<Sender<Socket<T>>>>,
    close_timeout: Duration,
}

#[async_trait]
impl<T> FrameSender for WebSocketSender<T>
where
    T: AsyncRead + AsyncWrite + Send + Unpin,
{
    async fn send(&mut self, frame: WireFrame) -> Result<(), TransportError> {
        let mut socket = self.socket.lock().await;
        let sent = match frame {
            WireFrame::Text(text) => socket.send_text_owned(text).await,
            WireFrame::Binary(bytes) => socket.send_binary(&bytes).await,
        };
        sent.map_err(|_| TransportError::Closed)?;
        socket.flush().await.map_err(|_| TransportError::Closed)
    }

    async fn close(&mut self, code: u16) {
        if code != CLOSE_NORMAL {
            tracing::debug!(code, "a WebSocket is closed with code 1000 instead");
        }
        let closed = async { self.socket.lock().await.close().await };
        let _ = timeout(self.close_timeout, closed).await;
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
