//! TLS of the gateway: 1.3 alone, with the certificate of its settings, or one that it makes for trials.
//!
//! Invariant: the gateway has only listeners with it.

use std::{path::Path, sync::Arc};

use agentanycast_daemon_kit::hot_reload::HotReload;
use agentanycast_front::tls::{Tls, certificates, client_verifier};
use agentanycast_gateways::front::FrontSettings;
use agentanycast_uamp::jws::SigningIdentity;
use anyhow::Context as _;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
        version::TLS13,
    },
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use super::{
    certified_keys::{CertifiedKeys, KeepingVerifier},
    trial_certificate::TrialCertificate,
};

/// What TLS agrees on over TCP, and over QUIC. A WebSocket needs HTTP/1.1.
const OVER_TCP: &[&[u8]] = &[b"h2", b"http/1.1"];
const OVER_QUIC: &[&[u8]] = &[b"h3"];

/// How TLS is made.
pub(super) struct UampTls {
    settings: FrontSettings,
    /// Where no certificate is set: one for this DID, made once.
    made: Option<Arc<TrialCertificate>>,
    certified: Arc<CertifiedKeys>,
}

impl UampTls {
    /// With the certificate of the settings, else one that is made and signed by itself, and kept in the home.
    pub(super) fn new(
        settings: &FrontSettings,
        identity: &SigningIdentity,
        home: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let made = match &settings.tls_cert {
            Some(path) => {
                warn_of_authority(path);
                None
            }
            None => Some(Arc::new(TrialCertificate::of(home, settings, identity.did())?)),
        };
        Ok(Self {
            settings: settings.clone(),
            made,
            certified: Arc::default(),
        })
    }

    /// The keys of the certificates that clients have shown.
    pub(super) fn certified_keys(&self) -> Arc<CertifiedKeys> {
        Arc::clone(&self.certified)
    }

    /// For the front.
    pub(super) fn front(&self) -> anyhow::Result<Tls> {
        let config = self.reloaded(OVER_TCP)?;
        let acceptor = move || Ok(TlsAcceptor::from(config.get()));
        Ok(Tls::from_reloaded(HotReload::new(
            "the TLS of UAMP",
            self.files(),
            acceptor,
        )?))
    }

    /// For HTTP/3.
    pub(super) fn quic(&self) -> anyhow::Result<HotReload<Arc<ServerConfig>>> {
        self.reloaded(OVER_QUIC)
    }

    fn files(&self) -> Vec<std::path::PathBuf> {
        let settings = &self.settings;
        let files = [&settings.tls_cert, &settings.tls_key, &settings.auth.client_ca];
        files.into_iter().flatten().cloned().collect()
    }

    fn reloaded(&self, alpn: &'static [&'static [u8]]) -> anyhow::Result<HotReload<Arc<ServerConfig>>> {
        let (settings, made) = (self.settings.clone(), self.made.clone());
        let keys = Arc::clone(&self.certified);
        let make = move || server_config(&settings, made.as_deref(), &keys, alpn).map(Arc::new);
        Ok(HotReload::new("the certificates of UAMP", self.files(), make)?.without_interval())
    }
}

fn server_config(
    settings: &FrontSettings,
    made: Option<&TrialCertificate>,
    keys: &Arc<CertifiedKeys>,
    alpn: &[&[u8]],
) -> anyhow::Result<ServerConfig> {
    let (chain, key) = match (made, &settings.tls_cert, &settings.tls_key) {
        (None, Some(cert), Some(key)) => {
            let chain = certificates(cert).with_context(|| format!("certificate {}", cert.display()))?;
            let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("key {}", key.display()))?;
            (chain, key)
        }
        (Some(made), ..) => {
            let key = PrivatePkcs8KeyDer::from(made.key.clone());
            (vec![made.certificate.clone()], key.into())
        }
        _ => anyhow::bail!("tls_cert and tls_key go together"),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = match &settings.auth.client_ca {
        Some(path) => Arc::new(KeepingVerifier {
            inner: client_verifier(path, &provider)
                .with_context(|| format!("certificates of callers' authorities {}", path.display()))?,
            keys: Arc::clone(keys),
        }),
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// Names a certificate that clients refuse. Others may take it, so it is shown all the same.
fn warn_of_authority(path: &Path) {
    let chain = certificates(path).unwrap_or_default();
    let Some(Ok((_, read))) = chain.first().map(|first| X509Certificate::from_der(first)) else {
        return;
    };
    if read.is_ca() {
        tracing::warn!(
            tls_cert = %path.display(),
            "the certificate of the gateway uamp is that of an authority (CA:TRUE), which clients refuse; make it \
             again with -addext basicConstraints=critical,CA:FALSE"
        );
    }
}
