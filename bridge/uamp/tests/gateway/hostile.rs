//! What is refused: each row of the error table by its own cause, schema errors by their field, and clients
//! that do not keep to the protocol.

use agentanycast_uamp::{
    body::EnvelopeBody,
    envelope::Intent,
    jws::{self, SignatureForm, SigningIdentity},
};
use agentanycast_uamp_gateway::settings::UampSettings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::fixture::{
    OTHER_TOKEN, TOKEN, TestGateway, draft, gateway_identity, http, now_ms, sender, signed,
};

async fn refused(gateway: &TestGateway, envelope: Vec<u8>) -> (u16, Value) {
    let response = gateway.post(&http(false), envelope).await;
    gateway.refusal(response).await
}

fn code(content: &Value) -> &str {
    content["code"].as_str().unwrap_or("none")
}

fn object(draft: &agentanycast_uamp::envelope::EnvelopeDraft) -> Value {
    serde_json::from_slice(&signed(draft)).unwrap()
}

#[tokio::test]
async fn senders_that_are_not_proven_are_4_01() {
    let gateway = TestGateway::start().await;
    let good = draft(Intent::Ask, "x");
    let changed = |name: &str, value: Value| {
        let mut object = object(&good);
        object[name] = value;
        object.to_string().into_bytes()
    };
    let mut old = draft(Intent::Ask, "x");
    old.time_ms = now_ms() - 301_000;
    let mut early = draft(Intent::Ask, "x");
    early.time_ms = now_ms() + 302_000;
    let none = "eyJhbGciOiJub25lIn0..";
    for envelope in [
        changed("sig", json!("x")),
        changed("sig", json!(none)),
        changed("stream_id", json!("added")),
        changed("from", json!(gateway_identity().did())),
        changed("from", json!("did:web:unknown.example")),
        signed(&old),
        signed(&early),
    ] {
        let (status, content) = refused(&gateway, envelope).await;
        assert_eq!((status, code(&content)), (401, "4.01"), "{content}");
    }
    // Neither a token nor a certificate.
    let request = http(false).post(gateway.url("/v1/messages")).body(signed(&good));
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    let (status, content) = gateway.refusal(response).await;
    assert_eq!((status, code(&content)), (401, "4.01"));
    let request = http(false)
        .get(gateway.url("/v1/stream/s"))
        .bearer_auth("wrong-wrong-wrong");
    let (status, content) = gateway.refusal(request.send().await.unwrap()).await;
    assert_eq!((status, code(&content)), (401, "4.01"));
}

#[tokio::test]
async fn what_is_not_allowed_is_4_03() {
    let settings = UampSettings {
        require_cap_token: true,
        ..UampSettings::default()
    };
    let gateway = TestGateway::with(settings).await;
    let token = |scope: &str| {
        let claims = json!({ "aud": gateway_identity().did(), "scope": scope, "exp": now_ms() / 1000 + 60 });
        jws::sign(
            &gateway_identity(),
            claims.to_string().as_bytes(),
            SignatureForm::Attached,
            Some("JWT"),
        )
    };
    for (cap_token, text) in [
        (None, "x"),
        (Some("x".to_owned()), "x"),
        (Some(token("uamp:inform")), "x"),
        (Some(token("uamp:ask")), "denied"),
    ] {
        let mut ask = draft(Intent::Ask, text);
        ask.cap_token = cap_token;
        let (status, content) = refused(&gateway, signed(&ask)).await;
        assert_eq!((status, code(&content)), (403, "4.03"), "{content}");
    }
    let mut ask = draft(Intent::Ask, "x");
    ask.cap_token = Some(token("uamp:ask"));
    gateway.ask(&http(false), &ask).await;
    // A token for a skill counts where each receiver is this skill.
    let skill = |id: &str| format!("urn:agentanycast:skill:{id}");
    for (to, is_taken) in [
        (vec![skill("add")], true),
        (vec![skill("paint")], false),
        (vec![skill("add"), skill("paint")], false),
        (vec![skill("add"), gateway_identity().did().to_owned()], false),
    ] {
        let mut ask = draft(Intent::Ask, "x");
        ask.to = to;
        ask.cap_token = Some(token("skill:add"));
        let status = gateway.post(&http(false), signed(&ask)).await.status();
        assert_eq!(status, if is_taken { 202 } else { 403 }, "{:?}", ask.to);
    }
}

