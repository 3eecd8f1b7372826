//! How the daemon says who calls: each kind of credentials, to the host that they are for and to no other.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use agentanycast_tests::{
    cli::anycast_json as trace_json,
    task_assertions::{completed, not_completed},
};
use axum::{
    http::{StatusCode, header},
    response::IntoResponse as _,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use serde_json::json;
use tokio_rustls::rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};

use crate::http_agent::{
    HttpAgent, ReceivedRequest, card, daemon, is_card, ok, reason, result, said, send, status,
};

/// An agent that takes calls with this header only, and its card too.
async fn guarded(name: &'static str, value: &'static str) -> HttpAgent {
    HttpAgent::start(move |asked: ReceivedRequest, address| {
        let answer = if asked.header(name) != Some(value) {
            status(401)
        } else if is_card(&asked) {
            card(&format!("http://{address}/"), "1.0", false)
        } else {
            said("hi")
        };
        async { answer }
    })
    .await
}

#[tokio::test]
async fn each_kind_is_told_to_its_host_alone() {
    let secrets = tempfile::tempdir().unwrap();
    let file = secrets.path().join("token");
    fs::write(&file, "hush\n").unwrap();
    let basic: &'static str = format!("Basic {}", STANDARD.encode("me:hush")).leak();
    for (header, value, config) in [
        (
            "authorization",
            "Bearer hush",
            "bearer_token = \"hush\"".to_owned(),
        ),
        (
            "authorization",
            "Bearer hush",
            format!("bearer_token_file = {file:?}"),
        ),
        ("x-api-key", "hush", "api_key = \"hush\"".to_owned()),
        (
            "x-other",
            "hush",
            "api_key = \"hush\"\napi_key_header = \"X-Other\"".to_owned(),
        ),
        (
            "authorization",
            basic,
            "username = \"me\"\npassword = \"hush\"".to_owned(),
        ),
    ] {
        let agent = guarded(header, value).await;
        let stranger = guarded(header, value).await;
        let entry = format!(
            "[bridge.outbound.{:?}]\nallow_private = true\n{config}\n",
            agent.address.to_string()
        );
        let (daemon, node) = daemon(&format!("allow_private = true\n{entry}")).await;
        completed(&send(&node, &agent.url()).await).await;
        let why = reason(&node, &stranger.url()).await;
        assert!(why.contains("HTTP 401"), "{why}");
        assert!(
            stranger
                .asked()
                .iter()
                .all(|asked| asked.header(header).is_none())
        );
        assert!(!daemon.log_tail().contains("hush"), "a secret is in the log");
    }
}

/// An agent that repeats what it is called with has it nowhere in what is kept: not in its reason, its trace or the log.
#[tokio::test]
async fn an_agent_that_repeats_what_it_was_told_has_it_kept_nowhere() {
    const SECRET: &str = "sk-live-0123456789";
    let tokens =
        HttpAgent::start(async |_, _| ok(&json!({"access_token": SECRET, "token_type": "Bearer"}))).await;
    let pair: &'static str = STANDARD.encode(format!("me:{SECRET}")).leak();
    for (header, config) in [
        ("authorization", format!("bearer_token = \"{SECRET}\"")),
        ("x-api-key", format!("api_key = \"{SECRET}\"")),
        (
            "authorization",
            format!("username = \"me\"\npassword = \"{SECRET}\""),
        ),
        (
            "authorization",
            format!(
                "oauth2_token_url = \"{}/token\"\noauth2_client_id = \"me\"\noauth2_client_secret = \"hush\"",
                tokens.url()
            ),
        ),
    ] {
        let repeating = move |number: usize, asked: &ReceivedRequest| {
            let heard = asked.header(header).unwrap_or_default();
            let text = format!("no, {heard} ({SECRET})");
            let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]});
            match number {
                0 => (
                    StatusCode::BAD_REQUEST,
                    json!({"error": {"code": 400, "message": text}}).to_string(),
                )
                    .into_response(),
                1 => (StatusCode::INTERNAL_SERVER_ERROR, format!("<h1>{text}</h1>")).into_response(),
                // It is cut off in the middle of it.
                2 => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("{}{SECRET}", "x".repeat(190)),
                )
                    .into_response(),
                3 => ok(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": text}})),
                _ => result(
                    &json!({"task": {"id": "r1", "contextId": "c", "status": {"state": "TASK_STATE_FAILED", "message": message}}}),
                ),
            }
        };
        let asked_so_far = Arc::new(AtomicUsize::new(0));
        let number = Arc::clone(&asked_so_far);
        let agent = HttpAgent::start(move |asked: ReceivedRequest, address| {
            let answer = if is_card(&asked) {
                card(&format!("http://{address}/"), "1.0", false)
            } else {
                repeating(number.fetch_add(1, Ordering::SeqCst), &asked)
            };
            async { answer }
        })
        .await;
        let entry = format!(
            "[bridge.outbound.{:?}]\nallow_private = true\n{config}\n",
            agent.address.to_string()
        );
        let (daemon, node) = daemon(&format!("allow_private = true\n{entry}")).await;
        for _ in 0..5 {
            let handle = send(&node, &agent.url()).await;
            let error = not_completed(&handle).await;
            let reason = error.task().unwrap().reason();
            let trace = trace_json(&daemon, &["trace", handle.id()]).await.to_string();
            for text in [&reason, &trace, &error.to_string()] {
                assert!(!text.contains(SECRET) && !text.contains(pair), "{config}: {text}");
                assert!(!text.contains("sk-live"), "{config}: {text}");
            }
            assert!(reason.contains("***"), "{reason}");
        }
        assert_eq!(asked_so_far.load(Ordering::SeqCst), 5);
        let log = daemon.log_tail();
        assert!(
            !log.contains(SECRET) && !log.contains(pair),
            "a secret is in the log"
        );
    }
}

