//! Clients whose ids belong to keys, and clients over TLS.

use std::{fs, time::Duration};

use agentanycast_aip::{
    endpoints::{
        AssignError, ClientError, ClosureTools, ConstellationClient, ConstellationSettings, DeviceClient,
        DeviceClientSettings, DeviceEntry, TaskRequest,
    },
    resilience::ReconnectPolicy,
    transport::{Connector as _, TransportError, WebSocketEndpoint},
};
use agentanycast_aip_gateway::settings::{AipSettings, ClientKey};
use agentanycast_gateway::fake::TWO_AGENTS;
use agentanycast_identity::{Keypair, PeerId, did_key_of};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fixture::{SOON, TOKEN, TestDevice, TestGateway, data, soon};

/// PKCS#8 of an Ed25519 key: RFC 8410, section 7.
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];

/// A new key: its did:key, and a token that it has signed for a client.
fn signed_for(client_id: &str) -> (String, String) {
    let pair = Keypair::generate_ed25519();
    let secret = pair.clone().try_into_ed25519().unwrap().secret();
    let key = EncodingKey::from_ed_der(&[&PKCS8_HEAD[..], secret.as_ref()].concat());
    let claims = json!({ "sub": client_id, "exp": get_current_timestamp() + 600 });
    let token = encode(&Header::new(Algorithm::EdDSA), &claims, &key).unwrap();
    (
        did_key_of(PeerId::from(pair.public().to_peer_id())).unwrap(),
        token,
    )
}

fn bound(client_id: &str, did: &str) -> AipSettings {
    AipSettings {
        keys: vec![ClientKey {
            client_id: client_id.to_owned(),
            did: did.to_owned(),
        }],
        ..AipSettings::default()
    }
}

/// Why a device is not registered.
async fn refusal(endpoint: WebSocketEndpoint, id: &str) -> String {
    let settings = DeviceClientSettings {
        reconnect: ReconnectPolicy::NONE,
        ..DeviceClientSettings::new(id)
    };
    let client = DeviceClient::new(endpoint, settings, std::sync::Arc::new(ClosureTools::new()));
    let ended = soon(client.run(CancellationToken::new())).await;
    match ended.unwrap_err() {
        ClientError::Refused { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_id_that_belongs_to_a_key_needs_its_token_and_the_token_is_for_no_other_id() {
    let (did, token) = signed_for("desk");
    let gateway = TestGateway::with(bound("desk", &did)).await;
    let plain = WebSocketEndpoint::new(&gateway.url()).unwrap();
    let reason = refusal(plain.clone().with_token(TOKEN), "desk").await;
    assert!(reason.contains(&did) && reason.contains("JWT"), "{reason}");
    let reason = refusal(plain.clone().with_token(&token), "other").await;
    assert!(
        reason.contains("'other'") && reason.contains("'desk'"),
        "{reason}"
    );
    let (_, forged) = signed_for("desk");
    let error = plain.clone().with_token(&forged).connect().await.unwrap_err();
    assert!(
        matches!(error, TransportError::Rejected { status: 403, .. }),
        "{error}"
    );
    // Other ids stay with the tokens of the file.
    let _other = TestDevice::connect_by(plain.clone().with_token(TOKEN), "other").await;
    let _desk = TestDevice::connect_by(plain.with_token(&token), "desk").await;
    gateway.has_skill("aip:desk:say").await;
}

#[tokio::test]
async fn devices_and_constellations_work_over_tls_with_a_token() {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&cert, pair.cert.pem()).unwrap();
    fs::write(&key, pair.key_pair.serialize_pem()).unwrap();
    let gateway = TestGateway::with_front(AipSettings::default(), |front| {
        front.tls_cert = Some(cert.clone());
        front.tls_key = Some(key.clone());
    })
    .await;
    let url = format!("wss://localhost:{}/ws", gateway.running.address().unwrap().port());
    let endpoint = WebSocketEndpoint::new(&url).unwrap().with_token(TOKEN);
    // The certificate is not one that the system trusts.
    let error = endpoint.connect().await.unwrap_err();
    assert!(matches!(error, TransportError::Connect { .. }), "{error}");
    let endpoint = endpoint.with_ca_file(&cert);
    let _device = TestDevice::connect_by(endpoint.clone(), "d").await;
    gateway.has_skill("aip:d:say").await;
    gateway.give("t", "aip:d:say", data(&json!({ "text": "over TLS" })));
    assert_eq!(gateway.result_of("t").await, json!({ "said": "over TLS" }));

    let client = ConstellationClient::new(ConstellationSettings::new("probe"));
    let target = format!("{TWO_AGENTS}/one");
    client.add_device(DeviceEntry::new(&target), endpoint.clone());
    client.wait_connected(&target, SOON).await.unwrap();
    let reply = soon(client.assign(&target, TaskRequest::new("t", "hello")))
        .await
        .unwrap();
    assert_eq!(reply.result.unwrap()["text"], "hello");

    let wrong = WebSocketEndpoint::new(&url).unwrap().with_ca_file(&cert);
    let error = wrong.with_token("fedcba9876543210").connect().await.unwrap_err();
    assert!(
        matches!(error, TransportError::Rejected { status: 403, .. }),
        "{error}"
    );
    let absent = ConstellationClient::new(ConstellationSettings::new("late"));
    absent.add_device(DeviceEntry::new("nothing"), endpoint);
    let waited = absent.wait_connected("nothing", Duration::from_millis(300)).await;
    let reason = match waited {
        Err(AssignError::NotConnected { reason, .. }) => reason.unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    assert!(
        reason.contains("Target device 'nothing' is not connected"),
        "{reason}"
    );
}