#[tokio::test]
async fn what_is_too_large_is_4_13_and_a_busy_node_5_04() {
    let gateway = TestGateway::start().await;
    let large = signed(&draft(Intent::Ask, &"x".repeat((1 << 20) + 1)));
    let huge = signed(&draft(Intent::Ask, &"x".repeat(2 << 20)));
    for envelope in [large, huge] {
        let (status, content) = refused(&gateway, envelope).await;
        assert_eq!((status, code(&content)), (413, "4.13"), "{content}");
    }
    let busy = draft(Intent::Ask, "busy");
    let response = gateway.post(&http(false), signed(&busy)).await;
    assert_eq!(response.headers()["retry-after"], "1");
    let (status, content) = gateway.refusal(response).await;
    assert_eq!((status, code(&content)), (503, "5.04"));
    // It was not taken, so the same envelope may be sent again.
    let (status, _) = refused(&gateway, signed(&busy)).await;
    assert_eq!(status, 503);
    let settings = UampSettings {
        max_replays: 16,
        ..UampSettings::default()
    };
    let gateway = TestGateway::with(settings).await;
    for number in 0..5 {
        let (http, ask) = (http(false), signed(&draft(Intent::Inform, "x")));
        let response = gateway.post(&http, ask).await;
        let wanted = if number < 4 { 202 } else { 503 };
        assert_eq!(response.status(), wanted, "one sender has a quarter");
    }
}

#[tokio::test]
async fn schema_errors_name_their_field() {
    let gateway = TestGateway::start().await;
    let good = object(&draft(Intent::Ask, "x"));
    let mut cases = Vec::new();
    for name in ["id", "ts", "from", "to", "intent", "body", "sig"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(name);
        cases.push((bad.to_string(), name));
    }
    for (name, value, field) in [
        ("id", json!("urn:uuid:1111"), "id"),
        ("to", json!([]), "to"),
        ("more", json!(1), "more"),
        ("intent", json!("order"), "intent"),
        ("delta_window", json!(0), "delta_window"),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        cases.push((bad.to_string(), field));
    }
    cases.push(("{".to_owned(), "envelope"));
    cases.push((String::new(), "envelope"));
    let twice = good.to_string().replacen('{', "{\"intent\":\"ask\",", 1);
    cases.push((twice, "envelope"));
    for (text, field) in cases {
        let (status, content) = refused(&gateway, text.clone().into_bytes()).await;
        assert_eq!((status, code(&content)), (400, "none"), "{text}");
        assert_eq!(content["field"], field, "{text}");
    }
    let (_, content) = refused(&gateway, b" \n".to_vec()).await;
    assert_eq!(content["message"], "envelope: is empty");
    let mut nowhere = draft(Intent::Ask, "x");
    nowhere.to = vec!["did:web:unknown.example".to_owned()];
    let (status, content) = refused(&gateway, signed(&nowhere)).await;
    assert_eq!((status, content["field"].as_str().unwrap()), (400, "to.0"));
    let mut packed = draft(Intent::Ask, "x");
    packed.body = EnvelopeBody::text("application/json", "{");
    let (status, content) = refused(&gateway, signed(&packed)).await;
    assert_eq!(
        (status, content["field"].as_str().unwrap()),
        (400, "body.content")
    );
    let orphan = draft(Intent::Cancel, "").with_reply_to(crate::fixture::new_id());
    let (status, content) = refused(&gateway, signed(&orphan)).await;
    assert_eq!((status, content["field"].as_str().unwrap()), (400, "reply_to"));
    let request = http(false).post(gateway.url("/v1/messages")).bearer_auth(TOKEN);
    let request = request
        .header("content-type", "text/plain")
        .body(good.to_string());
    assert_eq!(request.send().await.unwrap().status(), 415);
    for (kind, wanted) in [
        ("application/uamp+json;v=2", 415),
        ("application/uamp+json; charset=utf-8; V=\"2\"", 415),
        ("application/uamp+json; V=\"1\"", 202),
        ("application/uamp+json", 202),
        ("application/json", 202),
    ] {
        let request = http(false).post(gateway.url("/v1/messages")).bearer_auth(TOKEN);
        let request = request.header("content-type", kind);
        let sent = request.body(signed(&draft(Intent::Inform, "x"))).send();
        assert_eq!(sent.await.unwrap().status(), wanted, "{kind}");
    }
}

