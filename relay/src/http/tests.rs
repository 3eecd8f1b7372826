//! The faces as a browser and a monitor see them.

use std::collections::BTreeSet;

use agentanycast_proto::v1::{RelayEndpoint, SkillInfo};
use axum::{
    body::{Body, to_bytes},
    extract::ConnectInfo,
    http::{Request, header},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tower::ServiceExt as _;

use super::*;
use crate::{
    clock::HybridClock,
    metrics::Metrics,
    registry::{RegisteredAgent, RegistryCaller, RegistryLimits, SkillRegistry},
};

mod agents_and_skills;

fn face() -> RelayHttpState {
    let registry = SkillRegistry::new("relay-a", RegistryLimits::default(), HybridClock::default());
    let handle = Handle::new("relay-a", registry, None, 0, Arc::new(Metrics::default()));
    RelayHttpState::new(
        handle,
        FederationPeers::default(),
        RelayEndpoint {
            port: 7000,
            ..RelayEndpoint::default()
        },
        Instant::now(),
    )
}

async fn register(face: &RelayHttpState, peer: &str, name: &str, skill: &str, tags: &[(&str, &str)]) {
    let skill = SkillInfo {
        skill_id: skill.into(),
        description: "does it Well".into(),
        tags: tags
            .iter()
            .map(|(tag, value)| ((*tag).to_owned(), (*value).to_owned()))
            .collect(),
        agent: String::new(),
    };
    let agent = RegisteredAgent {
        peer: peer.into(),
        skills: vec![skill],
        name: name.into(),
        ..RegisteredAgent::default()
    };
    face.0
        .handle
        .register(agent, RegistryCaller::default())
        .await
        .unwrap();
}

async fn ask(router: &Router, method: &str, path: &str) -> (StatusCode, axum::http::HeaderMap, Vec<u8>) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ORIGIN, "https://example.org");
    let answer = router
        .clone()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let (head, body) = answer.into_parts();
    let body = to_bytes(body, 8 << 20).await.unwrap();
    (head.status, head.headers, body.to_vec())
}

