//! Keys of client certificates: TLS keeps the key and the URIs of each certificate that it has accepted, and the
//! handler finds them by the certificate of a connection.
//!
//! Invariant: a certificate is kept only after its chain and the client's signature of the handshake were verified;
//! its key counts for its own URIs, on connections that show it, until it runs out.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentanycast_front::auth::ClientCertificate;
use agentanycast_uamp::key::VerificationKey;
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

/// Certificates in memory, some 500 bytes each. TLS resumes 256 sessions at most, so that a session that is resumed
/// without its certificate being verified again has it here.
const MOST: usize = 4096;

/// The URIs of one certificate that count.
const MOST_URIS: usize = 16;

/// The object identifiers of Ed25519 (RFC 8410), of keys on curves and of P-256 (RFC 5480).
const ED25519: &str = "1.3.101.112";
const EC_PUBLIC_KEY: &str = "1.2.840.10045.2.1";
const P256: &str = "1.2.840.10045.3.1.7";

/// What a certificate says of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CertifiedKey {
    certificate: ClientCertificate,
    uris: Vec<String>,
    key: VerificationKey,
    /// Last second, Unix time.
    until: i64,
}

impl CertifiedKey {
    /// Of a certificate in DER; `None`: its key does not sign envelopes, or it has no URI.
    fn read(der: &[u8]) -> Option<Self> {
        let certificate = ClientCertificate::read(der)?;
        let (_, read) = X509Certificate::from_der(der).ok()?;
        let names = read.subject_alternative_name().ok().flatten()?;
        let uris = names.value.general_names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        });
        let uris: Vec<String> = uris.take(MOST_URIS).collect();
        if uris.is_empty() {
            return None;
        }
        let info = read.public_key();
        let bytes: &[u8] = &info.subject_public_key.data;
        let curve = || info.algorithm.parameters.as_ref()?.as_oid().ok();
        let key = match info.algorithm.algorithm.to_id_string().as_str() {
            ED25519 => VerificationKey::from_ed25519(bytes.try_into().ok()?),
            EC_PUBLIC_KEY if curve()?.to_id_string() == P256 => VerificationKey::from_p256(bytes),
            _ => None,
        };
        Some(Self {
            certificate,
            uris,
            key: key?,
            until: read.validity().not_after.timestamp(),
        })
    }
}

/// The keys of the certificates that TLS has accepted lately.
#[derive(Debug, Default)]
pub(super) struct CertifiedKeys(Mutex<VecDeque<CertifiedKey>>);

impl CertifiedKeys {
    fn known(&self) -> MutexGuard<'_, VecDeque<CertifiedKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the key of a certificate that was verified.
    fn add(&self, der: &[u8]) {
        let Some(read) = CertifiedKey::read(der) else {
            return;
        };
        let mut known = self.known();
        known.retain(|known| *known != read);
        if known.len() >= MOST {
            known.pop_front();
        }
        known.push_back(read);
    }

    /// The keys of the certificate of a connection that speak for this URI.
    pub(super) fn keys_for(&self, shown: &ClientCertificate, uri: &str, now_ms: i64) -> Vec<VerificationKey> {
        let counts = |known: &&CertifiedKey| {
            known.certificate == *shown
                && now_ms / 1000 <= known.until
                && known.uris.iter().any(|name| name == uri)
        };
        let known = self.known();
        known
            .iter()
            .filter(counts)
            .map(|known| known.key.clone())
            .collect()
    }
}

/// Verifies certificates as another verifier does, and keeps the keys of those that are good.
#[derive(Debug)]
pub(super) struct KeepingVerifier {
    pub(super) inner: Arc<dyn ClientCertVerifier>,
    pub(super) keys: Arc<CertifiedKeys>,
}

impl ClientCertVerifier for KeepingVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.inner.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    /// Comes after the chain was verified; the gateway has TLS 1.3 alone.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let valid = self.inner.verify_tls13_signature(message, certificate, signed)?;
        self.keys.add(certificate);
        Ok(valid)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType, date_time_ymd};

    use super::*;

    fn certificate(uris: &[&str], algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
        let mut params = CertificateParams::new(["client.example".to_owned()]).unwrap();
        let names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(names);
        params.not_after = date_time_ymd(2030, 1, 1);
        let key = KeyPair::generate_for(algorithm).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_key_counts_for_the_uris_of_its_own_certificate() {
        let keys = CertifiedKeys::default();
        let (a, b) = (
            ["did:web:a.example", "spiffe://a.example/x"],
            ["did:web:b.example"],
        );
        let first = certificate(&a, &rcgen::PKCS_ECDSA_P256_SHA256);
        let second = certificate(&b, &rcgen::PKCS_ED25519);
        for der in [&first, &first, &second] {
            keys.add(der);
        }
        assert_eq!(keys.known().len(), 2);
        let (first, second) = (
            ClientCertificate::read(&first).unwrap(),
            ClientCertificate::read(&second).unwrap(),
        );
        let now = 1_800_000_000_000;
        let count = |shown, uri| keys.keys_for(shown, uri, now).len();
        for uri in a {
            assert_eq!((count(&first, uri), count(&second, uri)), (1, 0), "{uri}");
        }
        assert_eq!((count(&first, b[0]), count(&second, b[0])), (0, 1));
        assert_eq!(count(&first, "client.example"), 0, "a DNS name is not a URI");
        assert!(
            keys.keys_for(&first, a[0], 1_900_000_000_000).is_empty(),
            "it has run out"
        );
    }

    #[test]
    fn other_keys_are_left_out_and_memory_is_bounded() {
        let keys = CertifiedKeys::default();
        keys.add(b"nonsense");
        keys.add(&certificate(&[], &rcgen::PKCS_ED25519));
        keys.add(&certificate(
            &["did:web:a.example"],
            &rcgen::PKCS_ECDSA_P384_SHA384,
        ));
        assert!(keys.known().is_empty());
        let der = certificate(&["did:web:a.example"], &rcgen::PKCS_ED25519);
        let one = CertifiedKey::read(&der).unwrap();
        keys.known()
            .extend((0..MOST as i64).map(|until| CertifiedKey { until, ..one.clone() }));
        keys.add(&der);
        let known = keys.known();
        assert_eq!((known.len(), known[0].until), (MOST, 1));
    }
}
