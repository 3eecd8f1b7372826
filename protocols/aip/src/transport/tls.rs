//! TLS of clients: the system's roots, or the authorities in a file.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, pem::PemObject as _},
    },
};

use super::TransportError;

/// Largest file of certificates, in bytes.
const MAX_PEM: u64 = 1 << 20;

/// TLS that trusts the authorities in `ca_file`, or the system's. It reads files.
pub(super) fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, TransportError> {
    let mut roots = RootCertStore::empty();
    let source = ca_file.map_or_else(|| PathBuf::from("the system's store"), Path::to_path_buf);
    let refuse = |reason: String| TransportError::Certificates {
        file: source.clone(),
        reason,
    };
    if let Some(file) = ca_file {
        let mut pem = Vec::new();
        let opened = File::open(file).and_then(|opened| opened.take(MAX_PEM).read_to_end(&mut pem));
        opened.map_err(|error| refuse(error.to_string()))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| refuse(error.to_string()))?;
        }
    } else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err(refuse("it holds no certificate".to_owned()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