async fn json(router: &Router, path: &str) -> (StatusCode, Value) {
    let (status, _, body) = ask(router, "GET", path).await;
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn health_says_what_works() {
    let face = face();
    register(&face, "p", "n", "s", &[]).await;
    let router = metrics_router(&face);
    let (status, value) = json(&router, "/health").await;
    assert_eq!(
        (status, value["status"].as_str()),
        (StatusCode::OK, Some("healthy"))
    );
    assert_eq!(value["registry"]["local_count"], 1);
    assert_eq!(value["registry"]["skill_count"], 1);
    assert_eq!(value["peer_id"], "relay-a");
    assert_eq!(value["federation"]["peers"], 0);
    assert_eq!(value["libp2p"]["connected_peers"], 0);
    assert!(value["uptime_seconds"].is_u64() && value["version"].is_string());
    let (status, value) = json(&router, "/nope").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(
        value["error"]["message"],
        "there is no /nope; /health and /metrics are here, the directory is on the port of --api-listen"
    );
    face.report_problem("API_ADDR: taken".into());
    let (status, value) = json(&router, "/health").await;
    assert_eq!(
        (status, value["status"].as_str()),
        (StatusCode::OK, Some("degraded"))
    );
    assert_eq!(value["problems"][0], "API_ADDR: taken");
    let (status, _, body) = ask(&router, "GET", "/metrics").await;
    assert!(status.is_success() && String::from_utf8(body).unwrap().contains("registry_local_count"));
}

#[tokio::test]
async fn agents_are_found_by_skill_tag_and_words() {
    let face = face();
    register(&face, "p1", "Ärger", "translate", &[("lang", "de")]).await;
    register(&face, "p2", "Bravo", "translate", &[("lang", "fr")]).await;
    let colons = [("geo:region", "eu:west"), ("note", "")];
    register(&face, "p3", "Charlie", "echo", &colons).await;
    let router = api_router(&face, &[]).unwrap();
    let cases = [
        ("", 3),
        ("?skill=translate", 2),
        ("?skill=translate&tag=lang:de", 1),
        ("?tag=lang:fr", 1),
        ("?skill=echo&tag=lang:fr", 0),
        ("?tag=geo:region:eu:west&tag=note:", 1),
        ("?tag=geo:region", 0),
        ("?tag=geo:region:eu", 0),
        ("?tag=note:x", 0),
        ("?q=%C3%A4RGER", 1),
        ("?q=echo", 1),
        ("?q=lang:d", 1),
        ("?q=p2", 1),
        ("?q=nothing", 0),
        ("?q=echo%20well", 1),
        ("?q=Well%20Does", 3),
        ("?q=echo%20bravo", 0),
    ];
    for (question, expected) in cases {
        let (status, value) = json(&router, &format!("/api/v1/agents{question}")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(value["total"], expected, "{question}");
        assert_eq!(value["count"], expected, "{question}");
    }
    let (_, value) = json(&router, "/api/v1/agents?limit=1&offset=1").await;
    assert_eq!((&value["count"], &value["total"]), (&1.into(), &3.into()));
    let (_, one) = json(&router, "/api/v1/agents/p1").await;
    assert_eq!(
        (one["name"].as_str(), one["verified"].as_bool()),
        (Some("Ärger"), Some(false))
    );
    assert_eq!(one["skills"][0]["tags"]["lang"], "de");
    assert!(one["origin"].is_null() && one["expires_at"].as_str().unwrap().ends_with('Z'));
    let (_, skills) = json(&router, "/api/v1/skills").await;
    assert_eq!(skills["count"], 2);
    assert_eq!(skills["skills"][0]["id"], "translate");
    assert_eq!(skills["skills"][0]["agent_count"], 2);
    let (_, second) = json(&router, "/api/v1/skills?limit=1&offset=1").await;
    assert_eq!(second["skills"][0]["id"], "echo");
    assert_eq!((&second["count"], &second["total"]), (&1.into(), &2.into()));
    let (_, stats) = json(&router, "/api/v1/stats").await;
    assert_eq!(stats["registry"]["local_count"], 3);
    let endpoint = serde_json::json!({ "address": "", "port": 7000, "loopback_only": false });
    assert_eq!(stats["registry_endpoint"], endpoint);
    assert!(stats.get("federation").is_none());
}

#[tokio::test]
async fn a_page_ends_when_it_says_a_lot_and_the_next_one_goes_on() {
    let face = face();
    for number in 0..12 {
        let skills = (0..200).map(|n| SkillInfo {
            skill_id: format!("skill-{n}"),
            description: "d".repeat(4096),
            ..SkillInfo::default()
        });
        let agent = RegisteredAgent {
            peer: format!("p{number:02}"),
            skills: skills.collect(),
            ..RegisteredAgent::default()
        };
        face.0
            .handle
            .register(agent, RegistryCaller::default())
            .await
            .unwrap();
    }
    let router = api_router(&face, &[]).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 12 {
        let path = format!("/api/v1/agents?limit=1000&offset={}", seen.len());
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let body = router.clone().oneshot(request).await.unwrap().into_body();
        let body = to_bytes(body, 9 << 20).await.unwrap();
        let page: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(page["total"], 12);
        let agents = page["agents"].as_array().unwrap();
        assert!(!agents.is_empty() && page["count"] == agents.len());
        seen.extend(
            agents
                .iter()
                .map(|agent| agent["peer_id"].as_str().unwrap().to_owned()),
        );
    }
    let all: Vec<String> = (0..12).map(|number| format!("p{number:02}")).collect();
    assert_eq!(seen, all);
}

#[tokio::test]
async fn errors_are_json() {
    let router = api_router(&face(), &[]).unwrap();
    let cases = [
        ("GET", "/api/v1/nothing", StatusCode::NOT_FOUND, "not_found"),
        ("GET", "/api/v1/agents/nobody", StatusCode::NOT_FOUND, "not_found"),
        (
            "GET",
            "/api/v1/agents/%ff",
            StatusCode::BAD_REQUEST,
            "invalid_argument",
        ),
        (
            "POST",
            "/api/v1/agents",
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
        ),
        (
            "DELETE",
            "/",
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
        ),
        (
            "GET",
            "/api/v1/agents?limit=x",
            StatusCode::BAD_REQUEST,
            "invalid_argument",
        ),
        (
            "GET",
            "/api/v1/agents?limit=0",
            StatusCode::BAD_REQUEST,
            "invalid_argument",
        ),
        (
            "GET",
            "/api/v1/agents?tag=x",
            StatusCode::BAD_REQUEST,
            "invalid_argument",
        ),
        (
            "GET",
            "/api/v1/agents?skil=echo",
            StatusCode::BAD_REQUEST,
            "invalid_argument",
        ),
        (
            "GET",
            "/api/v1/stats?x=1",
            StatusCode::BAD_REQUEST,
            "invalid_argument",
        ),
        (
            "GET",
            "/api/v1/skills?limit=10001",
            StatusCode::BAD_REQUEST,
            "invalid_argument",
        ),
    ];
    for (method, path, expected, code) in cases {
        let (status, _, body) = ask(&router, method, path).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (status, body["error"]["code"].as_str()),
            (expected, Some(code)),
            "{method} {path}"
        );
        assert!(body["error"]["message"].is_string());
    }
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_by_its_name() {
    let router = api_router(&face(), &[]).unwrap();
    for (query, said) in [
        ("limit=1001", "limit: \"1001\" is not a number from 1 to 1000"),
        ("limit=5000", "limit: \"5000\" is not a number from 1 to 1000"),
        ("offset=-1", "offset: \"-1\" is not a number from 0"),
        ("q=a&q=b", "q: given twice"),
        ("limit=1&q=a&limit=1", "limit: given twice"),
        ("skill=&skill=echo", "skill: given twice"),
    ] {
        let (status, _, body) = ask(&router, "GET", &format!("/api/v1/agents?{query}")).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}: {message}");
        assert!(message.starts_with(said), "{query}: {message}");
    }
    for query in ["limit=1000", "tag=a:b&tag=c:d", "tag=a:b&tag=a:b"] {
        let (status, ..) = ask(&router, "GET", &format!("/api/v1/agents?{query}")).await;
        assert_eq!(status, StatusCode::OK, "{query}");
    }
    let described: Value = serde_json::from_str(api::OPENAPI).unwrap();
    let parameters = described["paths"]["/api/v1/agents"]["get"]["parameters"].as_array();
    let limit = parameters
        .unwrap()
        .iter()
        .find(|one| one["name"] == "limit")
        .unwrap();
    assert_eq!(limit["schema"]["maximum"], 1000);
}

#[tokio::test]
async fn a_parameter_that_is_none_is_named() {
    let router = api_router(&face(), &[]).unwrap();
    let (_, body) = json(&router, "/api/v1/agents?skill=&sort=name").await;
    let message = body["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("\"sort\"") && message.contains("offset"),
        "{message}"
    );
    let (status, _) = json(&router, "/api/v1/agents?skill=").await;
    assert_eq!(status, StatusCode::OK, "an empty skill is any");
}

