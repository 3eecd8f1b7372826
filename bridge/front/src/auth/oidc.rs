//! Tokens of an issuer (OpenID Connect, OAuth 2.0): its keys are fetched from where it says they are, and kept.
//!
//! The rule: the issuer is believed about its keys, and nobody else; what it answers is bounded in size and time.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard},
    time::{Duration, Instant, SystemTime},
};

use agentanycast_gateways::front::Auth;
use jsonwebtoken::{Algorithm, DecodingKey};
use lru::LruCache;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    AuthScheme,
    claims::{self, OidcError, TokenRules},
    jwks::IssuerKeys,
    key_refresh::KeyRefresh,
};

/// How long the issuer may take to answer, and the most that it may say, in bytes.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const LONGEST_ANSWER: usize = 1 << 20;

/// Where an issuer describes itself.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Tokens that were found good lately are not checked again: how many, and for how long, so that a key that the issuer
/// gives up is not trusted for longer.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");
const REMEMBER_FOR: Duration = Duration::from_mins(1);

/// An issuer.
#[derive(Debug)]
pub(super) struct OidcVerifier {
    rules: TokenRules,
    /// Where its keys are, if the settings say.
    jwks_url: Option<String>,
    client: reqwest::Client,
    begun: Instant,
    keys: RwLock<(KeyRefresh, Arc<IssuerKeys>)>,
    /// Held by whoever fetches.
    fetching: tokio::sync::Mutex<()>,
    cache: Mutex<LruCache<[u8; 32], CachedToken>>,
}

#[derive(Clone, Debug)]
struct CachedToken {
    subject: Arc<str>,
    /// When it was checked, in passed time: a clock that is set back makes no check last longer.
    checked: Instant,
    /// When the token ends, by the wall clock, as it says itself.
    until: SystemTime,
}

