//! A registry behind TLS, which ends before the relay: nodes check its certificate by the authorities of their host.

use agentanycast::{AgentCard, ErrorKind, Skill};
use agentanycast_tests::{Daemon, TestRelay, agent::TestAgent, daemon::DaemonBuilder, eventually};
use tempfile::TempDir;

use crate::tls_proxy::TlsProxy;

/// A daemon on a host that knows one authority only, whose certificate this is.
fn on_host(home: &TempDir, name: &str, authority: &str, registry: &str) -> DaemonBuilder {
    let path = home.path().join(name);
    std::fs::write(&path, authority).unwrap();
    Daemon::builder()
        .env("SSL_CERT_FILE", path)
        // Where no file is named as those of authorities are.
        .env("SSL_CERT_DIR", home.path())
        .env("AGENTANYCAST_REGISTRY_ADDRS", registry)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_found_through_a_registry_behind_tls() {
    let relay = TestRelay::builder().start().await;
    let front = TlsProxy::new(&["h2"]).await;
    let registry = format!("https://localhost:{}", front.port);
    let authority = front.certificate.clone();
    let running = front.before(relay.registry);
    let home = tempfile::tempdir().unwrap();

    let worker = on_host(&home, "ca.pem", &authority, &registry).start().await;
    let node = worker.node_named("worker").await;
    let card = AgentCard::new("worker", "an agent of a test").with_skill(Skill::new("dig", "what it does"));
    node.set_card(card).await.unwrap();
    let _agent = TestAgent::echo(&node);
    let asker = on_host(&home, "ca.pem", &authority, &registry).start().await;
    let asking = asker.node().await;
    let found = eventually("the agent is found through the registry", || async {
        let found = asking.discover("dig", &[].into(), 0).await.unwrap();
        (!found.agents.is_empty()).then_some(found.agents)
    })
    .await;
    assert_eq!(found[0].peer_id.as_ref(), Some(worker.peer_id()));
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_whose_authority_is_not_known_is_not_believed() {
    let relay = TestRelay::builder().start().await;
    let front = TlsProxy::new(&["h2"]).await;
    let registry = format!("https://localhost:{}", front.port);
    let running = front.before(relay.registry);
    let home = tempfile::tempdir().unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();

    let asker = on_host(&home, "other.pem", &other.cert.pem(), &registry)
        .start()
        .await;
    let node = asker.node().await;
    let error = node.discover("dig", &[].into(), 0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiscoveryUnavailable, "{error}");
    let said = error.to_string();
    assert!(
        said.contains(&registry) && said.contains("certificate") && !said.contains('\n'),
        "{said}"
    );
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_any_authority_is_told_what_to_install() {
    let home = tempfile::tempdir().unwrap();
    let ended = on_host(&home, "empty.pem", "", "https://localhost:1")
        .run_to_end()
        .await;
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success(), "{said}");
    assert!(
        said.contains("https://localhost:1") && said.contains("ca-certificates"),
        "{said}"
    );
}
