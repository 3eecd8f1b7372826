//! TLS to agents outside: the usual roots and those of the settings, a certificate of one's own, and certificates that
//! are taken by their keys.
//!
//! Invariant: a certificate that leads to no root is taken only if the pins say so, and only after the server has
//! proven that it has the key of it.

use std::{fmt, fs, sync::Arc};

use agentanycast_gateways::outbound::HostConfig;
use anyhow::Context as _;
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};

/// Certificates of one host that are taken by their keys.
pub trait CertificatePins: fmt::Debug + Send + Sync {
    /// Whether this certificate (DER), which leads to no root, may be shown.
    ///
    /// # Errors
    /// Why not, for people; the reason of TLS counts where it says nothing.
    fn check(&self, certificate: &[u8]) -> Result<bool, String>;

    /// The server has proven that it has the key of this certificate.
    fn proven(&self, certificate: &[u8]);
}

/// TLS as it is configured for a host.
///
/// # Errors
/// When a file cannot be used.
pub(super) fn client_config(
    host: &HostConfig,
    pins: Option<&Arc<dyn CertificatePins>>,
) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(path) = &host.ca {
        let mut read = || -> anyhow::Result<()> {
            for root in CertificateDer::pem_file_iter(path)? {
                roots.add(root?)?;
            }
            Ok(())
        };
        read().with_context(|| format!("ca {}", path.display()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = match pins {
        None => config.with_root_certificates(roots),
        Some(pins) => {
            let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            let pins = Arc::clone(pins);
            config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(PinnedVerifier { inner, pins }))
        }
    };
    let (Some(cert), Some(key)) = (&host.client_cert, &host.client_key) else {
        return Ok(config.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain = chain.with_context(|| format!("client_cert {}", cert.display()))?;
    fs::metadata(key).with_context(|| format!("client_key {}", key.display()))?;
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("client_key {}", key.display()))?;
    Ok(config.with_client_auth_cert(chain, key)?)
}

/// Verifies as usual, and asks the pins about what that refuses.
#[derive(Debug)]
struct PinnedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    pins: Arc<dyn CertificatePins>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self
            .inner
            .verify_server_cert(end_entity, intermediates, name, ocsp, now);
        verified.or_else(|error| match self.pins.check(end_entity) {
            Ok(true) => Ok(ServerCertVerified::assertion()),
            Ok(false) => Err(error),
            Err(reason) => Err(rustls::Error::General(reason)),
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let valid = self.inner.verify_tls12_signature(message, certificate, signed)?;
        self.pins.proven(certificate);
        Ok(valid)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let valid = self.inner.verify_tls13_signature(message, certificate, signed)?;
        self.pins.proven(certificate);
        Ok(valid)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