impl OidcVerifier {
    pub(super) fn new(settings: &Auth) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(ANSWER_WITHIN)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            rules: TokenRules {
                issuer: settings.issuer.clone(),
                audience: settings.audience.clone(),
                scopes: settings.scopes.clone(),
                leeway: settings.leeway.as_secs(),
            },
            jwks_url: Some(settings.jwks_url.clone()).filter(|url| !url.is_empty()),
            client,
            begun: Instant::now(),
            keys: RwLock::default(),
            fetching: tokio::sync::Mutex::default(),
            cache: Mutex::new(LruCache::new(REMEMBERED)),
        })
    }

    /// How cards tell of it.
    pub(super) fn scheme(&self) -> AuthScheme {
        let scopes = self.rules.scopes.clone();
        match self.jwks_url {
            None => AuthScheme::OpenId {
                url: self.discovery(),
                scopes,
            },
            Some(_) => AuthScheme::Jwt { scopes },
        }
    }

    /// Whose token this is, if it was checked lately.
    pub(super) fn cached(&self, token: &str, now: SystemTime) -> Option<Arc<str>> {
        let mut good = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let known = good.get(&digest(token))?;
        (now < known.until && known.checked.elapsed() < REMEMBER_FOR).then(|| Arc::clone(&known.subject))
    }

    /// Whose token this is.
    pub(super) async fn verify(&self, token: &str, now: SystemTime) -> Result<Arc<str>, OidcError> {
        let header = claims::header(token)?;
        let key = self.key(header.kid.as_deref(), header.alg).await?;
        let good = claims::check(token, header.alg, &key, &self.rules)?;
        let subject: Arc<str> = good.subject.into();
        let end = Duration::try_from_secs_f64(good.until).unwrap_or(Duration::ZERO);
        let known = CachedToken {
            subject: Arc::clone(&subject),
            checked: Instant::now(),
            until: SystemTime::UNIX_EPOCH.checked_add(end).unwrap_or(now),
        };
        let mut remembered = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.put(digest(token), known);
        Ok(subject)
    }

    /// The key of this name. Fetches the keys when it is not known, or when they are old.
    async fn key(&self, id: Option<&str>, algorithm: Algorithm) -> Result<DecodingKey, OidcError> {
        let fetching = match self.look(id, algorithm) {
            (false, Some(key)) => return Ok(key),
            // One fetches; the others go on with what there is, or wait for what it finds.
            (true, Some(key)) => match self.fetching.try_lock() {
                Ok(fetching) => fetching,
                Err(_) => return Ok(key),
            },
            (_, None) => self.fetching.lock().await,
        };
        let failed = match self.look(id, algorithm) {
            (true, _) => self.refresh().await.err(),
            (false, _) => None,
        };
        drop(fetching);
        if let Some(why) = &failed {
            tracing::warn!(
                issuer = self.rules.issuer,
                error = why,
                "the issuer's keys could not be fetched"
            );
        }
        let (schedule, keys) = self.keys();
        if !schedule.is_usable(self.begun.elapsed()) {
            let why = failed.unwrap_or_else(|| "the issuer did not answer".to_owned());
            return Err(OidcError::NoKeys(why));
        }
        let key = keys.find(id, algorithm).cloned();
        key.ok_or_else(|| OidcError::Bad("its issuer has no such key".to_owned()))
    }

    /// Whether keys are to be fetched, and the key of this name if it is there.
    fn look(&self, id: Option<&str>, algorithm: Algorithm) -> (bool, Option<DecodingKey>) {
        let (schedule, keys) = self.keys();
        let now = self.begun.elapsed();
        let key = keys.find(id, algorithm).filter(|_| schedule.is_usable(now));
        (schedule.is_due(now, key.is_some()), key.cloned())
    }

    fn keys(&self) -> (KeyRefresh, Arc<IssuerKeys>) {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// Fetches the keys. What fails leaves those that there are.
    async fn refresh(&self) -> Result<(), String> {
        // Noted before, since whoever waits for it may go away; and after, so that those who waited with it do not begin
        // anew, one behind the other.
        self.write().0.tried(self.begun.elapsed(), false);
        let fetched = self.fetch().await;
        let mut keys = self.write();
        keys.0.tried(self.begun.elapsed(), fetched.is_ok());
        keys.1 = Arc::new(fetched?);
        Ok(())
    }

    fn write(&self) -> RwLockWriteGuard<'_, (KeyRefresh, Arc<IssuerKeys>)> {
        self.keys.write().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self) -> Result<IssuerKeys, String> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let keys = IssuerKeys::read(&self.get(&url).await?).filter(|keys| !keys.is_empty());
        keys.ok_or_else(|| format!("{url}: there are no keys in it that can be used"))
    }

    /// Where the issuer says that its keys are.
    async fn discover(&self) -> Result<String, String> {
        let url = self.discovery();
        let said = self.get(&url).await?;
        if said["issuer"] != self.rules.issuer.as_str() {
            return Err(format!("{url} is about another issuer: {}", said["issuer"]));
        }
        let keys = said["jwks_uri"].as_str().unwrap_or_default();
        if !agentanycast_gateways::front::is_secure_url(keys) {
            return Err(format!("{url}: jwks_uri is no https:// URL: {keys:?}"));
        }
        Ok(keys.to_owned())
    }

    fn discovery(&self) -> String {
        format!("{}{DISCOVERY}", self.rules.issuer.trim_end_matches('/'))
    }

    /// The JSON there.
    async fn get(&self, url: &str) -> Result<Value, String> {
        let said = |error: reqwest::Error| format!("{url}: {}", innermost(&error.without_url()));
        let mut response = self.client.get(url).send().await.map_err(said)?;
        if response.status() != http::StatusCode::OK {
            return Err(format!("{url}: it answered {}", response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(said)? {
            if body.len() + chunk.len() > LONGEST_ANSWER {
                return Err(format!("{url}: the answer is longer than {LONGEST_ANSWER} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|error| format!("{url}: no JSON: {error}"))
    }
}

/// What an error is at last: what wraps it says less.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// What a token is remembered by: the token itself is kept nowhere.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn those_who_waited_for_an_issuer_in_vain_do_not_ask_one_after_the_other() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let jwks_url = format!("http://{}/keys", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let issuer = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                count.fetch_add(1, SeqCst);
                // The others are waiting by now.
                tokio::time::sleep(Duration::from_millis(300)).await;
                drop(connection);
            }
        });
        let oidc = OidcVerifier::new(&Auth {
            issuer: "http://127.0.0.1".to_owned(),
            jwks_url,
            ..Auth::default()
        })
        .unwrap();
        let header = URL_SAFE_NO_PAD.encode("{\"alg\":\"ES256\",\"kid\":\"k\"}");
        let token = format!("{header}.e30.AA");
        let verified = (0..4).map(|_| oidc.verify(&token, SystemTime::now()));
        for verified in futures::future::join_all(verified).await {
            assert!(matches!(verified, Err(OidcError::NoKeys(_))), "{verified:?}");
        }
        assert_eq!(asked.load(SeqCst), 1);
        issuer.abort();
    }
}
