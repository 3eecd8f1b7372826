//! The road to the daemon: a Unix socket or a TCP address, and the gRPC channel over it. The channel
//! connects when it is first used and again after a loss; each connection made is counted, so that
//! the session knows when it speaks to a daemon that may have been restarted.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use crate::error::{Error, ErrorKind};

/// A local daemon accepts at once; over TCP this also covers another host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the daemon may send on one HTTP/2 stream ahead of what is read of it, in bytes: eight chunks of an
/// artifact.
const STREAM_WINDOW: u32 = 512 << 10;

/// The same for all streams together: no limit beyond theirs. Were it less than their sum, a few artifacts
/// that nobody reads on would stop all other answers.
const CONNECTION_WINDOW: u32 = i32::MAX as u32;

/// Largest HTTP/2 frame that is taken: a chunk of 64 KiB is one frame and not five.
const HTTP2_FRAME: u32 = 256 << 10;

/// Longest path of a Unix socket that every platform takes (macOS: 104 bytes with the final NUL).
pub(crate) const MAX_SOCKET_PATH: usize = 103;

/// Where a daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String),
}

impl Address {
    /// Reads `unix://PATH`, `tcp://HOST:PORT`, or a bare path.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if let Some(authority) = text.strip_prefix("tcp://") {
            let port = authority
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok());
            return match port {
                Some(_) => Ok(Self::Tcp(authority.to_owned())),
                None => Err(invalid(text, "expected tcp://HOST:PORT")),
            };
        }
        let path = text.strip_prefix("unix://").unwrap_or(text);
        if path.is_empty() || path.contains("://") {
            return Err(invalid(text, "expected unix:///PATH or tcp://HOST:PORT"));
        }
        Self::unix(&expand_home(Path::new(path))?)
    }

    /// The socket at this path.
    pub(crate) fn unix(path: &Path) -> Result<Self, Error> {
        let length = path.as_os_str().len();
        if length > MAX_SOCKET_PATH {
            let why = format!("a socket path has at most {MAX_SOCKET_PATH} bytes, this one {length}");
            return Err(invalid(&path.display().to_string(), &why));
        }
        Ok(Self::Unix(path.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(authority) => write!(f, "tcp://{authority}"),
        }
    }
}

fn invalid(given: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("daemon address {given:?}: {why}"),
    )
}

/// Replaces a leading `~` by the user's home directory.
pub(crate) fn expand_home(path: &Path) -> Result<PathBuf, Error> {
    let Ok(rest) = path.strip_prefix("~") else {
        return Ok(path.to_owned());
    };
    let home = std::env::home_dir().ok_or_else(|| {
        let message = format!("{}: there is no home directory; give a full path", path.display());
        Error::new(ErrorKind::InvalidArgument, message)
    })?;
    Ok(home.join(rest))
}

/// A channel that counts the connections it makes in `connections`.
pub(crate) fn channel(address: &Address, connections: Arc<AtomicU64>) -> Channel {
    // The URI only becomes the `:authority` of the requests; the connector decides where they go.
    let endpoint = Endpoint::from(Uri::from_static("http://localhost"))
        .connect_timeout(CONNECT_TIMEOUT)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(HTTP2_FRAME)
        .tcp_nodelay(true);
    match address.clone() {
        Address::Unix(path) => endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
            let (path, connections) = (path.clone(), Arc::clone(&connections));
            async move {
                let stream = UnixStream::connect(path).await?;
                connections.fetch_add(1, Ordering::Release);
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        })),
        Address::Tcp(authority) => endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
            let (authority, connections) = (authority.clone(), Arc::clone(&connections));
            async move {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                connections.fetch_add(1, Ordering::Release);
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in [
            "unix:///run/daemon.sock",
            "tcp://127.0.0.1:7777",
            "tcp://[::1]:7777",
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("/run/x").unwrap(), Address::Unix("/run/x".into()));
        for bad in ["", "unix://", "tcp://host", "http://host:1"] {
            assert_eq!(
                Address::parse(bad).unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{bad}"
            );
        }
        let long = format!("unix:///{}", "x".repeat(MAX_SOCKET_PATH));
        assert!(Address::parse(&long).unwrap_err().to_string().contains("103"));
    }
}
