//! The same conversation over each binding gives the same deltas.

use agentanycast_uamp::{
    delta::{Delta, DeltaType},
    envelope::{Envelope, Intent},
    hub_document::HubDocument,
    manifest::UampManifest,
    trust::TrustAnchors,
    v1,
};
use futures::StreamExt as _;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    fixture::{TestGateway, draft, error_content, gateway_identity, http, said, signed, soon, verify},
    http3_client::Http3Client,
    socket_clients::{GrpcClient, SocketClient, grpc},
};

/// What is asked: an answer, a result in pieces, a failure, a refusal.
const ASKS: [&str; 4] = ["2+2", "chunks 20 9000", "fail", "reject"];

pub(crate) type Said = (u64, DeltaType, Value);

/// The deltas with chunks joined, since how a result is cut depends on the time.
pub(crate) fn whole(deltas: &[Delta]) -> Vec<Said> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let mut all = Vec::new();
    let mut bytes = Vec::new();
    for (at, delta) in deltas.iter().enumerate() {
        assert_eq!(delta.seq, at as u64);
        match delta.payload.get("chunk_b64") {
            Some(chunk) => bytes.extend(STANDARD.decode(chunk.as_str().unwrap()).unwrap()),
            None => all.push(said(delta)),
        }
    }
    for (_, _, payload) in &mut all {
        payload["bytes"] = bytes.len().into();
    }
    all.into_iter()
        .map(|(_, kind, payload)| (0, kind, payload))
        .collect()
}

/// What a connection said: deltas, and envelopes with their contents.
#[derive(Default)]
struct Heard {
    deltas: Vec<Delta>,
    envelopes: Vec<(Intent, Value)>,
}

impl Heard {
    /// Takes a record; true: the stream has ended, and the envelope that closes it was heard, if there is
    /// one.
    fn take(&mut self, json: &[u8]) {
        if let Ok(delta) = Delta::read(json, 8 << 20) {
            self.deltas.push(delta);
            return;
        }
        let envelope = Envelope::read(json, 8 << 20).unwrap();
        verify(&envelope);
        let content = envelope.body().decode(1 << 20).unwrap();
        self.envelopes
            .push((envelope.intent(), serde_json::from_slice(&content).unwrap()));
    }

    fn intents(&self) -> Vec<Intent> {
        self.envelopes.iter().map(|(intent, _)| *intent).collect()
    }

    fn is_ended(&self) -> bool {
        let Some(last) = self.deltas.last().filter(|last| last.kind.is_terminal()) else {
            return false;
        };
        let closes = last.kind == DeltaType::Done || last.payload.contains_key("denied");
        !closes || self.envelopes.len() > 1
    }
}

async fn over_socket(gateway: &TestGateway, text: &str, is_text: bool) -> Heard {
    let mut socket = SocketClient::open(gateway).await;
    socket.is_text = is_text;
    socket.send(&signed(&draft(Intent::Ask, text))).await;
    let mut heard = Heard::default();
    while !heard.is_ended() {
        heard.take(&socket.receive().await.unwrap());
        let last = heard.deltas.last().map(|last| (last.stream_id.clone(), last.seq));
        if let Some((stream, seq)) = last {
            let ack = Delta::acknowledgement(&stream, seq, 0).to_value().to_string();
            socket.send(ack.as_bytes()).await;
        }
    }
    heard
}

async fn over_grpc_stream(client: &mut GrpcClient, text: &str) -> Vec<Delta> {
    let json = signed(&draft(Intent::Ask, text)).into();
    let accepted = soon(client.send(v1::Envelope { json }))
        .await
        .unwrap()
        .into_inner();
    assert!(accepted.location.ends_with(&accepted.stream_id));
    let wanted = v1::StreamRequest {
        stream_id: accepted.stream_id,
        from_seq: None,
    };
    let stream = soon(client.stream(wanted)).await.unwrap().into_inner();
    let deltas = soon(stream.collect::<Vec<_>>()).await;
    deltas
        .into_iter()
        .map(|delta| Delta::read(&delta.unwrap().json, 8 << 20).unwrap())
        .collect()
}

async fn over_grpc_connect(client: &mut GrpcClient, text: &str) -> Heard {
    let json = signed(&draft(Intent::Ask, text)).into();
    let frame = v1::Frame {
        frame: Some(v1::frame::Frame::Envelope(v1::Envelope { json })),
    };
    let out = futures::stream::iter([frame]);
    let mut frames = soon(client.connect(out)).await.unwrap().into_inner();
    let mut heard = Heard::default();
    while let Some(frame) = soon(frames.message()).await.unwrap() {
        match frame.frame.unwrap() {
            v1::frame::Frame::Envelope(envelope) => heard.take(&envelope.json),
            v1::frame::Frame::Delta(delta) => heard.take(&delta.json),
        }
    }
    heard
}