#[tokio::test]
async fn one_address_leaves_live_events_to_others() {
    let router = api_router(&face(), &[]).unwrap();
    let from = |last: u8| ClientSource(std::net::IpAddr::from([192, 0, 2, last]).into());
    let follow = async |last: u8| {
        let mut request = Request::get("/api/v1/events").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(from(last)));
        router.clone().oneshot(request).await.unwrap()
    };
    let mut following = Vec::new();
    for _ in 0..FOLLOWERS_PER_ADDRESS {
        following.push(follow(1).await);
    }
    assert!(following.iter().all(|answer| answer.status() == StatusCode::OK));
    let refused = follow(1).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let body = to_bytes(refused.into_body(), 1 << 10).await.unwrap();
    assert!(
        String::from_utf8(body.to_vec())
            .unwrap()
            .contains("of your address")
    );
    for other in 2..=u8::try_from(FOLLOWERS / FOLLOWERS_PER_ADDRESS).unwrap() {
        for _ in 0..FOLLOWERS_PER_ADDRESS {
            following.push(follow(other).await);
            assert_eq!(following.last().unwrap().status(), StatusCode::OK);
        }
    }
    assert_eq!(follow(9).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    // A browser that goes leaves its place.
    following.clear();
    assert_eq!(follow(1).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_description_has_every_path_and_no_other() {
    let router = api_router(&face(), &[]).unwrap();
    let described: Value = serde_json::from_str(api::OPENAPI).unwrap();
    let paths: BTreeSet<_> = described["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let served = [
        "/api/v1/agents",
        "/api/v1/agents/{peer_id}",
        "/api/v1/agents/{peer_id}/{agent}",
        "/api/v1/events",
        "/api/v1/openapi.json",
        "/api/v1/skills",
        "/api/v1/stats",
    ];
    assert_eq!(paths, BTreeSet::from(served));
    for path in paths.iter().filter(|path| !path.ends_with("events")) {
        let (status, _, body) = ask(
            &router,
            "GET",
            &path.replace("{peer_id}", "nobody").replace("{agent}", "one"),
        )
        .await;
        assert!(status == StatusCode::OK || path.contains('{'), "{path}: {status}");
        serde_json::from_slice::<Value>(&body).unwrap();
    }
}

#[tokio::test]
async fn the_dashboard_comes_from_here_only() {
    let router = api_router(&face(), &[]).unwrap();
    for (path, kind) in [
        ("/", "text/html"),
        ("/style.css", "text/css"),
        ("/script.js", "text/javascript"),
        ("/agents.js", "text/javascript"),
        ("/show.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let (status, headers, body) = ask(&router, "GET", path).await;
        assert_eq!(status, StatusCode::OK);
        assert!(headers[header::CONTENT_TYPE].to_str().unwrap().starts_with(kind));
        assert!(
            headers[header::CONTENT_SECURITY_POLICY]
                .to_str()
                .unwrap()
                .contains("default-src 'none'")
        );
        // A name of a kind of file, not a place.
        let text = String::from_utf8(body)
            .unwrap()
            .replace("http://www.w3.org/2000/svg", "");
        assert!(
            !text.contains("http://") && !text.contains("https://") && !text.contains("innerHTML"),
            "{path}"
        );
    }
}

#[test]
fn the_dashboard_is_shown_in_the_order_in_which_it_is_read() {
    let style = include_str!("../dashboard/style.css");
    for reorders in ["grid-row", " order:", "-reverse"] {
        assert!(!style.contains(reorders), "{reorders}");
    }
}

#[tokio::test]
async fn browsers_from_elsewhere_are_let_in_only_where_configured() {
    let allowed = |headers: &axum::http::HeaderMap| headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN).cloned();
    for (origins, expected) in [
        (vec![], None),
        (
            vec!["https://example.org".to_owned()],
            Some("https://example.org"),
        ),
        (vec!["https://other.example".to_owned()], None),
        (vec!["*".to_owned()], Some("*")),
    ] {
        let router = api_router(&face(), &origins).unwrap();
        let (_, headers, _) = ask(&router, "GET", "/api/v1/stats").await;
        assert_eq!(
            allowed(&headers).as_ref().and_then(|value| value.to_str().ok()),
            expected,
            "{origins:?}"
        );
    }
}

/// A listener with so many places for one address, and where it is.
async fn bounded(of_one_address: usize) -> (BoundedListener, std::net::SocketAddr) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let places = crate::fd_budget::ListenerLimits {
        all: 10,
        of_one_address,
    };
    (
        BoundedListener::new(listener, "metrics", places, Arc::default()),
        address,
    )
}

/// Whoever holds all places of an address and asks nothing loses them to those who ask; who is being answered keeps its own.
#[tokio::test]
async fn who_asks_nothing_gives_way() {
    let (listener, address) = bounded(3).await;
    let face = face();
    let stop = CancellationToken::new();
    let router = api_router(&face, &[]).unwrap();
    let served = tokio::spawn(serve(listener, router, stop.clone()));
    let say = async |said: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        stream
    };
    let mut follower = say("GET /api/v1/events HTTP/1.1\r\nHost: relay\r\n\r\n").await;
    let mut events = [0; 12];
    follower.read_exact(&mut events).await.unwrap();
    assert_eq!(&events, b"HTTP/1.1 200");
    let mut silent = vec![say("").await, say("GET /api/v1/stats HTTP/1.1\r\n").await];
    for at in 0..4 {
        let mut asks = say("GET /api/v1/stats HTTP/1.1\r\nHost: relay\r\n\r\n").await;
        let mut answer = [0; 12];
        asks.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200", "{at}");
        if at < 2 {
            // The one that has waited longest.
            assert_eq!(silent[at].read(&mut answer).await.unwrap_or(0), 0);
        }
        silent.push(asks);
    }
    let mut more = [0; 64];
    follower.read_exact(&mut more).await.unwrap();
    drop(follower);
    stop.cancel();
    served.await.unwrap();
}

