//! Keys of senders that are `did:web`: their documents, fetched over HTTPS and kept for a while. Used by the handler
//! where the setting `did_web` is on.
//!
//! Invariant: connections go to public addresses only; bytes, time, fetches at once and documents in memory are
//! bounded.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentanycast_egress::fetch::Fetcher;
use agentanycast_gateways::outbound::OutboundConfig;
use agentanycast_identity::{DidWeb, MAX_DOCUMENT};
use agentanycast_uamp::{
    did_document::assertion_keys,
    error::{UampCode, UampError, shown},
    key::VerificationKey,
};
use tokio::{sync::Semaphore, time::Instant};

/// How long a document counts, and how long a failure does before the host is asked again.
const KEPT: Duration = Duration::from_mins(5);
const FAILURE_KEPT: Duration = Duration::from_secs(30);

/// How long a fetch may take: the sender waits for it.
const WITHIN: Duration = Duration::from_secs(5);

/// Documents in memory: 64 keys each at most, some 10 MiB in all.
const MOST_KEPT: usize = 1024;

/// Fetches at once: a caller chooses the hosts, so it may not occupy many connections.
const AT_ONCE: usize = 16;

/// The keys of a document with their ids.
pub(super) type NamedKeys = Arc<Vec<(String, VerificationKey)>>;

/// Fetches documents, and remembers what they say.
pub(super) struct DidWebKeys {
    fetcher: Fetcher,
    known: Mutex<HashMap<String, KnownDocument>>,
    permits: Semaphore,
}

struct KnownDocument {
    until: Instant,
    result: Result<NamedKeys, UampError>,
}

impl DidWebKeys {
    /// Documents of public hosts.
    ///
    /// # Errors
    /// When there can be no client of TLS.
    pub(super) fn new() -> anyhow::Result<Self> {
        Self::with(&OutboundConfig::default())
    }

