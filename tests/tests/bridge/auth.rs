//! Who may call: tokens of an issuer, certificates, tokens that are known here, and all of them together. However
//! somebody is known, only its own tasks are there for it.

use std::{fs, io::ErrorKind, path::Path};

use agentanycast::TaskFilter;
use agentanycast_proto::a2a::{ListTasksRequest, a2a_service_client::A2aServiceClient};
use agentanycast_tests::{
    Bridge, eventually,
    http::{HttpAnswer, HttpClient},
    within,
};
use http::{Method, StatusCode};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use rcgen::{BasicConstraints, CertificateParams, CertifiedKey, DnType, IsCa, KeyPair, SanType};
use serde_json::{Value, json};
use tokio::{
    net::{TcpSocket, TcpStream},
    process::Command,
};
use tonic::Code;

use crate::{
    oidc_issuer::{AUDIENCE, OidcIssuer, TokenSigner},
    setup::{BridgeSetup, nonblocking_send_params, send_params},
};

async fn bridge(scene: &BridgeSetup, issuer: &str, more: &[&str]) -> Bridge {
    let issuer = format!("--auth-issuer={issuer}");
    let audience = format!("--auth-audience={AUDIENCE}");
    let mut args = vec![issuer.as_str(), &audience, "--auth-scopes=a2a"];
    args.extend(more);
    Bridge::start_with(&scene.pair.bob, &args).await
}

fn client(bridge: &Bridge, scene: &BridgeSetup, token: &str) -> HttpClient {
    bridge.client().at(&scene.path()).version("1.0").token(token)
}

async fn tried(bridge: &Bridge, scene: &BridgeSetup, token: &str) -> HttpAnswer {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}});
    client(bridge, scene, token).post("/", &call).await
}

fn challenge(answer: &HttpAnswer) -> &str {
    answer.headers["www-authenticate"].to_str().unwrap()
}

/// Two callers: each sees its own task and not the other's, by whatever way it asks.
async fn see_their_own(one: &HttpClient, other: &HttpClient) {
    let id = one.call("SendMessage", nonblocking_send_params("wait")).await["task"]["id"].take();
    assert_eq!(one.call("GetTask", json!({ "id": id })).await["id"], id);
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        assert_eq!(other.code(method, json!({ "id": id })).await, -32001, "{method}");
    }
    assert_eq!(other.call("ListTasks", json!({})).await["totalSize"], 0);
    one.call("CancelTask", json!({ "id": id })).await;
}

/// What a bridge notes of a caller reaches its own node, and no other.
async fn labels_stay_here(scene: &BridgeSetup) {
    // The node is told who asked; its rules know that as `http:alice`.
    let node = scene.pair.bob.node().await;
    let tasks = node.tasks(&TaskFilter::default()).await.unwrap();
    let callers: Vec<_> = tasks
        .iter()
        .filter_map(|task| task.metadata.get("gateway.caller"))
        .collect();
    assert_eq!(callers, ["a2a:alice"]);
    // The agent's node is not: who calls here is none of its business.
    let theirs = scene
        .pair
        .alice
        .node()
        .await
        .tasks(&TaskFilter::default())
        .await
        .unwrap();
    assert!(!theirs.is_empty());
    for task in theirs {
        for label in ["gateway.caller", "gateway.target"] {
            assert!(!task.metadata.contains_key(label), "{:?}", task.metadata);
        }
    }
}