/// Real time passes here, 10 s of it: hyper's own clock is what is tested.
#[tokio::test]
async fn who_does_not_finish_asking_is_left() {
    let (listener, address) = bounded(10).await;
    let stop = CancellationToken::new();
    let served = tokio::spawn(serve(listener, metrics_router(&face()), stop.clone()));
    let whole = "GET /health HTTP/1.1\r\nHost: relay\r\n\r\n";
    let half = &whole[..whole.len() - 2];
    let ends = async |said: String, answers: usize| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        tokio::time::timeout(Duration::from_mins(1), read)
            .await
            .unwrap_or_else(|_| panic!("{said:?} keeps the connection"))
            .unwrap();
        assert_eq!(
            answer.matches("HTTP/1.1 200").count(),
            answers,
            "{said:?}: {answer}"
        );
    };
    tokio::join!(
        ends(String::new(), 0),
        ends("G".into(), 0),
        ends(half.into(), 0),
        ends(whole.into(), 1),
        ends([whole, half].concat(), 1),
    );
    stop.cancel();
    served.await.unwrap();
}

/// Also where few have changed, which are put in their places one by one, and where many have.
#[tokio::test]
async fn what_was_answered_is_seen() {
    let face = face();
    let router = api_router(&face, &[]).unwrap();
    let names = |value: &Value| -> Vec<String> {
        let agents = value["agents"].as_array().unwrap().iter();
        agents
            .map(|agent| agent["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (count, number) in [7, 3, 5, 1].into_iter().enumerate() {
        register(&face, &format!("p{number}"), &format!("n{number}"), "few", &[]).await;
        let (_, value) = json(&router, "/api/v1/agents").await;
        assert_eq!(value["total"], count + 1);
    }
    // One has another name and skill, one renews, one is gone.
    register(&face, "p1", "n6", "other", &[]).await;
    face.0.handle.heartbeat("p3", RegistryCaller::default()).unwrap();
    let gone = face
        .0
        .handle
        .unregister("p5", &[], RegistryCaller::default())
        .await;
    gone.unwrap();
    let (_, value) = json(&router, "/api/v1/agents").await;
    assert_eq!(names(&value), ["n3", "n6", "n7"]);
    let (_, value) = json(&router, "/api/v1/skills").await;
    assert_eq!(value["skills"][0]["agent_count"], 2);
    for number in 100..500 {
        register(&face, &format!("p{number}"), &format!("n{number}"), "many", &[]).await;
    }
    let (_, value) = json(&router, "/api/v1/agents?limit=1000").await;
    assert_eq!(value["total"], 403);
    assert!(names(&value).is_sorted(), "{value}");
    let (_, value) = json(&router, "/api/v1/skills").await;
    assert_eq!(value["skills"][0]["agent_count"], 400);
}
