//! The screen where it counts: a connector that resolves, screens and connects. HTTP clients take it as they take one
//! that connects anywhere.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;

use super::{EgressFilter, dns};

/// How long resolving and connecting may take together.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long one address may take when there are others to try.
const ONE_WITHIN: Duration = Duration::from_secs(4);

/// Addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL names no host.
    #[error("the URL names no host")]
    NoHost,
    /// The screen lets none of its addresses pass.
    #[error("{}", refused(host, *address, what))]
    Refused {
        /// As it was named.
        host: String,
        /// The first of its addresses.
        address: IpAddr,
        /// What that is.
        what: &'static str,
    },
    /// The name has no address.
    #[error("{host} cannot be resolved: {cause}")]
    Unresolved {
        /// As it was named.
        host: String,
        /// What the resolver said.
        cause: io::Error,
    },
    /// Nobody took the connection.
    #[error("{host}:{port} cannot be reached: {cause}")]
    Unreachable {
        /// As it was named.
        host: String,
        /// Where.
        port: u16,
        /// What happened at the last address.
        cause: io::Error,
    },
}

/// What a host is that the screen lets nothing go to.
fn refused(host: &str, address: IpAddr, what: &str) -> String {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if bare.parse() == Ok(address) {
        format!("{host} is {what}")
    } else {
        format!("{host} is {address}, {what}")
    }
}

/// Connects to what the screen lets pass. A `tower::Service`, as HTTP clients want one.
#[derive(Clone, Copy, Debug)]
pub struct FilteredConnector {
    filter: EgressFilter,
    within: Duration,
}

impl FilteredConnector {
    /// Behind this screen.
    pub fn new(filter: EgressFilter) -> Self {
        Self {
            filter,
            within: CONNECT_WITHIN,
        }
    }

    /// Gives up after this time instead of 10 s.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Connects to the host and port of a URL; without a port, to that of its scheme.
    pub async fn connect(self, uri: &Uri) -> Result<TcpStream, ConnectError> {
        let host = uri.host().ok_or(ConnectError::NoHost)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let default = if uri.scheme_str() == Some("https") {
            443
        } else {
            80
        };
        let port = uri.port_u16().unwrap_or(default);
        let late = || {
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer within {:?}", self.within),
            )
        };
        match tokio::time::timeout(self.within, self.resolve_and_connect(&host, port)).await {
            Ok(done) => done,
            Err(_) => Err(ConnectError::Unreachable {
                host,
                port,
                cause: late(),
            }),
        }
    }

    async fn resolve_and_connect(self, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
        let resolved = dns::addresses(host, port).await;
        let resolved = resolved.map_err(|cause| ConnectError::Unresolved {
            host: host.to_owned(),
            cause,
        })?;
        let allowed: Vec<SocketAddr> = self.allowed(host, &resolved)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
        for address in &allowed {
            let attempt = TcpStream::connect(address);
            let done = if allowed.len() == 1 {
                attempt.await
            } else {
                let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
                tokio::time::timeout(ONE_WITHIN, attempt)
                    .await
                    .unwrap_or_else(|_| Err(late()))
            };
            match done {
                Ok(stream) => {
                    stream.set_nodelay(true).ok();
                    return Ok(stream);
                }
                Err(cause) => last = cause,
            }
        }
        Err(ConnectError::Unreachable {
            host: host.to_owned(),
            port,
            cause: last,
        })
    }

    /// The addresses that may be connected to, or why none may.
    fn allowed(self, host: &str, resolved: &[SocketAddr]) -> Result<Vec<SocketAddr>, ConnectError> {
        let screened = resolved
            .iter()
            .map(|address| (address, self.filter.refusal(address.ip())));
        let allowed: Vec<SocketAddr> = screened
            .clone()
            .filter_map(|(address, refusal)| refusal.is_none().then_some(*address))
            .take(MOST_ADDRESSES)
            .collect();
        let mut screened = screened;
        let refused = screened.find_map(|(address, refusal)| Some((address.ip(), refusal?)));
        match refused {
            Some((address, what)) if allowed.is_empty() => Err(ConnectError::Refused {
                host: host.to_owned(),
                address,
                what,
            }),
            _ => Ok(allowed),
        }
    }
}

impl Service<Uri> for FilteredConnector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = *self;
        Box::pin(async move { Ok(TokioIo::new(connector.connect(&uri).await?)) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_private_host_is_reached_only_when_that_is_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
            let uri = uri(&format!("http://{host}:{port}/x"));
            let refused = FilteredConnector::new(EgressFilter::Public)
                .connect(&uri)
                .await
                .unwrap_err();
            assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
            FilteredConnector::new(EgressFilter::Private)
                .connect(&uri)
                .await
                .unwrap();
        }
    }

    #[tokio::test]
    async fn what_is_not_there_is_said() {
        let free = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let uri = uri(&format!("http://{free}/"));
        let error = FilteredConnector::new(EgressFilter::Private)
            .connect(&uri)
            .await
            .unwrap_err();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
        let nowhere = FilteredConnector::new(EgressFilter::Private)
            .connect(&"http://nobody.invalid/".parse().unwrap())
            .await
            .unwrap_err();
        assert!(matches!(nowhere, ConnectError::Unresolved { .. }), "{nowhere}");
    }

    #[test]
    fn names_are_looked_up_where_no_thread_is_free() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || ended.recv());
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let uri = uri(&format!("http://localhost:{port}/"));
            FilteredConnector::new(EgressFilter::Private)
                .connect(&uri)
                .await
                .unwrap();
            drop(end);
            let _ = busy.await.unwrap();
        });
    }

    #[test]
    fn of_several_addresses_the_allowed_ones_are_used() {
        let addresses: Vec<SocketAddr> = ["10.0.0.1:80", "8.8.8.8:80"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        let allowed = FilteredConnector::new(EgressFilter::Public)
            .allowed("h", &addresses)
            .unwrap();
        assert_eq!(allowed, addresses[1..]);
        assert!(
            FilteredConnector::new(EgressFilter::Public)
                .allowed("h", &addresses[..1])
                .is_err()
        );
    }
}
