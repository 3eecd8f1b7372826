//! An issuer of tokens: a real HTTP server with a discovery document and a set of keys, which are made here and can be
//! changed.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use axum::{Json, Router, extract::State, routing::get};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// The audience of the tokens.
pub(crate) const AUDIENCE: &str = "the-bridge";

/// What the issuer says, and how often it was asked for its keys.
#[derive(Default)]
struct IssuerState {
    keys: Mutex<Vec<Value>>,
    asked: AtomicUsize,
}

/// The issuer; dropping it ends it.
pub(crate) struct OidcIssuer {
    pub(crate) url: String,
    said: Arc<IssuerState>,
    server: JoinHandle<()>,
}

impl OidcIssuer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let url = format!("http://{address}");
        let said = Arc::new(IssuerState::default());
        let about = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let keys = |State(said): State<Arc<IssuerState>>| async move {
            said.asked.fetch_add(1, Relaxed);
            let keys = said.keys.lock().unwrap().clone();
            Json(json!({ "keys": keys }))
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(|| async { Json(about) }))
            .route("/keys", get(keys))
            .with_state(Arc::clone(&said));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, said, server }
    }

    /// Makes a key and publishes it.
    pub(crate) fn publish(&self, id: &str, algorithm: Algorithm) -> TokenSigner {
        let (signer, public) = TokenSigner::new(&self.url, id, algorithm);
        self.said.keys.lock().unwrap().push(public);
        signer
    }

    /// How often it was asked for its keys.
    pub(crate) fn asked(&self) -> usize {
        self.said.asked.load(Relaxed)
    }
}

impl Drop for OidcIssuer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A key that signs.
pub(crate) struct TokenSigner {
    issuer: String,
    id: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl TokenSigner {
    /// With the public half as a JWK.
    pub(crate) fn new(issuer: &str, id: &str, algorithm: Algorithm) -> (Self, Value) {
        let coded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (key, public) = if algorithm == Algorithm::EdDSA {
            let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
            let public = json!({"kty": "OKP", "crv": "Ed25519", "x": coded(pair.public_key_raw())});
            (EncodingKey::from_ed_der(&pair.serialize_der()), public)
        } else {
            let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
            // A byte that says that the point is whole, then its two halves.
            let (x, y) = pair.public_key_raw()[1..].split_at(32);
            let public = json!({"kty": "EC", "crv": "P-256", "x": coded(x), "y": coded(y)});
            (EncodingKey::from_ec_der(&pair.serialize_der()), public)
        };
        let mut public = public;
        public["kid"] = id.into();
        public["use"] = "sig".into();
        let signer = Self {
            issuer: issuer.to_owned(),
            id: id.to_owned(),
            algorithm,
            key,
        };
        (signer, public)
    }

    /// A good token of this subject.
    pub(crate) fn token(&self, subject: &str) -> String {
        self.token_with(subject, json!({}))
    }

    /// The same with other claims.
    pub(crate) fn token_with(&self, subject: &str, changes: Value) -> String {
        let mut claims = json!({"iss": self.issuer, "aud": AUDIENCE, "sub": subject, "scope": "a2a openid",
            "exp": get_current_timestamp() + 600});
        let Value::Object(changes) = changes else {
            panic!("claims are an object")
        };
        claims.as_object_mut().unwrap().extend(changes);
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.clone());
        encode(&header, &claims, &self.key).unwrap()
    }
}
