//! Senders that are not `did:key`: by the client certificate of their connection.

use agentanycast_uamp::{canonical, envelope::Intent, jws::SignatureForm};
use agentanycast_uamp_gateway::settings::UampSettings;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::Signer as _;
use p256::{ecdsa::Signature, pkcs8::DecodePrivateKey as _};
use rcgen::{CertificateParams, KeyPair, SanType};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use crate::fixture::{TOKEN, TestGateway, draft, gateway_identity, http, sender, soon};

const DID: &str = "did:web:client.example";
const URI: &str = "spiffe://example.org/client";

/// What the label says on the task of this text; `None`: it counts as the own node's.
fn stranger(gateway: &TestGateway, text: &str) -> Option<String> {
    let mut label = None;
    gateway.node.change(text, |task| {
        label = task.task.metadata.get("gateway.stranger").cloned();
    });
    label
}

#[tokio::test]
async fn a_sender_from_elsewhere_counts_as_the_own_node_with_a_token_or_a_key_that_is_named() {
    let elsewhere = {
        let header = ("x-forwarded-for".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let client = Client::builder().danger_accept_invalid_certs(true);
        let client = client.default_headers([header].into_iter().collect());
        client.build().unwrap()
    };
    for is_named in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let anchors = directory.path().join("anchors.json");
        let named = if is_named { sender() } else { gateway_identity() };
        let key = named.verification_key().to_jwk(named.did());
        std::fs::write(&anchors, json!({ "keys": [key] }).to_string()).unwrap();
        let settings = UampSettings {
            trust_anchors: Some(anchors),
            ..UampSettings::default()
        };
        let mut gateway = TestGateway::with(settings).await;
        let known = gateway.ask(&elsewhere, &draft(Intent::Ask, "with a token")).await;
        assert_eq!(stranger(&gateway, "with a token"), None);
        gateway.open_to_all().await;
        gateway
            .ask(&http(false), &draft(Intent::Ask, "of this host"))
            .await;
        assert_eq!(stranger(&gateway, "of this host"), None);
        let path = gateway.ask(&elsewhere, &draft(Intent::Ask, "by its key")).await;
        let label = stranger(&gateway, "by its key");
        assert_eq!(label.as_deref() == Some("true"), !is_named, "{label:?}");
        // Its stream is there for it, and for nobody else.
        for (client, path, status) in [
            (&elsewhere, &path, StatusCode::OK),
            (&http(false), &path, StatusCode::NOT_FOUND),
            (&elsewhere, &known, StatusCode::NOT_FOUND),
        ] {
            let read = soon(client.get(gateway.url(path)).send()).await.unwrap();
            assert_eq!(read.status(), status, "{path}");
        }
    }
}

/// An authority, and clients with its certificates.
struct TestAuthority {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl TestAuthority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, key }
    }

    fn client(&self, uris: &[&str], key: &KeyPair) -> Client {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(names);
        let signed = params.signed_by(key, &self.certificate, &self.key).unwrap();
        let pem = format!("{}{}", signed.pem(), key.serialize_pem());
        Client::builder()
            .danger_accept_invalid_certs(true)
            .identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap())
            .build()
            .unwrap()
    }
}

/// An ask of this sender, signed by the key of a certificate. The signature names no key.
fn ask(from: &str, key: &KeyPair) -> Vec<u8> {
    let mut envelope = draft(Intent::Ask, "x")
        .sign(&sender(), SignatureForm::Detached)
        .unwrap();
    envelope.insert("from".to_owned(), from.into());
    envelope.remove("sig");
    let hash = canonical::hex(&canonical::envelope_hash(&envelope).unwrap());
    let is_p256 = key.algorithm() == &rcgen::PKCS_ECDSA_P256_SHA256;
    let header = json!({ "alg": if is_p256 { "ES256" } else { "EdDSA" } }).to_string();
    let header = URL_SAFE_NO_PAD.encode(header);
    let payload = URL_SAFE_NO_PAD.encode(format!("{{\"sha256\":\"{hash}\"}}"));
    let input = format!("{header}.{payload}");
    let signature = if is_p256 {
        let key = p256::ecdsa::SigningKey::from_pkcs8_pem(&key.serialize_pem()).unwrap();
        let signature: Signature = p256::ecdsa::signature::Signer::sign(&key, input.as_bytes());
        signature.to_bytes().to_vec()
    } else {
        // The seed is the first octet string within the private key (RFC 8410).
        let seed: [u8; 32] = key.serialize_der()[16..48].try_into().unwrap();
        let key = ed25519_dalek::SigningKey::from_bytes(&seed);
        key.sign(input.as_bytes()).to_bytes().to_vec()
    };
    let sig = format!("{header}..{}", URL_SAFE_NO_PAD.encode(signature));
    envelope.insert("sig".to_owned(), sig.into());
    Value::Object(envelope).to_string().into_bytes()
}

async fn status(gateway: &TestGateway, client: &Client, envelope: Vec<u8>, token: bool) -> StatusCode {
    let request = client.post(gateway.url("/v1/messages")).body(envelope);
    let request = if token {
        request.bearer_auth(TOKEN)
    } else {
        request
    };
    request.send().await.unwrap().status()
}

#[tokio::test]
async fn the_key_of_a_client_certificate_signs_for_its_uris() {
    let authority = TestAuthority::new();
    let gateway = TestGateway::with_authority(&authority.certificate.pem()).await;
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519] {
        let (key, other) = (
            KeyPair::generate_for(algorithm).unwrap(),
            KeyPair::generate_for(algorithm).unwrap(),
        );
        let client = authority.client(&[DID, URI], &key);
        for token in [false, true] {
            for from in [DID, URI] {
                let taken = status(&gateway, &client, ask(from, &key), token).await;
                assert_eq!(taken, StatusCode::ACCEPTED, "{from}");
            }
        }
        // Neither another name, nor another key, nor another connection.
        let refused = StatusCode::UNAUTHORIZED;
        assert_eq!(
            status(&gateway, &client, ask("did:web:b.example", &key), false).await,
            refused
        );
        assert_eq!(status(&gateway, &client, ask(DID, &other), false).await, refused);
        let stranger = authority.client(&["did:web:b.example"], &other);
        assert_eq!(status(&gateway, &stranger, ask(DID, &key), false).await, refused);
        assert_eq!(
            status(&gateway, &http(false), ask(DID, &key), true).await,
            refused
        );
        // A connection that is resumed shows the same certificate.
        let again = client.clone();
        assert_eq!(
            status(&gateway, &again, ask(DID, &key), false).await,
            StatusCode::ACCEPTED
        );
    }
}

#[tokio::test]
async fn a_did_web_is_looked_up_only_where_that_is_set_and_at_public_addresses() {
    let key = KeyPair::generate().unwrap();
    for (did_web, part) in [(false, "no ES256 key"), (true, "localhost is 127.0.0.1")] {
        let settings = UampSettings {
            did_web,
            ..UampSettings::default()
        };
        let gateway = TestGateway::with(settings).await;
        let from = format!("did:web:localhost%3A{}", gateway.address().port());
        let response = gateway.post(&http(false), ask(&from, &key)).await;
        let (status, content) = gateway.refusal(response).await;
        assert_eq!(status, 401);
        assert_eq!(content["code"], "4.01");
        let message = content["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
    }
}