async fn over_http3(gateway: &TestGateway, text: &str) -> Vec<Delta> {
    let mut client = Http3Client::connect(gateway).await;
    let envelope = signed(&draft(Intent::Ask, text));
    let (status, location, _) = client.request(Method::POST, "/v1/messages", envelope).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let (status, _, events) = client.request(Method::GET, &location.unwrap(), Vec::new()).await;
    assert_eq!(status, StatusCode::OK);
    let events = String::from_utf8(events).unwrap();
    let lines = events.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .map(|json| Delta::read(json.as_bytes(), 8 << 20).unwrap())
        .collect()
}

#[tokio::test]
async fn each_binding_says_the_same() {
    let gateway = TestGateway::start().await;
    for text in ASKS {
        let mut all = Vec::new();
        for version_1 in [true, false] {
            let http = http(version_1);
            let path = gateway.ask(&http, &draft(Intent::Ask, text)).await;
            all.push(gateway.events(&http, &path, None).await.rest().await);
        }
        all.push(over_http3(&gateway, text).await);
        let mut client = grpc(&gateway);
        all.push(over_grpc_stream(&mut client, text).await);
        for heard in [
            over_socket(&gateway, text, false).await,
            over_socket(&gateway, text, true).await,
            over_grpc_connect(&mut client, text).await,
        ] {
            let closing = match text {
                "fail" => vec![],
                "reject" => vec![Intent::Deny],
                _ => vec![Intent::Confirm],
            };
            assert_eq!(
                heard.intents(),
                [vec![Intent::Progress], closing].concat(),
                "{text}"
            );
            assert_eq!(heard.envelopes[0].1["state"], "accepted");
            all.push(heard.deltas);
        }
        let wanted = whole(&all[0]);
        for (binding, deltas) in all.iter().enumerate() {
            assert_eq!(whole(deltas), wanted, "binding {binding}, {text}");
        }
    }
}

#[tokio::test]
async fn a_connection_refuses_by_signed_envelopes() {
    let gateway = TestGateway::start().await;
    let mut socket = SocketClient::open(&gateway).await;
    for (json, code) in [
        (b"{".to_vec(), None),
        (signed(&draft(Intent::Ask, "denied")), Some("4.03")),
        (signed(&draft(Intent::Ask, "busy")), Some("5.04")),
        (
            Delta::acknowledgement("none", 0, 0)
                .to_value()
                .to_string()
                .into_bytes(),
            None,
        ),
    ] {
        socket.send(&json).await;
        let content = error_content(&socket.receive().await.unwrap());
        assert_eq!(content.get("code").and_then(Value::as_str), code, "{content}");
    }
    // Several records in one message; one that is too long ends the socket.
    let mut message = Vec::new();
    for _ in 0..2 {
        agentanycast_uamp::record::write_record(b"{}", &mut message);
    }
    message.extend((2_u32 << 20).to_be_bytes());
    socket.send_raw(&message[..message.len() - 4]).await;
    for _ in 0..2 {
        assert_eq!(error_content(&socket.receive().await.unwrap())["field"], "id");
    }
    socket.send_raw(&message).await;
    assert_eq!(error_content(&socket.receive().await.unwrap())["code"], "4.13");
    assert!(socket.receive().await.is_none());
    assert_eq!(socket.closed_by, Some(1009));
    // A text message is a record too.
    let mut socket = SocketClient::open(&gateway).await;
    socket.is_text = true;
    socket.send(&vec![b' '; 1 << 20]).await;
    assert_eq!(
        error_content(&socket.receive().await.unwrap())["field"],
        "envelope"
    );
    socket.send(&vec![b' '; (1 << 20) + 1]).await;
    assert_eq!(error_content(&socket.receive().await.unwrap())["code"], "4.13");
    assert!(socket.receive().await.is_none());
    assert_eq!(socket.closed_by, Some(1009));

    let mut client = grpc(&gateway);
    for (text, code, uamp) in [
        ("denied", tonic::Code::PermissionDenied, "4.03"),
        ("busy", tonic::Code::Unavailable, "5.04"),
    ] {
        let json = signed(&draft(Intent::Ask, text)).into();
        let status = client.send(v1::Envelope { json }).await.unwrap_err();
        assert_eq!(status.code(), code);
        let envelope = status
            .metadata()
            .get_bin("uamp-error-bin")
            .unwrap()
            .to_bytes()
            .unwrap();
        assert_eq!(error_content(&envelope)["code"], uamp);
    }
    let status = client.send(v1::Envelope { json: "{}".into() }).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    let wanted = v1::StreamRequest::default();
    assert_eq!(
        client.stream(wanted).await.unwrap_err().code(),
        tonic::Code::NotFound
    );
}

