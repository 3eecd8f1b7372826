//! Whose home it is: a daemon serves it alone. One that finds its home served, or about to be, by another daemon of the same
//! key is a guest: it waits until the other one answers, says where that is, stays a little, and ends well.
//!
//! So two programs on the published SDKs can start at once. Each starts a daemon where it finds no socket, takes the end of
//! the process for a failure while there is none, and is served by whichever daemon has the socket.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_daemon_kit::{process::StartLines, service_manager};
use agentanycast_identity::{self as identity, KeyError, KeyLock, Keypair, PeerId};
use agentanycast_proto::v1::{self, node_service_client::NodeServiceClient};
use hyper_util::rt::TokioIo;
use tokio::{
    net::UnixStream,
    time::{Instant, sleep, timeout},
};
use tonic::{
    Request,
    transport::{Endpoint, Uri},
};

use crate::{
    config::{Config, GrpcListen},
    grpc::listen::ListenError,
};

/// How long the other daemon may take until it answers: opening a large store takes seconds, and the SDKs wait as long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a key may have two names while its file is made.
const SINGLE_LINK_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between two looks for it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a guest stays after the other one has answered: a program that started it looks for the socket meanwhile.
const EXIT_DELAY: Duration = Duration::from_secs(2);

/// What a daemon finds when it starts.
pub(super) enum HomeState {
    /// Nobody serves it; the key is held for this process.
    Free(Keypair, KeyLock),
    /// Another daemon serves it.
    Served(HomeDaemon),
}

/// The daemon that serves a home, as it describes itself.
#[derive(Debug)]
pub(super) struct HomeDaemon {
    peer: String,
    addresses: Vec<String>,
}

impl HomeState {
    /// Holds the key of the home, or waits until the daemon that holds it answers on the home's socket. With a client on
    /// standard input and output it does not wait.
    pub(super) async fn enter(config: &Config, has_stdio: bool) -> anyhow::Result<Self> {
        let Some(socket) = socket_in_home(config, has_stdio) else {
            let (key, held) = identity::load_and_hold(&config.key_path)?;
            return Ok(Self::Free(key, held));
        };
        let began = Instant::now();
        loop {
            let (free, key) = match identity::load_and_hold(&config.key_path) {
                Ok((key, held)) => (Some(held), key),
                Err(KeyError::InUse { .. }) => (None, identity::load_or_create(&config.key_path)?),
                Err(error) => return Err(error.into()),
            };
            if let Some(host) = find_daemon(socket, config.grpc.token_file.as_deref()).await {
                if host.peer == identity::peer_id(&key).to_string() {
                    return Ok(Self::Served(host));
                }
                let path = socket.to_owned();
                return Err(ListenError::InUse { path }.into());
            }
            match free {
                Some(held) => return Ok(Self::Free(key, held)),
                None if began.elapsed() < wait_for(&config.key_path) => sleep(POLL_INTERVAL).await,
                None => {
                    let path = config.key_path.clone();
                    return Err(KeyError::InUse { path }.into());
                }
            }
        }
    }
}

impl HomeDaemon {
    /// Announces the other daemon as if it were this one, and returns when a guest may end.
    pub(super) async fn announce_and_wait(&self) -> anyhow::Result<()> {
        tracing::info!(peer = self.peer, "another daemon serves this home; this one ends");
        let peer = &self.peer;
        let addresses = self.addresses.iter();
        let lines: String = std::iter::once(format!("PEER_ID={peer}\n"))
            .chain(addresses.map(|address| format!("LISTEN_ADDR={address}/p2p/{peer}\n")))
            .collect();
        service_manager::ready();
        tokio::select! {
            error = StartLines::Stdout.announce(lines.into_bytes()) => Err(error.into()),
            () = sleep(EXIT_DELAY) => Ok(()),
        }
    }
}

/// The socket, if it is in the same directory as the key: then both belong to one daemon. A client on standard input and
/// output is served by this process or by none.
fn socket_in_home(config: &Config, has_stdio: bool) -> Option<&Path> {
    match &config.grpc_listen {
        GrpcListen::Unix(socket) if !has_stdio && socket.parent() == config.key_path.parent() => Some(socket),
        _ => None,
    }
}

/// How long the daemon that holds the key is waited for.
fn wait_for(key: &Path) -> Duration {
    if has_one_name(key) {
        ANSWER_TIMEOUT
    } else {
        SINGLE_LINK_TIMEOUT
    }
}

/// Whether the key is a file with one name. One with several may be that of a daemon with another socket.
fn has_one_name(key: &Path) -> bool {
    fs::symlink_metadata(key).is_ok_and(|found| found.is_file() && found.nlink() == 1)
}

/// The daemon that answers on a socket, if one does.
async fn find_daemon(socket: &Path, token_file: Option<&Path>) -> Option<HomeDaemon> {
    let token = match token_file {
        Some(path) => Some(fs::read_to_string(path).ok()?),
        None => None,
    };
    let info = timeout(CALL_TIMEOUT, node_info(socket.to_owned(), token))
        .await
        .ok()??;
    Some(HomeDaemon {
        peer: info.peer_id.parse::<PeerId>().ok()?.to_string(),
        addresses: info.listen_addresses,
    })
}

async fn node_info(socket: PathBuf, token: Option<String>) -> Option<v1::NodeInfo> {
    let connect = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { Ok::<_, io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    });
    let endpoint = Endpoint::from(Uri::from_static("http://localhost"));
    let channel = endpoint.connect_with_connector(connect).await.ok()?;
    let mut request = Request::new(v1::GetNodeInfoRequest::default());
    if let Some(token) = token {
        let value = format!("Bearer {}", token.trim()).parse().ok()?;
        request.metadata_mut().insert("authorization", value);
    }
    let answer = NodeServiceClient::new(channel).get_node_info(request).await;
    answer.ok()?.into_inner().node_info
}