    fn with(config: &OutboundConfig) -> anyhow::Result<Self> {
        Ok(Self {
            fetcher: Fetcher::new(config)?,
            known: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, KnownDocument>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembered(&self, did: &str) -> Option<Result<NamedKeys, UampError>> {
        let known = self.known();
        let document = known.get(did).filter(|known| Instant::now() < known.until)?;
        Some(document.result.clone())
    }

    /// The keys by which this `did:web` makes statements.
    ///
    /// # Errors
    /// [`UampCode::Unauthenticated`] when the document cannot be had or used; [`UampCode::BackendBusy`] while too
    /// many are fetched.
    pub(super) async fn keys(&self, did: &str) -> Result<NamedKeys, UampError> {
        let refused = |cause: String| UampError::coded(UampCode::Unauthenticated, cause);
        let name: DidWeb = did
            .parse()
            .map_err(|error: agentanycast_identity::InvalidDid| refused(error.to_string()))?;
        if name.to_string() != did {
            return Err(refused(format!("{} is written {name}", shown(did))));
        }
        if let Some(result) = self.remembered(did) {
            return result;
        }
        let Ok(_permit) = self.permits.try_acquire() else {
            let text =
                format!("{AT_ONCE} DID documents are being fetched, the most at a time; try again later");
            return Err(UampError::coded(UampCode::BackendBusy, text));
        };
        let fetched = self.fetcher.get(&name.url(), MAX_DOCUMENT, WITHIN).await;
        let result = fetched
            .map_err(|error| refused(format!("the document of {did} cannot be fetched: {error}")))
            .and_then(|bytes| assertion_keys(did, &bytes).map_err(|error| refused(error.to_string())))
            .map(Arc::new);
        self.remember(did, &result);
        result
    }

    fn remember(&self, did: &str, result: &Result<NamedKeys, UampError>) {
        let now = Instant::now();
        let mut known = self.known();
        if known.len() >= MOST_KEPT {
            known.retain(|_, document| now < document.until);
        }
        if known.len() >= MOST_KEPT
            && let Some(first) = known.iter().min_by_key(|(_, document)| document.until)
        {
            let first = first.0.clone();
            known.remove(&first);
        }
        let until = now + if result.is_ok() { KEPT } else { FAILURE_KEPT };
        let result = result.clone();
        known.insert(did.to_owned(), KnownDocument { until, result });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use agentanycast_daemon_kit::settings::ListenOn;
    use agentanycast_front::front::Front;
    use agentanycast_gateways::{front::FrontSettings, outbound::HostConfig};
    use axum::Router;
    use serde_json::json;

    use super::*;
    use agentanycast_uamp::jws::SigningIdentity;

    /// A host with a document for `/a/did.json`; what it answered is counted.
    async fn host(
        directory: &std::path::Path,
    ) -> (agentanycast_front::listener::RunningFront, Arc<AtomicUsize>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) = (directory.join("cert.pem"), directory.join("key.pem"));
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.key_pair.serialize_pem()).unwrap();
        let settings = FrontSettings {
            listen: ListenOn("127.0.0.1:0".to_owned()),
            tls_cert: Some(cert),
            tls_key: Some(key),
            ..FrontSettings::default()
        };
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let document = move |host: http::HeaderMap, uri: http::Uri| {
            counted.fetch_add(1, Relaxed);
            let authority = uri
                .authority()
                .map_or_else(|| host["host"].to_str().unwrap().to_owned(), ToString::to_string);
            let did = format!("did:web:{}:a", authority.replace(':', "%3A"));
            let multikey = SigningIdentity::from_ed25519(&[3; 32]).did()[8..].to_owned();
            let method =
                json!({ "id": "#k", "type": "Multikey", "controller": did, "publicKeyMultibase": multikey });
            async move { axum::Json(json!({ "id": did, "verificationMethod": [method] })) }
        };
        let router = |_| Router::new().route("/a/did.json", axum::routing::get(document));
        let front = Front::new(settings, Arc::default()).unwrap();
        (front.serve("a test", router).await.unwrap(), asked)
    }

    #[tokio::test]
    async fn a_document_is_fetched_once_and_a_private_address_never() {
        let directory = tempfile::tempdir().unwrap();
        let (running, asked) = host(directory.path()).await;
        let authority = format!("localhost:{}", running.address.port());
        let did = format!("did:web:{}:a", authority.replace(':', "%3A"));
        let mut config = OutboundConfig::default();
        let trusted = HostConfig {
            allow_private: true,
            ca: Some(directory.path().join("cert.pem")),
            ..HostConfig::default()
        };
        config.hosts.insert(authority.clone(), trusted);
        let documents = DidWebKeys::with(&config).unwrap();
        for _ in 0..2 {
            let keys = documents.keys(&did).await.unwrap();
            let key = SigningIdentity::from_ed25519(&[3; 32]).verification_key();
            assert_eq!(*keys, [(format!("{did}#k"), key)]);
        }
        assert_eq!(asked.load(Relaxed), 1, "the second is answered from memory");
        documents.known().get_mut(&did).unwrap().until = Instant::now();
        documents.keys(&did).await.unwrap();
        assert_eq!(asked.load(Relaxed), 2, "it has run out");
        // Another name leads to no document, and that is remembered too.
        let missing = format!("{}b", &did[..did.len() - 1]);
        for _ in 0..2 {
            let error = documents.keys(&missing).await.unwrap_err();
            assert_eq!(error.code(), Some(UampCode::Unauthenticated), "{error}");
            assert!(error.to_string().contains("404"), "{error}");
        }
        let public = DidWebKeys::new().unwrap();
        let error = public.keys(&did).await.unwrap_err().to_string();
        assert!(error.contains("localhost is 127.0.0.1"), "{error}");
        assert_eq!(asked.load(Relaxed), 2);
        for odd in ["did:web:127.0.0.1", "did:web:LOCALHOST:a", "did:web:"] {
            let error = public.keys(odd).await.unwrap_err();
            assert_eq!(error.code(), Some(UampCode::Unauthenticated), "{odd}");
        }
    }

    #[tokio::test]
    async fn fetches_and_memory_are_bounded() {
        let documents = DidWebKeys::new().unwrap();
        let permits = documents.permits.try_acquire_many(AT_ONCE as u32).unwrap();
        let busy = documents.keys("did:web:a.example").await.unwrap_err();
        assert_eq!(busy.code(), Some(UampCode::BackendBusy));
        drop(permits);
        for at in 0..MOST_KEPT + 5 {
            documents.remember(&format!("did:web:h{at}.example"), &Ok(Arc::default()));
        }
        assert_eq!(documents.known().len(), MOST_KEPT);
        assert!(documents.remembered("did:web:h0.example").is_none());
        assert!(documents.remembered("did:web:h5.example").is_some());
    }
}
