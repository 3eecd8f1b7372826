//! Accepts the connections of agents: a Unix socket of this user alone, or TCP with or without TLS.
//!
//! `unix` places the socket file, `tls` reads the certificate, `connection` is one accepted connection. Errors of
//! single connections are handled here: the stream that the server reads ends only with the server, since
//! the gRPC library ends its server at the first error it does not know.

mod client_close;
mod connection;
mod process;
mod tls;
mod unix;

use std::{
    collections::HashSet,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentanycast_identity::PeerId;
use futures::{Stream, stream};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time,
};
use tokio_rustls::TlsAcceptor;

use crate::config::{GrpcAccess, GrpcListen};

pub use connection::{CallerInfo, ClientConnections, Conn, ConnectionId};

/// Most connections at a time, half of the usual limit of open files; an agent has one. More wait in
/// the system's queue until one ends.
pub const MAX_CONNECTIONS: usize = 512;

/// Time a client has for the TLS handshake: several round trips of a bad network.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after an accept that failed for want of files or memory, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Other users that are named in the log, once each. The rest is refused without a line.
const MAX_LOGGED_USERS: usize = 64;

/// Why the gRPC face cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another process answers on the socket.
    #[error("{}: another daemon answers on this socket; stop it, or choose another --grpc-listen", .path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has the socket's name.
    #[error("{} exists and is not a socket; move it away, or choose another --grpc-listen", .path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system's socket addresses cannot hold the path.
    #[error("{}: this path is too long for a socket (about 100 bytes); choose a shorter --grpc-listen", .path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },
    /// The certificate or its key cannot be used.
    #[error("{}: {reason}", .path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system refused.
    #[error("cannot listen on {address}: {action}: {cause}")]
    Io {
        /// The address as configured.
        address: String,
        /// What was being done.
        action: &'static str,
        /// The system's reason.
        cause: io::Error,
    },
}

/// The bound gRPC face. Dropping it ends listening and removes its socket file.
pub struct GrpcListener {
    socket: Socket,
    address: GrpcListen,
    tls: Option<TlsAcceptor>,
    handshakes: JoinSet<Option<Conn>>,
    slots: Arc<Semaphore>,
    connections: ClientConnections,
    /// Whose callers come here, if they are one agent's.
    agent: Option<Arc<str>>,
    refused_users: HashSet<u32>,
}

enum Socket {
    Unix { socket: unix::UnixSocket, owner: u32 },
    Tcp(TcpListener),
}

/// Binds the address. What may be bound is decided by the configuration's checks, not here.
pub async fn bind(listen: &GrpcListen, access: &GrpcAccess) -> Result<GrpcListener, ListenError> {
    let tls = tls::acceptor(access)?;
    let (socket, address) = match listen {
        GrpcListen::Unix(path) => {
            let socket = unix::UnixSocket::bind(path).await?;
            let owner = rustix::process::geteuid().as_raw();
            (Socket::Unix { socket, owner }, listen.clone())
        }
        GrpcListen::Tcp { host, port } => {
            let error = |action| {
                move |cause| ListenError::Io {
                    address: listen.to_string(),
                    action,
                    cause,
                }
            };
            let listener = TcpListener::bind((host.as_str(), *port))
                .await
                .map_err(error("bind"))?;
            let bound = listener.local_addr().map_err(error("ask for its address"))?;
            (
                Socket::Tcp(listener),
                GrpcListen::Tcp {
                    host: bound.ip().to_string(),
                    port: bound.port(),
                },
            )
        }
    };
    if !listen.is_local() && access.allow_remote && (tls.is_none() || access.token_file.is_none()) {
        tracing::warn!(%address, "--grpc-allow-remote: whoever reaches this address controls this node");
    }
    Ok(GrpcListener {
        socket,
        address,
        tls,
        handshakes: JoinSet::new(),
        slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        connections: ClientConnections::default(),
        agent: None,
        refused_users: HashSet::new(),
    })
}

impl GrpcListener {
    /// A Unix socket whose file was deleted is made again only while this key file has the key of this node.
    #[must_use]
    pub fn kept_while(mut self, key: &Path, peer: PeerId) -> Self {
        if let Socket::Unix { socket, .. } = &mut self.socket {
            socket.keep_while(key.to_owned(), peer);
        }
        self
    }

