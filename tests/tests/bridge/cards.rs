//! Cards: of the agent beside the node, of a peer, of a skill.

use agentanycast::{AgentCard, Skill};
use agentanycast_tests::{Bridge, Daemon, TestRelay, agent::TestAgent, eventually};
use http::{Method, StatusCode};

use crate::setup::{BridgeSetup, send_params, talk, texts};

#[tokio::test]
async fn an_agent_behind_another_node_has_a_card() {
    let scene = BridgeSetup::talking().await;
    let client = scene.old_client();
    let card = client.get("/.well-known/agent-card.json").await;
    let url = format!("{}{}", scene.bridge.url(), scene.path());
    assert_eq!(card.body["name"], "Alice");
    assert_eq!(card.body["url"], url);
    assert_eq!(card.body["supportedInterfaces"][0]["url"], url);
    // Strict clients refuse a card with an interface URL that is not http(s): gRPC and libp2p are not listed.
    for list in ["supportedInterfaces", "additionalInterfaces"] {
        let interfaces = card.body[list].as_array().unwrap();
        assert!(
            interfaces.iter().all(|interface| interface["url"] == url),
            "{}",
            card.body
        );
    }
    let libp2p = &card.body["capabilities"]["extensions"][1];
    assert_eq!(libp2p["uri"], "urn:agentanycast:binding:libp2p:1.0");
    assert_eq!(libp2p["params"]["peerId"], scene.pair.alice.peer_id().to_string());
    assert!(
        libp2p["params"]["didKey"]
            .as_str()
            .unwrap()
            .starts_with("did:key:z6Mk")
    );
    for other in ["/.well-known/agent.json", "/.well-known/a2a-agent-card"] {
        assert_eq!(client.get(other).await.body, card.body);
    }
    assert!(card.headers.contains_key("last-modified") && card.headers.contains_key("cache-control"));

    // By its DID too.
    let did = card.body["capabilities"]["extensions"][0]["params"]["p2p"]["didKey"]
        .as_str()
        .unwrap();
    let by_did = scene.bridge.client().at(&format!("/agents/{did}")).version("1.0");
    let task = &by_did.call("SendMessage", send_params("echo by did")).await["task"];
    assert_eq!(texts(task), ["echo by did", "by did"]);
}

#[tokio::test]
async fn a_card_lists_grpc_as_the_setting_says() {
    let scene = BridgeSetup::talking().await;
    for (form, scheme) in [("authority", ""), ("url", "http://")] {
        let flag = format!("--card-grpc={form}");
        let bridge = Bridge::start_with(&scene.pair.bob, &[&flag]).await;
        let client = bridge.client().at(&scene.path());
        let card = client.get("/.well-known/agent-card.json").await.body;
        let mut interfaces = card["supportedInterfaces"].as_array().unwrap().iter();
        let grpc = interfaces
            .find(|interface| interface["protocolBinding"] == "GRPC")
            .unwrap();
        assert_eq!(grpc["url"], format!("{scheme}{}", bridge.address()), "{card}");
        assert_eq!(grpc["tenant"], format!("agents/{}", scene.pair.alice.peer_id()));
    }
}

#[tokio::test]
async fn a_card_that_is_known_is_not_sent_again() {
    let scene = BridgeSetup::talking().await;
    let client = scene.old_client();
    let path = "/.well-known/agent-card.json";
    let etag = client.get(path).await.headers["etag"].clone();
    let request = http::Request::builder()
        .method(Method::GET)
        .uri(format!("{}{}{path}", scene.bridge.url(), scene.path()))
        .header("if-none-match", &etag)
        .body(http_body_util::Full::<bytes::Bytes>::default())
        .unwrap();
    let client =
        hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
    assert_eq!(
        client.request(request).await.unwrap().status(),
        StatusCode::NOT_MODIFIED
    );
}