#[tokio::test]
async fn an_envelope_over_grpc_that_is_too_large_is_refused_as_such() {
    let gateway = TestGateway::start().await;
    let mut client = grpc(&gateway);
    let large = || v1::Envelope {
        json: vec![b' '; 8 << 20].into(),
    };
    let status = soon(client.send(large())).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    let envelope = status.metadata().get_bin("uamp-error-bin").unwrap();
    assert_eq!(error_content(&envelope.to_bytes().unwrap())["code"], "4.13");

    // Beside a stream that goes on.
    let json = signed(&draft(Intent::Ask, "chunks 20 9000")).into();
    let frames = [v1::Envelope { json }, large()].map(|envelope| v1::Frame {
        frame: Some(v1::frame::Frame::Envelope(envelope)),
    });
    let out = futures::stream::iter(frames);
    let mut frames = soon(client.connect(out)).await.unwrap().into_inner();
    let mut heard = Heard::default();
    while let Some(frame) = soon(frames.message()).await.unwrap() {
        match frame.frame.unwrap() {
            v1::frame::Frame::Envelope(envelope) => heard.take(&envelope.json),
            v1::frame::Frame::Delta(delta) => heard.take(&delta.json),
        }
    }
    assert!(
        heard
            .envelopes
            .iter()
            .any(|(_, content)| content["code"] == "4.13")
    );
    assert!(heard.deltas.last().unwrap().kind.is_terminal());
}

#[tokio::test]
async fn a_socket_goes_on_where_another_one_was_cut() {
    let mut gateway = TestGateway::start().await;
    let mut socket = SocketClient::open(&gateway).await;
    let ask = draft(Intent::Ask, "chunks 100 20000").with_stream_id("s");
    socket.send(&signed(&ask)).await;
    let mut heard = Heard::default();
    while heard.deltas.len() < 10 {
        heard.take(&socket.receive().await.unwrap());
    }
    drop(socket);
    gateway.restart().await;
    let mut socket = SocketClient::open(&gateway).await;
    while !heard.is_ended() {
        let seq = heard.deltas.last().unwrap().seq;
        let ack = Delta::acknowledgement("s", seq, 0).to_value().to_string();
        socket.send(ack.as_bytes()).await;
        heard.take(&socket.receive().await.unwrap());
    }
    assert_eq!(whole(&heard.deltas).last().unwrap().2["bytes"], 100 * 20_000);
    // From a frame that is still kept.
    let again = json!({
        "delta_seq": 0, "stream_id": "s", "ts": "2025-07-10T13:38:01Z", "type": "progress", "payload": {"from": heard.deltas.len() - 1},
    });
    socket.send(again.to_string().as_bytes()).await;
    let last = Delta::read(&socket.receive().await.unwrap(), 1 << 20).unwrap();
    assert_eq!(said(&last), said(heard.deltas.last().unwrap()));
}

#[tokio::test]
async fn the_manifest_and_the_hub_are_signed() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    let response = http
        .get(gateway.url("/.well-known/agent-manifest.json"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["content-type"], "application/manifest+jws");
    let text = response.text().await.unwrap();
    let (manifest, did) = UampManifest::read(&text, &TrustAnchors::default()).unwrap();
    assert_eq!(did, gateway_identity().did());
    assert_eq!(
        (manifest.agent.as_str(), manifest.limits.max_body_kb),
        ("uamp/1.0", Some(1024))
    );
    assert_eq!(
        manifest.auth,
        ["oauth2"],
        "it has tokens, and no authority of certificates"
    );
    let over_grpc = grpc(&gateway)
        .get_manifest(v1::ManifestRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        UampManifest::read(&over_grpc.jws, &TrustAnchors::default())
            .unwrap()
            .0,
        manifest
    );
    let response = http
        .get(gateway.url("/.well-known/agent-hub.json"))
        .send()
        .await
        .unwrap();
    let hub = response.bytes().await.unwrap();
    let (hub, did) = HubDocument::read(&hub, &TrustAnchors::default()).unwrap();
    assert_eq!(did, gateway_identity().did());
    assert_eq!(
        hub.manifests[0].url,
        gateway.url("/.well-known/agent-manifest.json")
    );
}