    /// The bound address: a TCP port that was 0 is the real one.
    pub fn address(&self) -> &GrpcListen {
        &self.address
    }

    /// Tells which connections are alive; stays valid when the listener has become a stream.
    pub fn connections(&self) -> ClientConnections {
        self.connections.clone()
    }

    /// Takes the callers of this agent alone, whose connections are in the register of the node's own socket.
    #[must_use]
    pub fn for_agent(mut self, agent: Arc<str>, connections: ClientConnections) -> Self {
        (self.agent, self.connections) = (Some(agent), connections);
        self
    }

    /// All connections from now on, for tonic's `serve_with_incoming_shutdown`. Never ends, never fails.
    pub fn into_incoming(self) -> impl Stream<Item = io::Result<Conn>> + Send + 'static {
        stream::unfold(self, |mut listener| async move {
            let conn = listener.accept().await;
            Some((Ok(conn), listener))
        })
    }

    /// The next connection that may call. Cancel safe.
    pub async fn accept(&mut self) -> Conn {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(conn)) = done {
                        return conn;
                    }
                }
                (accepted, slot) = next(&mut self.socket, &self.slots) => {
                    if let Some(conn) = self.admit(accepted, slot) {
                        return conn;
                    }
                }
            }
        }
    }

    /// A connection that may call at once; one with TLS comes back when its handshake is done.
    fn admit(&mut self, accepted: AcceptedSocket, slot: OwnedSemaphorePermit) -> Option<Conn> {
        match (accepted, &self.socket) {
            (AcceptedSocket::Unix(stream), Socket::Unix { owner, .. }) => match stream.peer_cred() {
                Ok(peer) if peer.uid() == *owner => Some(Conn::unix(
                    stream,
                    peer,
                    self.connections.open(slot, self.agent.clone()),
                )),
                Ok(peer) => {
                    self.log_refused(peer.uid());
                    None
                }
                // The client is gone already.
                Err(_) => None,
            },
            (AcceptedSocket::Unix(_), Socket::Tcp(_)) => None,
            (AcceptedSocket::Tcp(stream), _) => {
                // Small answers must not wait for each other. If this fails the connection is broken,
                // and the first read says so.
                let _ = stream.set_nodelay(true);
                let Some(tls) = &self.tls else {
                    return Some(Conn::tcp(stream, self.connections.open(slot, self.agent.clone())));
                };
                let (handshake, connections) = (tls.accept(stream), self.connections.clone());
                let agent = self.agent.clone();
                self.handshakes.spawn(async move {
                    match time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
                        Ok(Ok(stream)) => Some(Conn::tls(stream, connections.open(slot, agent))),
                        Ok(Err(error)) => {
                            tracing::debug!(%error, "TLS handshake failed");
                            None
                        }
                        Err(_) => None,
                    }
                });
                None
            }
        }
    }

    fn log_refused(&mut self, uid: u32) {
        if self.refused_users.len() < MAX_LOGGED_USERS && self.refused_users.insert(uid) {
            tracing::warn!(
                uid,
                "refused a connection of another user; only the user of this daemon may call"
            );
        }
    }
}

impl fmt::Debug for GrpcListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcListener")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

enum AcceptedSocket {
    Unix(tokio::net::UnixStream),
    Tcp(tokio::net::TcpStream),
}

/// Waits for a free slot, then for a connection.
async fn next(socket: &mut Socket, slots: &Arc<Semaphore>) -> (AcceptedSocket, OwnedSemaphorePermit) {
    loop {
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
            // The semaphore is never closed.
            return std::future::pending().await;
        };
        let accepted = match socket {
            Socket::Unix { socket, .. } => socket.accept().await.map(AcceptedSocket::Unix),
            Socket::Tcp(listener) => listener
                .accept()
                .await
                .map(|(stream, _)| AcceptedSocket::Tcp(stream)),
        };
        match accepted {
            Ok(accepted) => return (accepted, slot),
            Err(error) => {
                // One that went away while it waited costs nothing; want of files or memory passes.
                if error.kind() != io::ErrorKind::ConnectionAborted {
                    tracing::warn!(%error, "cannot accept a connection; trying again");
                    time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
