//! Where the gRPC face listens and who may call it from elsewhere. Only values: `grpc::listen` binds.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    path::{Path, PathBuf},
};

use agentanycast_daemon_kit::settings::{
    InvalidValue, Json as Value, Raw, Setting, expand, host_port, literal,
};
use serde_json::json;

/// The address of the gRPC face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrpcListen {
    /// A Unix socket, for the user that runs the daemon.
    Unix(PathBuf),
    /// TCP. `host` is a name or an IP address without brackets; port 0 lets the system choose.
    Tcp {
        /// Name or address.
        host: String,
        /// Port, 0 for any.
        port: u16,
    },
}

/// What protects a gRPC face that other hosts can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrpcAccess {
    /// `grpc_token_file`: callers must send its content as Bearer token. Default: none.
    pub token_file: Option<PathBuf>,
    /// `grpc_tls_cert`: PEM file of the certificate chain. Default: none (no TLS).
    pub tls_cert: Option<PathBuf>,
    /// `grpc_tls_key`: PEM file of the private key of `grpc_tls_cert`. Default: none.
    pub tls_key: Option<PathBuf>,
    /// `grpc_allow_remote`: listen beyond loopback without token and TLS. Default: false.
    pub allow_remote: bool,
}

impl GrpcListen {
    /// Only processes on this host can connect: a Unix socket, a loopback address, or `localhost`.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        }
    }
}

impl fmt::Display for GrpcListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port } if host.parse::<Ipv6Addr>().is_ok() => {
                write!(f, "tcp://[{host}]:{port}")
            }
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
        }
    }
}

impl Setting for GrpcListen {
    fn read(raw: &Raw, home: Option<&Path>) -> Result<Self, InvalidValue> {
        let refusal = || raw.refuse("unix://PATH or tcp://HOST:PORT");
        let text = raw.text().ok_or_else(refusal)?;
        if let Some(path) = text.strip_prefix("unix://") {
            let path = expand(path, home).filter(|path| !path.as_os_str().is_empty());
            return path.map(Self::Unix).ok_or_else(refusal);
        }
        let (host, port) = text
            .strip_prefix("tcp://")
            .and_then(host_port)
            .ok_or_else(refusal)?;
        Ok(Self::Tcp { host, port })
    }

    fn show(&self) -> String {
        literal(self)
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^(unix://.+|tcp://.+:[0-9]{1,5})$" })
    }
}
