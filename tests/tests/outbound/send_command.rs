//! `anycast send --url` where nothing comes of it: exit code 1, for a task that failed, and one line that says why and
//! what helps. What is no URL is a mistake in the command, exit code 2.

use std::net::TcpListener;

use agentanycast_tests::{Daemon, cli::anycast_at};
use axum::{http::header, response::IntoResponse as _};
use rcgen::{CertificateParams, KeyPair};
use tokio_rustls::rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use crate::http_agent::{HttpAgent, card, daemon, greeter, is_card, said, status};

/// The one line that a task by URL fails with.
async fn failed(daemon: &Daemon, url: &str) -> String {
    let told = anycast_at(daemon, &["send", "--url", url, "hello"]).await;
    assert_eq!(told.status.code(), Some(1), "{url}: {}", told.all_output);
    let line = told.all_output.trim_end().to_owned();
    assert!(line.starts_with("anycast: the task failed: "), "{url}: {line}");
    assert!(!line.contains('\n') && line.len() < 500, "{url}: {line}");
    eprintln!("{url}: {line}");
    line
}

fn a_certificate_of_nobody() -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}

#[tokio::test]
async fn each_failure_says_what_helps() {
    let (daemon, _node) = daemon("allow_private = true\n").await;
    let none = HttpAgent::start(async |_, _| status(404)).await;
    let page = HttpAgent::start(async |_, _| {
        ([(header::CONTENT_TYPE, "text/html")], "<html>hi</html>").into_response()
    })
    .await;
    let later = HttpAgent::start(async |_, address| card(&format!("http://{address}/"), "9.0", false)).await;
    let guarded = HttpAgent::start(async |asked, address| {
        if is_card(&asked) {
            card(&format!("http://{address}/"), "1.0", false)
        } else {
            status(401)
        }
    })
    .await;
    let secret = HttpAgent::over_tls(a_certificate_of_nobody(), async |_, _| said("hi")).await;
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let https = |agent: &HttpAgent| format!("https://{}", agent.address);
    let mut lacking = Vec::new();
    for (url, parts) in [
        (none.url(), ["no agent card at", "give the URL of an agent"]),
        (page.url(), ["is no JSON", "agent-card.json"]),
        (
            later.url(),
            ["no interface that this node speaks", "of 1.0 or 0.3"],
        ),
        (guarded.url(), ["HTTP 401", "[bridge.outbound.HOST]"]),
        (https(&secret), ["certificate", "set as ca in [bridge.outbound"]),
        (https(&none), ["TLS with it failed", "try http://"]),
        (
            format!("http://127.0.0.1:{port}"),
            ["cannot be reached", "refused"],
        ),
    ] {
        let line = failed(&daemon, &url).await;
        for part in parts {
            if !line.contains(part) {
                lacking.push(format!("{part:?} is not in: {line}"));
            }
        }
    }
    assert!(lacking.is_empty(), "{lacking:#?}");
    for wrong in ["ftp://agents.example.org/", "agents.example.org"] {
        let told = anycast_at(&daemon, &["send", "--url", wrong, "hello"]).await;
        assert_eq!(told.status.code(), Some(2), "{}", told.all_output);
        assert!(
            told.all_output.contains("https://") && told.all_output.trim_end().lines().count() == 1,
            "{}",
            told.all_output
        );
    }
}

#[tokio::test]
async fn a_private_host_names_the_flag_and_the_setting() {
    let agent = greeter().await;
    let (daemon, _node) = daemon("").await;
    let line = failed(&daemon, &agent.url()).await;
    assert!(
        line.contains("--allow-private") && line.contains("allow_private for it in [bridge.outbound]"),
        "{line}"
    );
    assert_eq!(agent.asked().len(), 0);
    let sent = ["send", "--url", "--allow-private", &agent.url(), "hello"];
    let told = anycast_at(&daemon, &sent).await;
    assert_eq!(told.status.code(), Some(0), "{}", told.all_output);
    // It is for that task only.
    failed(&daemon, &agent.url()).await;
}
