//! What stands before a relay on the web: it ends TLS and passes on what is inside.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

/// On a port of its own, with a certificate for `localhost`.
pub(crate) struct TlsProxy {
    pub(crate) port: u16,
    listener: TcpListener,
    acceptor: TlsAcceptor,
    /// Its certificate, in PEM.
    pub(crate) certificate: String,
}

impl TlsProxy {
    /// Whoever comes agrees with it on one of these protocols, if there are any.
    pub(crate) async fn new(protocols: &[&str]) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
        let key = PrivateKeyDer::try_from(made.key_pair.serialize_der()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            port: listener.local_addr().unwrap().port(),
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate: made.cert.pem(),
        }
    }

    /// Passes on until the task is aborted.
    pub(crate) fn before(self, relay: SocketAddr) -> JoinHandle<()> {
        tokio::spawn(async move {
            while let Ok((stream, _)) = self.listener.accept().await {
                let acceptor = self.acceptor.clone();
                tokio::spawn(async move {
                    // Whoever does not believe the certificate is gone.
                    let Ok(mut outside) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut inside = TcpStream::connect(relay).await.unwrap();
                    let _ = copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        })
    }
}
