//! The certificate of a gateway without `tls_cert`: made and signed by itself, for trials. With a home it stays the
//! same over restarts, so that others may pin its key.
//!
//! Invariant: the key is made once for a home; the certificate is made again, with that key, only when it is not for
//! the gateway's DID and names.

use std::path::Path;

use agentanycast_gateways::front::FrontSettings;
use anyhow::Context as _;
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _, SanType};
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

use super::private_file;

/// The files in the home.
const CERTIFICATE: &str = "uamp-trial-cert.pem";
const KEY: &str = "uamp-trial-key.pem";

/// Largest of them, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// A certificate and its key.
pub(super) struct TrialCertificate {
    pub(super) certificate: CertificateDer<'static>,
    /// PKCS #8.
    pub(super) key: Vec<u8>,
}

impl TrialCertificate {
    /// That of this home, or one for this process.
    ///
    /// # Errors
    /// When it cannot be read or made.
    pub(super) fn of(home: Option<&Path>, settings: &FrontSettings, did: &str) -> anyhow::Result<Self> {
        let names = names(settings);
        let Some(home) = home else {
            let key = KeyPair::generate()?;
            let certificate = make(&key, &names, did)?;
            tracing::warn!(
                did,
                "no tls_cert is set for the gateway uamp: it shows a certificate that it made itself, for trials, \
                 and makes another one at its next start"
            );
            return Ok(Self {
                certificate: certificate.der().clone(),
                key: key.serialize_der(),
            });
        };
        let (cert_file, key_file) = (home.join(CERTIFICATE), home.join(KEY));
        let key = kept_key(&key_file)?;
        let kept = kept_certificate(&cert_file)?;
        let certificate = if let Some(kept) = kept.filter(|kept| is_for(kept, &key, &names, did)) {
            kept
        } else {
            let made = make(&key, &names, did)?;
            keep(&cert_file, &made.pem());
            made.der().clone()
        };
        tracing::warn!(
            did,
            certificate = %cert_file.display(),
            "no tls_cert is set for the gateway uamp: it shows a certificate that it made itself, for trials"
        );
        Ok(Self {
            certificate,
            key: key.serialize_der(),
        })
    }
}

fn shown(path: &Path) -> String {
    format!("the trial certificate of the gateway uamp, {}", path.display())
}

fn kept_key(path: &Path) -> anyhow::Result<KeyPair> {
    if let Some(pem) = private_file::read(path, MAX_FILE).with_context(|| shown(path))? {
        let key = KeyPair::from_pem(&pem);
        return key.with_context(|| format!("{}: remove it if it is damaged", shown(path)));
    }
    let key = KeyPair::generate()?;
    keep(path, &key.serialize_pem());
    Ok(key)
}

/// A home that cannot be written has another one after the next start.
fn keep(path: &Path, pem: &str) {
    if let Err(error) = private_file::write(path, pem) {
        tracing::warn!(file = %path.display(), %error, "the trial certificate of the gateway uamp cannot be kept");
    }
}

/// `None`: there is none, or none that can be read; it is made again.
fn kept_certificate(path: &Path) -> anyhow::Result<Option<CertificateDer<'static>>> {
    let pem = private_file::read(path, MAX_FILE).with_context(|| shown(path))?;
    Ok(pem.and_then(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).ok()))
}

/// The names of this host and of the address that is listened on.
fn names(settings: &FrontSettings) -> Vec<String> {
    let bind = settings.listen.to_bind();
    let host = bind.rsplit_once(':').map_or("localhost", |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut names: Vec<String> = Vec::new();
    for name in ["localhost", "127.0.0.1", "::1", host] {
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn make(key: &KeyPair, names: &[String], did: &str) -> anyhow::Result<rcgen::Certificate> {
    let mut params = CertificateParams::new(names)?;
    params.subject_alt_names.push(SanType::URI(did.try_into()?));
    Ok(params.self_signed(key)?)
}

/// Whether a certificate is of this key, for this DID and these names.
fn is_for(certificate: &CertificateDer<'_>, key: &KeyPair, names: &[String], did: &str) -> bool {
    let Ok((_, read)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let Ok(Some(found)) = read.subject_alternative_name() else {
        return false;
    };
    let found: Vec<String> = found.value.general_names.iter().filter_map(name_of).collect();
    read.public_key().subject_public_key.data.as_ref() == key.der_bytes()
        && read.validity().is_valid()
        && names
            .iter()
            .map(String::as_str)
            .chain([did])
            .all(|name| found.iter().any(|known| known == name))
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            ref bytes => {
                let bytes: [u8; 16] = bytes.try_into().ok()?;
                Some(std::net::Ipv6Addr::from(bytes).to_string())
            }
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_daemon_kit::settings::ListenOn;

    use super::*;

    fn settings(listen: &str) -> FrontSettings {
        FrontSettings {
            listen: ListenOn(listen.to_owned()),
            ..FrontSettings::default()
        }
    }

    fn public_key(made: &TrialCertificate) -> Vec<u8> {
        let (_, read) = X509Certificate::from_der(&made.certificate).unwrap();
        read.public_key().raw.to_vec()
    }

    #[test]
    fn it_stays_the_same_for_a_home() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let made = |listen: &str, did: &str| {
            TrialCertificate::of(Some(home.path()), &settings(listen), did).unwrap()
        };
        let first = made("127.0.0.1:8443", "did:key:zA");
        let again = made("127.0.0.1:9000", "did:key:zA");
        assert!(first.certificate == again.certificate && first.key == again.key);
        // Another name or DID needs another certificate, of the same key.
        for other in [
            made("192.0.2.7:8443", "did:key:zA"),
            made("192.0.2.7:8443", "did:key:zB"),
        ] {
            assert!(other.certificate != first.certificate);
            assert_eq!(public_key(&other), public_key(&first));
        }
        let mode = home.path().join(KEY).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(home.path().join(CERTIFICATE), "nonsense").unwrap();
        made("127.0.0.1:8443", "did:key:zA");
        std::fs::write(home.path().join(KEY), "nonsense").unwrap();
        let refused = TrialCertificate::of(Some(home.path()), &settings("127.0.0.1:1"), "did:key:zA");
        let refused = format!("{:#}", refused.err().unwrap());
        assert!(
            refused.contains(KEY) && refused.contains("remove it"),
            "{refused}"
        );
    }
}
