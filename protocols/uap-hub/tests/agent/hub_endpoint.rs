//! Hubs behind TLS that ask for certificates and tokens.

use std::{fs, path::PathBuf};

use agentanycast_uap_hub::agent::{
    AgentSession, BoxError, ExecutionAgent, HubEndpoint, HubError, SessionEnd,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tempfile::TempDir;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::{
    reconnecting::first_error,
    scripted_hub::{HubCall, ListeningAgent, RunningAgent, ScriptedHub},
};

async fn completes(_: AgentSession) -> Result<SessionEnd, BoxError> {
    Ok(SessionEnd::completed())
}

/// An authority, and what it has signed: a hub's certificate and an agent's.
struct Certificates {
    folder: TempDir,
    hub: ServerTlsConfig,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let authority = authority.self_signed(&authority_key).unwrap();
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &authority, &authority_key).unwrap();
            (certificate.pem(), key.serialize_pem())
        };
        let (agent, agent_key) = signed("agent");
        for (name, content) in [
            ("ca.pem", &authority.pem()),
            ("agent.pem", &agent),
            ("agent.key", &agent_key),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let (hub, hub_key) = signed("localhost");
        let hub = ServerTlsConfig::new()
            .identity(Identity::from_pem(hub, hub_key))
            .client_ca_root(Certificate::from_pem(authority.pem()));
        Self { folder, hub }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn start(endpoint: HubEndpoint) -> RunningAgent {
    let agent = ExecutionAgent::new("a").test("junit", [], completes);
    RunningAgent::spawn(|stop| async move { agent.run(endpoint, stop.cancelled()).await })
}

#[tokio::test]
async fn an_agent_shows_its_certificate_and_token() {
    let certificates = Certificates::new();
    let mut hub = ScriptedHub::with_tls(Some(certificates.hub.clone()));
    let endpoint = HubEndpoint::new(&hub.url)
        .unwrap()
        .with_ca_file(certificates.path("ca.pem"))
        .with_client_certificate(certificates.path("agent.pem"), certificates.path("agent.key"))
        .with_token("s3cret")
        .unwrap();
    let _agent = start(endpoint);
    match hub.call().await {
        HubCall::Register { metadata, .. } => {
            assert_eq!(metadata.get("authorization").unwrap(), "Bearer s3cret");
        }
        other => panic!("{other:?}"),
    }
    let listen = hub.listen().await;
    assert_eq!(listen.header("authorization"), "Bearer s3cret");
    let mut agent = ListeningAgent::accept(listen).await;
    let session = hub.begin_test(&mut agent, "JOB-1", "junit").await;
    assert_eq!(session.header("authorization"), "Bearer s3cret");
}

#[tokio::test]
async fn a_hub_whose_authority_is_unknown_gets_nothing() {
    let certificates = Certificates::new();
    let hub = ScriptedHub::with_tls(Some(certificates.hub.clone()));
    let other = Certificates::new();
    let endpoint = HubEndpoint::new(&hub.url).unwrap();
    for endpoint in [endpoint.clone(), endpoint.with_ca_file(other.path("ca.pem"))] {
        let error = first_error(endpoint).await;
        assert!(error.contains("certificate"), "{error}");
    }
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_before_anything_is_tried() {
    let agent = || ExecutionAgent::new("a");
    let error = agent()
        .run("hub:50061", std::future::pending())
        .await
        .unwrap_err();
    assert!(matches!(error, HubError::InvalidUrl { .. }), "{error}");
    let endpoint = HubEndpoint::new("https://localhost:1")
        .unwrap()
        .with_ca_file("/none/ca.pem");
    let error = agent().run(endpoint, std::future::pending()).await.unwrap_err();
    assert!(matches!(error, HubError::File { .. }), "{error}");
}