#[tokio::test]
async fn tokens_of_an_issuer() {
    let scene = BridgeSetup::talking().await;
    let issuer = OidcIssuer::start().await;
    let (ed, es) = (
        issuer.publish("ed", Algorithm::EdDSA),
        issuer.publish("es", Algorithm::ES256),
    );
    let bridge = bridge(&scene, &issuer.url, &[]).await;
    let (alice, bob) = (ed.token("alice"), es.token("bob"));
    see_their_own(&client(&bridge, &scene, &alice), &client(&bridge, &scene, &bob)).await;

    labels_stay_here(&scene).await;

    let nobody = bridge.client().at(&scene.path()).post("/", &json!({})).await;
    assert_eq!(nobody.status, StatusCode::UNAUTHORIZED);
    assert_eq!(challenge(&nobody), "Bearer");
    let (stranger, public) = TokenSigner::new(&issuer.url, "ed", Algorithm::EdDSA);
    let secret = public["x"].as_str().unwrap();
    let mut symmetric = Header::new(Algorithm::HS256);
    symmetric.kid = Some("ed".to_owned());
    let now = get_current_timestamp();
    let claims =
        json!({"iss": issuer.url, "aud": AUDIENCE, "sub": "alice", "scope": "a2a", "exp": now + 600});
    let forged = encode(&symmetric, &claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap();
    let unsigned = alice
        .split('.')
        .nth(1)
        .map(|claims| format!("eyJhbGciOiJub25lIn0.{claims}."));
    for (what, token) in [
        ("another key", stranger.token("alice")),
        ("a shared secret", forged),
        ("no signature", unsigned.unwrap()),
        ("another's algorithm", alice.replacen("eyJ", "eyK", 1)),
        (
            "another audience",
            ed.token_with("alice", json!({"aud": "other"})),
        ),
        (
            "another issuer",
            ed.token_with("alice", json!({"iss": "https://issuer.example"})),
        ),
        ("it is over", ed.token_with("alice", json!({"exp": now - 120}))),
        ("not yet", ed.token_with("alice", json!({"nbf": now + 120}))),
        ("nobody", ed.token_with("", json!({}))),
        ("no token", "0123456789abcdef".to_owned()),
    ] {
        let answer = tried(&bridge, &scene, &token).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{what}");
        assert!(challenge(&answer).contains("invalid_token"), "{what}");
        assert_eq!(
            answer.body["error"]["data"][0]["reason"], "UNAUTHENTICATED",
            "{what}"
        );
        assert!(!answer.body.to_string().contains(&token), "{what}");
    }
    let poor = tried(
        &bridge,
        &scene,
        &ed.token_with("alice", json!({"scope": "openid"})),
    )
    .await;
    assert_eq!(poor.status, StatusCode::FORBIDDEN);
    assert_eq!(
        challenge(&poor),
        "Bearer error=\"insufficient_scope\", scope=\"a2a\""
    );

    let card = bridge
        .client()
        .at(&scene.path())
        .get("/.well-known/agent-card.json")
        .await
        .body;
    let about = format!("{}/.well-known/openid-configuration", issuer.url);
    let declared = &card["securitySchemes"]["openId"];
    assert_eq!(declared["openIdConnectSecurityScheme"]["openIdConnectUrl"], about);
    assert_eq!(
        (&declared["type"], &declared["openIdConnectUrl"]),
        (&json!("openIdConnect"), &json!(about))
    );
    assert_eq!(
        card["securityRequirements"][0]["schemes"]["openId"]["list"],
        json!(["a2a"])
    );
    assert_eq!(card["security"][0]["openId"], json!(["a2a"]));
}

#[tokio::test]
async fn the_issuer_is_asked_seldom_and_its_new_keys_are_found() {
    let scene = BridgeSetup::talking().await;
    let issuer = OidcIssuer::start().await;
    let old = issuer.publish("old", Algorithm::EdDSA);
    let bridge = bridge(&scene, &issuer.url, &[]).await;
    for n in 0..40 {
        let token = TokenSigner::new(&issuer.url, &format!("unknown-{n}"), Algorithm::EdDSA)
            .0
            .token("eve");
        assert_eq!(
            tried(&bridge, &scene, &token).await.status,
            StatusCode::UNAUTHORIZED
        );
    }
    // Once in ten seconds; how long forty requests take is the machine's matter.
    assert!((1..=8).contains(&issuer.asked()), "{} times", issuer.asked());
    assert_eq!(
        tried(&bridge, &scene, &old.token("alice")).await.status,
        StatusCode::OK
    );
    let new = issuer.publish("new", Algorithm::ES256).token("alice");
    eventually("the new key is found", || async {
        (tried(&bridge, &scene, &new).await.status == StatusCode::OK).then_some(())
    })
    .await;

    // What was fetched serves on when the issuer is gone.
    drop(issuer);
    assert_eq!(
        tried(&bridge, &scene, &old.token("bob")).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn an_issuer_that_is_down_is_told_from_a_bad_token() {
    let scene = BridgeSetup::talking().await;
    let gone = OidcIssuer::start().await.url.clone();
    let (signer, _) = TokenSigner::new(&gone, "k", Algorithm::EdDSA);
    let tokens = scene.pair.bob.home().path().join("tokens");
    fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\n").unwrap();
    let bridge = bridge(&scene, &gone, &[&format!("--tokens-file={}", tokens.display())]).await;
    let answer = tried(&bridge, &scene, &signer.token("alice")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.headers.contains_key("retry-after"));
    // Who is known here needs no issuer.
    assert_eq!(
        tried(&bridge, &scene, "aaaaaaaaaaaaaaaa").await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn grpc_asks_who_one_is_too() {
    let scene = BridgeSetup::talking().await;
    let issuer = OidcIssuer::start().await;
    let signer = issuer.publish("k", Algorithm::EdDSA);
    let bridge = bridge(&scene, &issuer.url, &[]).await;
    let mut service = A2aServiceClient::connect(bridge.url()).await.unwrap();
    let mut ask = async |token: Option<String>| {
        let mut request = tonic::Request::new(ListTasksRequest::default());
        request
            .metadata_mut()
            .insert("a2a-version", "1.0".parse().unwrap());
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        service.list_tasks(request).await.map_err(|status| status.code())
    };
    assert!(ask(Some(signer.token("alice"))).await.is_ok());
    assert_eq!(ask(None).await.unwrap_err(), Code::Unauthenticated);
    assert_eq!(
        ask(Some("x".to_owned())).await.unwrap_err(),
        Code::Unauthenticated
    );
    let poor = signer.token_with("alice", json!({"scope": ""}));
    assert_eq!(ask(Some(poor)).await.unwrap_err(), Code::PermissionDenied);
}

/// Somebody who signs certificates.
struct ClientCa(CertifiedKey);

impl ClientCa {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Not the name that certificates have by default: one that signs itself is no authority's.
        params.distinguished_name.push(DnType::CommonName, "An authority");
        let key_pair = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key_pair).unwrap();
        Self(CertifiedKey { cert, key_pair })
    }

    fn pem(&self) -> String {
        self.0.cert.pem()
    }

    /// Writes a certificate of this name, and its key.
    fn sign(&self, directory: &Path, file: &str, name: SanType) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.0.cert, &self.0.key_pair).unwrap();
        fs::write(directory.join(format!("{file}.pem")), made.pem()).unwrap();
        fs::write(directory.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
}

/// A REST call by curl with this certificate: the status, and the body if it is JSON. 000 when TLS fails.
async fn curl(
    directory: &Path,
    certificate: Option<&str>,
    token: Option<&str>,
    url: &str,
    body: Option<&Value>,
) -> (String, Value) {
    let mut command = Command::new("curl");
    command
        .args([
            "-sS",
            "-w",
            "\n%{http_code}",
            "-H",
            "A2A-Version: 1.0",
            "-H",
            "Content-Type: application/json",
            "--cacert",
        ])
        .arg(directory.join("ca.pem"))
        .arg(url);
    if let Some(name) = certificate {
        command.arg("--cert").arg(directory.join(format!("{name}.pem")));
        command.arg("--key").arg(directory.join(format!("{name}.key")));
    }
    if let Some(token) = token {
        command.args(["-H", &format!("Authorization: Bearer {token}")]);
    }
    if let Some(body) = body {
        command.args(["-d", &body.to_string()]);
    }
    let output = within("curl ends", command.output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = said.rsplit_once('\n').unwrap_or(("", &said));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    (status.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

#[tokio::test]
async fn certificates_and_tokens_beside_them() {
    let scene = BridgeSetup::talking().await;
    let home = scene.pair.bob.home().path().to_owned();
    let (ours, theirs) = (ClientCa::new(), ClientCa::new());
    fs::write(home.join("ca.pem"), ours.pem()).unwrap();
    ours.sign(&home, "server", SanType::DnsName("localhost".try_into().unwrap()));
    let uri = |name: &str| SanType::URI(format!("spiffe://example.org/{name}").try_into().unwrap());
    ours.sign(&home, "alice", uri("alice"));
    ours.sign(&home, "bob", uri("bob"));
    theirs.sign(&home, "eve", uri("alice"));
    fs::write(
        home.join("tokens"),
        "spiffe://example.org/alice aaaaaaaaaaaaaaaa\n",
    )
    .unwrap();
    let flag = |name: &str, file: &str| format!("--{name}={}", home.join(file).display());
    let flags = [
        flag("tls-cert", "server.pem"),
        flag("tls-key", "server.key"),
        flag("client-ca", "ca.pem"),
        flag("tokens-file", "tokens"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let bridge = Bridge::start_with(&scene.pair.bob, &flags).await;
    let url = format!("https://localhost:{}{}", bridge.address().port(), scene.path());
    let url = |path: &str| format!("{url}{path}");

    let (status, sent) = curl(
        &home,
        Some("alice"),
        None,
        &url("/message:send"),
        Some(&nonblocking_send_params("wait")),
    )
    .await;
    assert_eq!(status, "200", "{sent}");
    let task = url(&format!("/tasks/{}", sent["task"]["id"].as_str().unwrap()));
    assert_eq!(curl(&home, Some("alice"), None, &task, None).await.0, "200");
    assert_eq!(curl(&home, Some("bob"), None, &task, None).await.0, "404");
    // The same caller by another way.
    assert_eq!(
        curl(&home, None, Some("aaaaaaaaaaaaaaaa"), &task, None).await.0,
        "200"
    );
    assert_eq!(curl(&home, None, None, &task, None).await.0, "401");
    // With a token beside a certificate, it is the token that says who calls.
    for (certificate, token, expected) in [
        (None, "bbbbbbbbbbbbbbbb", "401"),
        (Some("alice"), "bbbbbbbbbbbbbbbb", "401"),
        (Some("bob"), "aaaaaaaaaaaaaaaa", "200"),
    ] {
        let (status, _) = curl(&home, certificate, Some(token), &task, None).await;
        assert_eq!(status, expected, "{certificate:?} {token}");
    }
    assert_eq!(
        curl(&home, Some("eve"), None, &task, None).await.0,
        "000",
        "TLS refuses it"
    );
    let (status, card) = curl(&home, None, None, &url("/.well-known/agent-card.json"), None).await;
    assert_eq!(status, "200", "cards are for everybody");
    assert_eq!(card["securitySchemes"]["mutualTls"]["type"], "mutualTLS");
    assert_eq!(card["securityRequirements"].as_array().unwrap().len(), 2);
    let cancelled = curl(
        &home,
        Some("alice"),
        None,
        &format!("{task}:cancel"),
        Some(&json!({})),
    )
    .await;
    assert_eq!(cancelled.0, "200", "{}", cancelled.1);

    // Other authorities, without a restart. What is connected stays.
    fs::write(home.join("ca2.pem"), theirs.pem()).unwrap();
    fs::rename(home.join("ca.pem"), home.join("old.pem")).unwrap();
    fs::copy(home.join("ca2.pem"), home.join("ca.pem")).unwrap();
    let listing = url("/tasks");
    eventually("the new authority is trusted", || async {
        let mut command = Command::new("curl");
        command
            .args([
                "-sS",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-H",
                "A2A-Version: 1.0",
                "--cacert",
            ])
            .arg(home.join("old.pem"))
            .arg("--cert")
            .arg(home.join("eve.pem"))
            .arg("--key")
            .arg(home.join("eve.key"))
            .arg(&listing);
        let output = within("curl ends", command.output()).await.unwrap();
        (output.stdout == b"200").then_some(())
    })
    .await;
}

#[tokio::test]
async fn each_caller_has_its_own_share() {
    let scene = BridgeSetup::talking().await;
    let tokens = scene.pair.bob.home().path().join("tokens");
    fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n").unwrap();
    let tokens = format!("--tokens-file={}", tokens.display());
    let limits = ["--rate=1", "--burst=6", "--at-once=2", &tokens];
    let bridge = Bridge::start_with(&scene.pair.bob, &limits).await;
    let (alice, bob) = (
        client(&bridge, &scene, "aaaaaaaaaaaaaaaa"),
        client(&bridge, &scene, "bbbbbbbbbbbbbbbb"),
    );
    // Two streams are open; a third request finds no place, until one of them is over.
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = alice.stream("SendStreamingMessage", send_params("wait")).await;
        stream.event().await;
        streams.push(stream);
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}});
    let full = alice.post("/", &call).await;
    assert_eq!(full.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(full.headers["retry-after"], "1");
    assert_eq!(full.body["error"]["data"][0]["reason"], "RESOURCE_EXHAUSTED");
    assert_eq!(bob.post("/", &call).await.status, StatusCode::OK);
    streams.clear();
    eventually("the places are free again", || async {
        (alice.post("/", &call).await.status == StatusCode::OK).then_some(())
    })
    .await;

    // More than the rate: refused by each binding in its words, and nobody else is.
    let mut refused = 0;
    for _ in 0..20 {
        let answer = alice.get("/tasks").await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            assert!(answer.headers.contains_key("retry-after"));
            assert_eq!(answer.body["error"]["status"], "RESOURCE_EXHAUSTED");
            refused += 1;
        }
    }
    assert!(
        refused >= 5,
        "{refused} of 20 requests at once were refused, where one a second is allowed"
    );
    let mut service = A2aServiceClient::connect(bridge.url()).await.unwrap();
    let mut grpc = async |token: &str| {
        let mut request = tonic::Request::new(ListTasksRequest::default());
        let head = request.metadata_mut();
        head.insert("a2a-version", "1.0".parse().unwrap());
        head.insert("authorization", format!("Bearer {token}").parse().unwrap());
        service.list_tasks(request).await
    };
    let mut told = None;
    for _ in 0..20 {
        if let Err(status) = grpc("aaaaaaaaaaaaaaaa").await {
            told = Some(status);
        }
    }
    let told = told.expect("gRPC counts too");
    assert_eq!(told.code(), Code::ResourceExhausted);
    assert!(told.metadata().contains_key("grpc-retry-pushback-ms"));
    assert_eq!(bob.post("/", &call).await.status, StatusCode::OK);
    assert!(grpc("bbbbbbbbbbbbbbbb").await.is_ok());
}

/// Of one address so many connections stay, whatever they say; what comes of another one is served meanwhile.
#[tokio::test]
async fn each_address_has_its_own_connections() {
    let scene = BridgeSetup::talking().await;
    let bridge = Bridge::start_with(&scene.pair.bob, &["--connections-per-address=3"]).await;
    let at = bridge.url().strip_prefix("http://").unwrap().parse().unwrap();
    let mut crowd = Vec::new();
    for _ in 0..30 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        crowd.extend(socket.connect(at).await);
    }
    eventually("three stay", || {
        crowd.retain(|stream: &TcpStream| {
            stream
                .try_read(&mut [0])
                .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        let few = crowd.len() <= 3;
        async move { few.then_some(()) }
    })
    .await;
    assert!(!crowd.is_empty(), "whoever came is served up to the bound");
    let listed = bridge
        .client()
        .at(&scene.path())
        .version("1.0")
        .get("/tasks")
        .await;
    assert_eq!(listed.status, StatusCode::OK, "{:?}", listed.body);
}

/// A task carries the labels of the caller who sent it, also to a node that has a bridge of its own, and with callers of
/// the same name; and anybody can make labels up.
#[tokio::test]
async fn tasks_of_other_nodes_are_no_callers_here() {
    let scene = BridgeSetup::talking().await;
    let sent = scene
        .client()
        .call("SendMessage", send_params("echo secret"))
        .await;
    let id = sent["task"]["id"].as_str().unwrap().to_owned();
    let there = Bridge::start(&scene.pair.alice).await;
    for path in [String::new(), scene.path()] {
        let client = there.client().at(&path).version("1.0");
        let listed = client.get("/tasks").await;
        assert_eq!(listed.body["totalSize"], 0, "{}", listed.body);
        let asked = client.get(&format!("/tasks/{id}")).await;
        assert_eq!(asked.status, StatusCode::NOT_FOUND);
        let canceled = client.post(&format!("/tasks/{id}:cancel"), &json!({})).await;
        assert_eq!(canceled.status, StatusCode::NOT_FOUND);
    }
    // Who sent it has it.
    assert_eq!(
        scene.client().get(&format!("/tasks/{id}")).await.status,
        StatusCode::OK
    );
}

/// A page whose name leads here by its owner's doing is another origin over gRPC too, which needs no more than `fetch`.
#[tokio::test]
async fn pages_of_others_cannot_call_over_grpc() {
    let scene = BridgeSetup::talking().await;
    let call = |origin: &'static str| {
        let client = scene.bridge.client().header("origin", origin);
        async move {
            let frame: &[u8] = &[0; 5];
            let answer = client
                .begin(
                    Method::POST,
                    "/lf.a2a.v1.A2AService/ListTasks",
                    "application/grpc",
                    frame,
                )
                .await;
            answer
                .headers()
                .get("grpc-status")
                .map(|code| code.to_str().unwrap().to_owned())
        }
    };
    assert_eq!(call("http://evil.example").await.as_deref(), Some("7"));
    // What is no page says nothing of an origin, and is answered.
    let mut service = A2aServiceClient::connect(scene.bridge.url()).await.unwrap();
    let mut request = tonic::Request::new(ListTasksRequest::default());
    request
        .metadata_mut()
        .insert("a2a-version", "1.0".parse().unwrap());
    service.list_tasks(request).await.unwrap();
}
