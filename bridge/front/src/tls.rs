//! TLS: a certificate, its key and the authorities of clients from files, read again when they change, so that a
//! renewal needs no restart.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentanycast_daemon_kit::hot_reload::HotReload;
use anyhow::{Context as _, ensure};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        crypto::CryptoProvider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    },
};

/// Where the certificate and its key are, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with those that lead to its root behind it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs the certificates of clients; none: they are not asked for one.
    pub client_ca: Option<PathBuf>,
}

/// TLS with what the files hold.
pub struct Tls(HotReload<TlsAcceptor>);

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When they are not a certificate and its key.
    pub fn read(files: TlsFiles) -> anyhow::Result<Self> {
        let read = [&files.cert, &files.key].into_iter().chain(&files.client_ca);
        let paths = read.cloned().collect();
        let acceptor = HotReload::new("the certificates of TLS", paths, move || acceptor(&files))?;
        Ok(Self(acceptor))
    }

    /// TLS that is made otherwise than by [`Tls::read`].
    pub fn from_reloaded(acceptor: HotReload<TlsAcceptor>) -> Self {
        Self(acceptor)
    }

    /// For the next connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.0.get()
    }
}

fn acceptor(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let certificates =
        certificates(&files.cert).with_context(|| format!("certificate {}", files.cert.display()))?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).with_context(|| format!("key {}", files.key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = match &files.client_ca {
        Some(path) => client_verifier(path, &provider)
            .with_context(|| format!("certificates of callers' authorities {}", path.display()))?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(certificates, key)
        .with_context(|| format!("{} and {}", files.cert.display(), files.key.display()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Clients may show a certificate, which then has to be of these. Who shows none may have a token; the front decides.
///
/// # Errors
/// When the file has no certificates of authorities.
pub fn client_verifier(
    path: &Path,
    provider: &Arc<CryptoProvider>,
) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    Ok(verifier.allow_unauthenticated().build()?)
}

/// The certificates of a file in PEM.
///
/// # Errors
/// When there is none in it.
pub fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)?.collect();
    let certificates = read.map_err(io::Error::other)?;
    ensure!(!certificates.is_empty(), "there is none in it");
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        time::{Duration, SystemTime},
    };

    use super::*;

    fn files(directory: &Path) -> TlsFiles {
        TlsFiles {
            cert: directory.join("cert.pem"),
            key: directory.join("key.pem"),
            client_ca: Some(directory.join("ca.pem")),
        }
    }

    fn write(files: &TlsFiles) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(&files.cert, made.cert.pem()).unwrap();
        fs::write(&files.key, made.key_pair.serialize_pem()).unwrap();
    }

    #[test]
    fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        assert!(Tls::read(files.clone()).is_err());
        write(&files);
        let ca = files.client_ca.clone().unwrap();
        assert!(Tls::read(files.clone()).is_err(), "there are no authorities");
        fs::copy(&files.cert, &ca).unwrap();
        let tls = Tls(Tls::read(files.clone()).unwrap().0.without_interval());
        let config = |tls: &Tls| Arc::as_ptr(tls.acceptor().config());
        let first = config(&tls);
        assert_eq!(config(&tls), first);
        let later = SystemTime::now() + Duration::from_mins(1);
        let touch = |path: &Path| {
            fs::File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_modified(later)
                .unwrap();
        };
        fs::write(&files.cert, "nonsense").unwrap();
        touch(&files.cert);
        assert_eq!(config(&tls), first);
        write(&files);
        touch(&files.key);
        let second = config(&tls);
        assert_ne!(second, first);
        touch(&ca);
        assert_ne!(config(&tls), second, "other authorities are trusted from now on");
    }
}