/// A real token server: tokens are got once, used until they end, and got anew when they are not taken.
#[tokio::test]
async fn tokens_are_had_kept_and_renewed() {
    let given = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&given);
    let tokens = HttpAgent::start(move |asked: ReceivedRequest, _| {
        let pair = format!("Basic {}", STANDARD.encode("me%2Fyou:hush"));
        let good = asked.header("authorization") == Some(&pair)
            && asked.body.as_ref() == b"grant_type=client_credentials&scope=read+write";
        let answer = if good {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            ok(&json!({"access_token": format!("t{number}"), "token_type": "Bearer", "expires_in": 3600}))
        } else {
            (
                axum::http::StatusCode::BAD_REQUEST,
                json!({"error": "invalid_client"}).to_string(),
            )
                .into_response()
        };
        async { answer }
    })
    .await;
    let good = Arc::clone(&given);
    let revoked = Arc::new(AtomicUsize::new(0));
    let least = Arc::clone(&revoked);
    let agent = HttpAgent::start(move |asked: ReceivedRequest, address| {
        let token = asked
            .header("authorization")
            .and_then(|value| value.strip_prefix("Bearer t"));
        let number: usize = token.and_then(|text| text.parse().ok()).unwrap_or(0);
        let taken = number > least.load(Ordering::SeqCst) && number <= good.load(Ordering::SeqCst);
        let answer = if is_card(&asked) {
            card(&format!("http://{address}/"), "1.0", false)
        } else if taken {
            said("hi")
        } else {
            ([(header::WWW_AUTHENTICATE, "Bearer")], status(401)).into_response()
        };
        async { answer }
    })
    .await;
    let entry = |secret: &str| {
        format!(
            "[bridge.outbound.{:?}]\nallow_private = true\noauth2_token_url = \"{}/token\"\noauth2_client_id = \"me/you\"\n\
             oauth2_client_secret = {secret:?}\noauth2_scopes = [\"read\", \"write\"]\n",
            agent.address.to_string(),
            tokens.url()
        )
    };
    let (_daemon, node) = daemon(&entry("hush")).await;
    for _ in 0..3 {
        completed(&send(&node, &agent.url()).await).await;
    }
    assert_eq!(given.load(Ordering::SeqCst), 1, "one token is enough");
    revoked.store(1, Ordering::SeqCst);
    completed(&send(&node, &agent.url()).await).await;
    assert_eq!(given.load(Ordering::SeqCst), 2);
    let (_other, node) = daemon(&entry("wrong")).await;
    let why = reason(&node, &agent.url()).await;
    assert!(
        why.contains("no token from") && why.contains("invalid_client"),
        "{why}"
    );
}

#[tokio::test]
async fn no_secret_goes_without_tls_over_the_internet() {
    // Documentation addresses lead nowhere; it is refused before anything is dialled.
    let entry = "[bridge.outbound.\"agent.invalid\"]\nbearer_token = \"hush\"\n";
    let (_daemon, node) = daemon(entry).await;
    let why = reason(&node, "http://agent.invalid/").await;
    assert!(why.contains("not sent without TLS"), "{why}");
}

struct TestCa {
    certificate: Certificate,
    key: KeyPair,
}

impl TestCa {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            certificate: params.self_signed(&key).unwrap(),
            key,
        }
    }

    fn issue(&self, purpose: ExtendedKeyUsagePurpose) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        (params.signed_by(&key, &self.certificate, &self.key).unwrap(), key)
    }

    /// TLS that lets in who shows a certificate of this authority.
    fn server(&self) -> ServerConfig {
        let (certificate, key) = self.issue(ExtendedKeyUsagePurpose::ServerAuth);
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    format!("\"{}\"", path.display())
}

#[tokio::test]
async fn both_sides_show_certificates() {
    let authority = TestCa::new();
    let agent = HttpAgent::over_tls(authority.server(), async |asked, address| {
        if is_card(&asked) {
            card(&format!("https://localhost:{}/", address.port()), "1.0", false)
        } else {
            said("hi")
        }
    })
    .await;
    let url = format!("https://localhost:{}", agent.address.port());
    let directory = tempfile::tempdir().unwrap();
    let ca = write(directory.path(), "ca.pem", &authority.certificate.pem());
    let (certificate, key) = authority.issue(ExtendedKeyUsagePurpose::ClientAuth);
    let cert = write(directory.path(), "cert.pem", &certificate.pem());
    let key = write(directory.path(), "key.pem", &key.serialize_pem());
    let host = "[bridge.outbound.localhost]\nallow_private = true\n";
    let (_daemon, node) = daemon(&format!(
        "{host}ca = {ca}\nclient_cert = {cert}\nclient_key = {key}\n"
    ))
    .await;
    completed(&send(&node, &url).await).await;
    // Without the root its certificate is worth nothing, and without ours it does not answer.
    let (_stranger, node) = daemon(host).await;
    let why = reason(&node, &url).await;
    assert!(why.contains("TLS with it failed"), "{why}");
    let (_nobody, node) = daemon(&format!("{host}ca = {ca}\n")).await;
    let why = reason(&node, &url).await;
    assert!(
        why.contains("TLS with it failed") || why.contains("certificate"),
        "{why}"
    );
    let with = "client_cert = \"/nowhere\"\nclient_key = \"/nowhere\"\n";
    let config = format!("[bridge.outbound.localhost]\n{with}");
    let ended = agentanycast_tests::Daemon::builder()
        .config(&config)
        .try_start()
        .await
        .unwrap_err();
    assert!(ended.log.contains("client_cert /nowhere"), "{}", ended.log);
}
