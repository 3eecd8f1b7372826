//! TLS of the gRPC face: a certificate chain and its key, HTTP/2 only, TLS 1.3.

use std::{path::Path, sync::Arc};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        version::TLS13,
    },
};

use super::ListenError;
use crate::config::GrpcAccess;

/// The acceptor for the configured certificate; none without one.
pub(super) fn acceptor(access: &GrpcAccess) -> Result<Option<TlsAcceptor>, ListenError> {
    let (Some(cert), Some(key)) = (&access.tls_cert, &access.tls_key) else {
        return Ok(None);
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| refuse(cert, &error))?;
    if chain.is_empty() {
        return Err(refuse(cert, &"it holds no certificate in PEM"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| refuse(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| refuse(cert, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| refuse(cert, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn refuse(path: &Path, reason: &impl ToString) -> ListenError {
    ListenError::Tls {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}