#[tokio::test]
async fn a_skill_that_is_not_known_is_refused_by_its_name() {
    let gateway = TestGateway::start().await;
    for (skill, wanted) in [("nope", 400), ("none", 400), ("silent", 503)] {
        let mut by_urn = draft(Intent::Ask, "x");
        by_urn.to = vec![format!("urn:agentanycast:skill:{skill}")];
        let mut by_extension = draft(Intent::Ask, "x");
        by_extension.ext.insert("x-aa-skill".to_owned(), skill.into());
        for ask in [by_urn, by_extension] {
            let response = gateway.post(&http(false), signed(&ask)).await;
            assert_eq!(response.headers().contains_key("retry-after"), wanted == 503);
            let (status, content) = gateway.refusal(response).await;
            assert_eq!(status, wanted, "{content}");
            assert_eq!(content["field"].as_str(), (wanted == 400).then_some("to.0"));
            let message = content["message"].as_str().unwrap();
            assert!(message.contains(&format!("{skill:?}")), "{message}");
            assert!(!message.contains("registry"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_replay_with_other_content_is_refused() {
    let mut gateway = TestGateway::start().await;
    let first = draft(Intent::Ask, "one");
    gateway.ask(&http(false), &first).await;
    let mut other = draft(Intent::Ask, "two");
    other.id = first.id;
    for restarts in [false, true] {
        if restarts {
            gateway.restart().await;
        }
        let (status, content) = refused(&gateway, signed(&other)).await;
        assert_eq!(
            (status, content["field"].as_str().unwrap()),
            (400, "id"),
            "{content}"
        );
    }
    let mut taken = draft(Intent::Ask, "three").with_stream_id("s");
    gateway.ask(&http(false), &taken).await;
    taken.id = crate::fixture::new_id();
    let (status, content) = refused(&gateway, signed(&taken)).await;
    assert_eq!((status, content["field"].as_str().unwrap()), (400, "stream_id"));
    assert_eq!(gateway.node.state().tasks.len(), 2);
}

#[tokio::test]
async fn an_envelope_of_another_caller_begins_nothing() {
    let mut gateway = TestGateway::start().await;
    let http = http(false);
    let first = draft(Intent::Ask, "ask");
    let path = gateway.ask(&http, &first).await;
    let answer = draft(Intent::Ask, "red").with_reply_to(first.id);
    assert_eq!(gateway.ask(&http, &answer).await, path);
    let inform = draft(Intent::Inform, "x");
    assert_eq!(gateway.post(&http, signed(&inform)).await.status(), 202);
    let mut other = draft(Intent::Ask, "two");
    other.id = first.id;
    for restarts in [false, true] {
        if restarts {
            gateway.restart().await;
        }
        for envelope in [&first, &answer, &inform, &other] {
            let response = gateway.post_as(OTHER_TOKEN, &http, signed(envelope)).await;
            let (status, content) = gateway.refusal(response).await;
            assert_eq!(
                (status, content["field"].as_str()),
                (400, Some("id")),
                "{content}"
            );
        }
        // Its own caller has the same answers.
        assert_eq!(gateway.ask(&http, &first).await, path);
        assert_eq!(gateway.ask(&http, &answer).await, path);
        assert_eq!(gateway.post(&http, signed(&inform)).await.status(), 202);
        assert_eq!(gateway.node.state().tasks.len(), 2);
    }
}

#[tokio::test]
async fn receivers_have_a_limit() {
    let gateway = TestGateway::start().await;
    let mut ask = draft(Intent::Ask, "x");
    ask.to = (0..1000)
        .map(|number| format!("urn:agentanycast:skill:s{number}"))
        .collect();
    let (status, content) = refused(&gateway, signed(&ask)).await;
    assert_eq!((status, content["field"].as_str().unwrap()), (400, "to"));
    ask.to.truncate(16);
    ask.id = crate::fixture::new_id();
    gateway.ask(&http(false), &ask).await;
    assert_eq!(gateway.node.state().tasks.len(), 16);
}

#[tokio::test]
async fn the_hash_of_uamp_js_counts_for_the_senders_that_are_set() {
    let js = SigningIdentity::from_ed25519(&[6; 32]);
    let envelope = |identity: &SigningIdentity| {
        let mut object: Value = serde_json::from_slice(
            &draft(Intent::Ask, "from js")
                .sign_to_bytes(identity, SignatureForm::Attached)
                .unwrap(),
        )
        .unwrap();
        let hash = agentanycast_uamp::canonical::allow_list_hash(object.as_object().unwrap()).unwrap();
        let sig = jws::sign(identity, &jws::hash_payload(&hash), SignatureForm::Attached, None);
        object["sig"] = sig.into();
        object.to_string().into_bytes()
    };
    let settings = UampSettings {
        compat_uamp_js_hash: vec![js.did().to_owned()],
        ..UampSettings::default()
    };
    let gateway = TestGateway::with(settings).await;
    let response = gateway.post(&http(false), envelope(&js)).await;
    assert_eq!(response.status(), 202);
    let labels = gateway
        .node
        .state()
        .tasks
        .values()
        .next()
        .unwrap()
        .task
        .metadata
        .clone();
    assert_eq!(labels["body_unsigned"], "true");
    let (status, _) = refused(&gateway, envelope(&sender())).await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn nothing_is_served_without_tls_1_3() {
    let gateway = TestGateway::start().await;
    let mut plain = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    plain
        .write_all(b"GET /.well-known/agent-manifest.json HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&said));
    let old = reqwest::Client::builder()
        .danger_accept_invalid_certs(true)
        .tls_version_max(reqwest::tls::Version::TLS_1_2)
        .build()
        .unwrap();
    let manifest = gateway.url("/.well-known/agent-manifest.json");
    assert!(old.get(&manifest).send().await.is_err());
    assert_eq!(http(false).get(&manifest).send().await.unwrap().status(), 200);
    let settings = UampSettings {
        refuse_http1: true,
        ..UampSettings::default()
    };
    let gateway = TestGateway::with(settings).await;
    let manifest = gateway.url("/.well-known/agent-manifest.json");
    assert_eq!(http(true).get(&manifest).send().await.unwrap().status(), 426);
    assert_eq!(http(false).get(&manifest).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_client_certificate_is_a_caller_too() {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let name = rcgen::SanType::URI("did:web:client.example".try_into().unwrap());
    params.subject_alt_names.push(name);
    let certificate = params.signed_by(&key, &authority, &authority_key).unwrap();
    let gateway = TestGateway::with_authority(&authority.pem()).await;
    let identity =
        reqwest::Identity::from_pem(format!("{}{}", certificate.pem(), key.serialize_pem()).as_bytes());
    let client = reqwest::Client::builder()
        .danger_accept_invalid_certs(true)
        .identity(identity.unwrap())
        .build()
        .unwrap();
    let post = |client: &reqwest::Client| {
        let request = client.post(gateway.url("/v1/messages"));
        request.body(signed(&draft(Intent::Ask, "x"))).send()
    };
    assert_eq!(post(&client).await.unwrap().status(), 202);
    let labels = gateway
        .node
        .state()
        .tasks
        .values()
        .next()
        .unwrap()
        .task
        .metadata
        .clone();
    assert_eq!(labels["gateway.caller"], "uamp:did:web:client.example");
    let (status, content) = gateway.refusal(post(&http(false)).await.unwrap()).await;
    assert_eq!((status, code(&content)), (401, "4.01"));
    // One that another authority signed is not taken by TLS.
    let stranger = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap();
    let pem = format!("{}{}", stranger.cert.pem(), stranger.key_pair.serialize_pem());
    let client = reqwest::Client::builder()
        .danger_accept_invalid_certs(true)
        .identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap())
        .build()
        .unwrap();
    assert!(post(&client).await.is_err());
}

#[tokio::test]
async fn without_a_certificate_it_makes_one_for_its_did() {
    let gateway = TestGateway::without_certificate().await;
    let manifest = gateway.url("/.well-known/agent-manifest.json");
    let client = reqwest::Client::builder()
        .danger_accept_invalid_certs(true)
        .tls_info(true)
        .build()
        .unwrap();
    let response = client.get(&manifest).send().await.unwrap();
    let shown = response.extensions().get::<reqwest::tls::TlsInfo>().unwrap();
    let der = shown.peer_certificate().unwrap();
    let did = gateway_identity().did().to_owned();
    assert!(der.windows(did.len()).any(|window| window == did.as_bytes()));
    let mut http3 = crate::http3_client::Http3Client::connect(&gateway).await;
    let (status, ..) = http3
        .request(http::Method::GET, "/.well-known/agent-manifest.json", Vec::new())
        .await;
    assert_eq!(status, 200);
}