/// A card is signed for the address that was reached and for the configured URL, and for nothing that a request names.
#[tokio::test]
async fn a_card_is_not_signed_for_whatever_host_is_named() {
    let scene = BridgeSetup::talking().await;
    let key = format!("--key={}", scene.pair.bob.home().path().join("key").display());
    let bridge = Bridge::start_with(&scene.pair.bob, &[&key]).await;
    let path = format!("{}/.well-known/agent-card.json", scene.path());
    let port = bridge.address().port();
    let at = |host: &str| bridge.client().header("host", host);
    let mut dates = Vec::new();
    for (host, signed) in [
        (format!("127.0.0.1:{port}"), true),
        (format!("localhost:{port}"), true),
        (format!("evil.example:{port}"), false),
        (format!("127.0.0.1.evil.example:{port}"), false),
        (format!("192.0.2.1:{port}"), false),
        ("127.0.0.1:1".to_owned(), false),
    ] {
        let card = at(&host).get(&path).await;
        let url = format!("http://{host}{}", scene.path());
        assert_eq!(
            card.body["supportedInterfaces"][0]["url"], url,
            "who asks by a name is told that name"
        );
        assert_eq!(card.body.get("signatures").is_some(), signed, "{host}");
        dates.push((
            host,
            card.headers["last-modified"].clone(),
            card.headers["etag"].clone(),
        ));
    }
    // Each place has its own card; that others are asked for does not make it newer.
    for (host, date, etag) in dates {
        let again = at(&host).header("if-modified-since", date.to_str().unwrap());
        let again = again.get(&path).await;
        assert_eq!(again.status, StatusCode::NOT_MODIFIED, "{host}");
        assert_eq!(
            (&again.headers["etag"], &again.headers["last-modified"]),
            (&etag, &date)
        );
    }
    for odd in ["user@evil.example", "a b", "host:port"] {
        let refused = at(odd).get(&path).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{odd}");
        let said = refused.body["error"]["message"].as_str().unwrap();
        assert!(said.contains("Host"), "{said}");
    }
    let url = "--public-url=https://agents.example.org";
    let bridge = Bridge::start_with(&scene.pair.bob, &[&key, url]).await;
    let card = bridge.client().header("host", "a b").get(&path).await.body;
    assert!(card["signatures"][0]["signature"].is_string(), "{card}");
    assert_eq!(
        card["supportedInterfaces"][0]["url"],
        format!("https://agents.example.org{}", scene.path())
    );
}

#[tokio::test]
async fn the_agent_beside_the_node_is_at_the_root() {
    let scene = BridgeSetup::talking().await;
    let client = scene.bridge.client().version("1.0");
    assert_eq!(
        client.get("/.well-known/agent-card.json").await.status,
        StatusCode::NOT_FOUND
    );
    let node = scene.pair.bob.node_named("Bob").await;
    let _agent = TestAgent::serve(&node, talk);
    let bridge = Bridge::start_with(
        &scene.pair.bob,
        &["--card=1.0", "--public-url=https://a.example/"],
    )
    .await;
    let card = bridge.client().get("/.well-known/agent-card.json").await.body;
    assert_eq!(card["name"], "Bob");
    assert_eq!(card["supportedInterfaces"][0]["url"], "https://a.example");
    assert!(card.get("url").is_none());
    let task = &client.call("SendMessage", send_params("echo at home")).await["task"];
    assert_eq!(texts(task), ["echo at home", "at home"]);
}

#[tokio::test]
async fn nobody_has_no_card() {
    let scene = BridgeSetup::talking().await;
    for nobody in [
        "/skills/fly",
        "/agents/nobody",
        "/agents/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK",
    ] {
        let client = scene.bridge.client().at(nobody).version("1.0");
        let card = client.get("/.well-known/agent-card.json").await;
        assert_eq!(card.status, StatusCode::NOT_FOUND, "{nobody}: {}", card.body);
    }
}

#[tokio::test]
async fn a_skill_is_whoever_has_it() {
    let relay = TestRelay::builder().start().await;
    let daemon = || Daemon::builder().known_to(&relay);
    let (alice, bob) = (daemon().start().await, daemon().start().await);
    let node = alice.node().await;
    let card = AgentCard::new("Alice", "Talks").with_skill(Skill::new("talk", "Talks about anything"));
    node.set_card(card).await.unwrap();
    let _agent = TestAgent::serve(&node, talk);
    let bridge = Bridge::start(&bob).await;
    let client = bridge.client().at("/skills/talk").version("1.0");
    let card = eventually("the skill is found", || async {
        let card = client.get("/.well-known/agent-card.json").await;
        (card.status == StatusCode::OK).then_some(card.body)
    })
    .await;
    assert_eq!(card["skills"][0]["description"], "Talks about anything");
    let task = &client.call("SendMessage", send_params("echo anycast")).await["task"];
    assert_eq!(texts(task), ["echo anycast", "anycast"]);
    let nobody = bridge.client().at("/skills/fly").version("1.0");
    let refused = nobody.post("/message:send", &send_params("up")).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND, "{}", refused.body);
}

/// Neither a registry nor a peer is needed for the skill of the agent beside the node.
#[tokio::test]
async fn a_skill_of_the_own_agent_has_a_card() {
    let bob = Daemon::builder().start().await;
    let node = bob.node().await;
    let card = AgentCard::new("Bob", "Talks").with_skill(Skill::new("talk", "Talks about anything"));
    node.set_card(card).await.unwrap();
    let _agent = TestAgent::serve(&node, talk);
    let bridge = Bridge::start(&bob).await;
    let client = bridge.client().at("/skills/talk").version("1.0");
    let card = client.get("/.well-known/agent-card.json").await;
    assert_eq!(card.status, StatusCode::OK, "{}", card.body);
    assert_eq!(card.body["skills"][0]["description"], "Talks about anything");
    let task = &client.call("SendMessage", send_params("echo here")).await["task"];
    assert_eq!(texts(task), ["echo here", "here"]);
    let other = bridge.client().at("/skills/fly");
    let other = other.get("/.well-known/agent-card.json").await;
    assert_eq!(other.status, StatusCode::NOT_FOUND, "{}", other.body);
}
