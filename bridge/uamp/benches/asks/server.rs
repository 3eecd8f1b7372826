//! The servers: a bare front that answers the same bytes as the gateway, the A2A gateway, and the gateway of UAMP.

use std::{convert::Infallible, fs, sync::Arc};

use agentanycast_a2a::A2aGateway;
use agentanycast_daemon_kit::settings::ListenOn;
use agentanycast_front::{front::Front, sse};
use agentanycast_gateway::{
    NodePort, fake::agents::FakeAgents, registration::GatewayModule as _, running::RunningGateway,
};
use agentanycast_gateways::{a2a::A2aSettings, front::FrontSettings};
use agentanycast_uamp::jws::SigningIdentity;
use agentanycast_uamp_gateway::{UampGateway, settings::UampSettings};
use axum::{Router, body::Body, extract::Request, response::Response};
use http::Method;
use http_body_util::BodyExt as _;
use tower::service_fn;

use crate::{TOKEN, scripted::ScriptedNode};

/// Which server a process is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Bare,
    A2a,
    Uamp,
}

impl ServerKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare-front",
            Self::A2a => "a2a-gateway",
            Self::Uamp => "uamp-gateway",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let kinds = [Self::Bare, Self::A2a, Self::Uamp];
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}

pub(crate) fn identity() -> SigningIdentity {
    SigningIdentity::from_ed25519(&[1; 32])
}

pub(crate) async fn serve(kind: ServerKind) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    fs::write(file("tokens"), format!("alice {TOKEN}\n")).unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(file("cert.pem"), made.cert.pem()).unwrap();
    fs::write(file("key.pem"), made.key_pair.serialize_pem()).unwrap();
    let mut settings = FrontSettings {
        listen: ListenOn("127.0.0.1:0".to_owned()),
        tls_cert: Some(file("cert.pem")),
        tls_key: Some(file("key.pem")),
        ..FrontSettings::default()
    };
    settings.limits.rate = 0;
    settings.auth.tokens_file = Some(file("tokens"));
    let front = |settings| Front::new(settings, Arc::default()).unwrap();
    let node = || NodePort {
        client: Arc::new(ScriptedNode::default()),
        agents: Arc::new(FakeAgents::default()),
        external: None,
        key: None,
        home: None,
    };
    match kind {
        ServerKind::Bare => serve_bare(settings).await,
        ServerKind::A2a => {
            let running = A2aGateway::start(node(), front(settings), A2aSettings::default()).await;
            announce(running.unwrap()).await;
        }
        ServerKind::Uamp => {
            let started = UampGateway::start_as(identity(), node(), front(settings), UampSettings::default());
            announce(started.await.unwrap()).await;
        }
    }
}

async fn announce(mut running: RunningGateway) {
    println!("{}", running.address().unwrap());
    running.wait_ended().await;
}

async fn serve_bare(settings: FrontSettings) {
    let front = Front::new(settings, Arc::default()).unwrap();
    let rules = front.rules();
    let router = |_| {
        Router::new().fallback_service(service_fn(move |request: Request| {
            let rules = Arc::clone(&rules);
            async move {
                let _admitted = rules.admit(&request).await.unwrap();
                Ok::<_, Infallible>(answer(request).await)
            }
        }))
    };
    let running = front.serve("a benchmark", router).await.unwrap();
    println!("{}", running.address);
    running.task.await.unwrap();
}

/// What the gateway answers to an ask, without looking at it.
async fn answer(request: Request) -> Response {
    if request.method() == Method::POST {
        request.into_body().collect().await.unwrap();
        let place = "/v1/stream/str-00000000000000000000000000000000";
        return Response::builder()
            .status(202)
            .header("location", place)
            .body(Body::empty())
            .unwrap();
    }
    let done = r#"{"delta_seq":0,"stream_id":"str-00000000000000000000000000000000","ts":"2025-07-10T13:38:01.000Z","type":"done","payload":{"artifacts":[{"artifact":"a","name":"answer","parts":[{"mime":"text/plain","content":"2+2"}]}]}}"#;
    let event = axum::response::sse::Event::default().id("0").data(done);
    sse::events(futures::stream::iter([Ok(event)]))
}
