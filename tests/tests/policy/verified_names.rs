//! Names besides keys, between daemons: a did:web by its document, a did:dns by its record, and credentials. Each counts
//! once it is proven, from the first task on, and as long as it is.

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use agentanycast::Node;
use agentanycast_identity::{
    Keypair, PeerId,
    credential::{Grant, StatusEntry, StatusList, Suite},
    did_key_of, document_of, peer_id,
};
use agentanycast_tests::{
    Daemon, DaemonBuilder,
    agent::TestAgent,
    cli::{anycast, anycast_at, anycast_json},
    daemon::Home,
    daemon_pair::wait_connected,
    eventually,
    http::HttpClient,
};

use crate::{
    setup::{audit_log, rejected, send, wait_ended},
    web_server::{TestWebServer, TxtNameServer, WebPage},
};

const DOCUMENT: &str = "/.well-known/did.json";

fn id(daemon: &Daemon) -> PeerId {
    daemon.peer_id().to_string().parse().unwrap()
}

fn page(did: &str, peer: PeerId) -> WebPage {
    WebPage::Text(document_of(did, peer, None).unwrap().to_string())
}

fn allows(source: &str) -> String {
    format!("[[policy.acl]]\nsource = {source:?}\nallow = true\n")
}

/// The daemon that sends tasks, before the one with these settings, which has an agent that echoes.
struct VerifiedNamesSetup {
    asker: Daemon,
    node: Node,
    guarded: Daemon,
    _agent: TestAgent,
}

impl VerifiedNamesSetup {
    async fn new(asker: Daemon, settings: &str) -> Self {
        let guarded = DaemonBuilder::new(Home::new())
            .bootstrap(asker.tcp())
            .config(settings);
        let guarded = guarded.start().await;
        let node = asker.node().await;
        wait_connected(&node, &guarded).await;
        let agent = TestAgent::echo(&guarded.node().await);
        Self {
            asker,
            node,
            guarded,
            _agent: agent,
        }
    }

    async fn ask(&self) -> Result<String, agentanycast::TaskError> {
        wait_ended(&send(&self.node, &self.guarded).await).await
    }
}

async fn named(did: &str) -> Daemon {
    Daemon::builder()
        .bridge()
        .args([format!("--did-web={did}")])
        .start()
        .await
}

/// The document that a node's own bridge serves proves its name, to the first task that it sends.
#[tokio::test]
async fn a_name_of_the_web_is_proven_by_the_document_that_the_bridge_serves() {
    let web = TestWebServer::start().await;
    for path in ["", "/agents/a"] {
        let did = web.did(path);
        let asker = named(&did).await;
        let at = if path.is_empty() {
            DOCUMENT.to_owned()
        } else {
            format!("{path}/did.json")
        };
        let (status, text) = HttpClient::new(format!("http://{}", asker.bridge()))
            .text(&at)
            .await;
        assert_eq!(status, 200, "{text}");
        assert_eq!(
            agentanycast_identity::Document::read(&did, text.as_bytes())
                .unwrap()
                .keys(agentanycast_identity::Use::Authentication)
                .map(|(_, key)| key)
                .collect::<Vec<_>>(),
            [id(&asker)]
        );
        web.put(&at, WebPage::Behind(asker.bridge()));
        let scene = VerifiedNamesSetup::new(asker, &(allows(&did) + &web.known())).await;
        assert_eq!(scene.ask().await.unwrap(), "echo: hello");
    }
}

/// Who sends to a did:web sends to the peer of its document, whatever cards say.
#[tokio::test]
async fn a_task_is_sent_to_a_name_of_the_web() {
    let web = TestWebServer::start().await;
    let did = web.did("");
    let serving = named(&did).await;
    let agent = TestAgent::echo(&serving.node().await);
    let asking = DaemonBuilder::new(Home::new())
        .bootstrap(serving.tcp())
        .config(&web.known());
    let asking = asking.start().await;
    wait_connected(&asking.node().await, &serving).await;
    let said = anycast_at(&asking, &["send", &did, "hello"]).await;
    assert_eq!(
        said.status.code(),
        Some(4),
        "its document is not there: {}",
        said.all_output
    );
    assert!(said.all_output.contains(&did), "{}", said.all_output);
    web.put(DOCUMENT, page(&did, id(&serving)));
    let said = anycast_at(&asking, &["send", &did, "hello"]).await;
    assert!(
        said.status.success() && said.all_output.contains("echo: hello"),
        "{}",
        said.all_output
    );
    drop(agent);
}

#[tokio::test]
async fn a_name_that_is_not_proven_lets_nobody_in() {
    let web = TestWebServer::start().await;
    let did = web.did("");
    let other = peer_id(&Keypair::generate_ed25519());
    let asker = named(&did).await;
    let pages = [
        None,
        Some(page(&did, other)),
        Some(page(&web.did("/agents/b"), id(&asker))),
        Some(WebPage::Text("{".to_owned())),
        Some(WebPage::Endless),
    ];
    drop(asker);
    let settings = allows(&did) + &web.known();
    for page in pages {
        match page.clone() {
            Some(page) => web.put(DOCUMENT, page),
            None => web.remove(DOCUMENT),
        }
        let scene = VerifiedNamesSetup::new(named(&did).await, &settings).await;
        let reason = rejected(scene.ask().await);
        assert!(reason.contains("no rule allows it"), "{page:?}: {reason}");
        eventually("the log says that the name does not count", || async {
            let log = scene.guarded.log_tail();
            let mut lines = log.lines();
            lines
                .any(|line| line.contains("does not count") && line.contains(&did))
                .then_some(())
        })
        .await;
        assert!(web.asked() > 0);
    }
    let asker = named(&did).await;
    web.put(DOCUMENT, page(&did, id(&asker)));
    assert_eq!(
        VerifiedNamesSetup::new(asker, &settings)
            .await
            .ask()
            .await
            .unwrap(),
        "echo: hello"
    );
}

/// The trace at the node that denied a task says what its sender said of itself in vain; the sender is not told.
#[tokio::test]
async fn who_asks_why_a_task_was_denied_sees_which_name_did_not_count() {
    let web = TestWebServer::start().await;
    let did = web.did("");
    web.put(DOCUMENT, page(&did, peer_id(&Keypair::generate_ed25519())));
    let why = format!("{did}: what is published for it does not have the key of this peer");
    let log = Home::new();
    let audited = format!("[policy]\naudit_log_path = \"{}\"\n", audit_log(&log).display());
    for (audit, verdict) in [("", "refused"), (&*audited, "denied")] {
        let settings = format!("{audit}{}{}", allows(&did), web.known());
        let scene = VerifiedNamesSetup::new(named(&did).await, &settings).await;
        let handle = send(&scene.node, &scene.guarded).await;
        let reason = rejected(wait_ended(&handle).await);
        assert_eq!(reason, "not allowed by this node's policy (no rule allows it)");
        let trace = anycast_json(&scene.guarded, &["trace", handle.id()]).await;
        assert_eq!(trace["verdict"], verdict, "{trace}");
        assert_eq!(
            trace["refusals"][0]["unproven"],
            serde_json::json!([why]),
            "{trace}"
        );
        let shown = anycast_at(&scene.guarded, &["trace", handle.id()])
            .await
            .all_output;
        assert!(shown.contains(&why), "{shown}");
        let there = anycast_at(&scene.asker, &["trace", handle.id()]).await.all_output;
        assert!(there.contains(&reason) && !there.contains(&did), "{there}");
    }
}

#[tokio::test]
async fn a_name_ends_with_its_document_and_comes_back_with_it() {
    let web = TestWebServer::start().await;
    let did = web.did("");
    let asker = named(&did).await;
    let me = id(&asker);
    web.put(DOCUMENT, page(&did, me));
    let settings = allows(&did) + "[identity]\ncache_ttl = \"1s\"\n" + &web.known();
    let scene = VerifiedNamesSetup::new(asker, &settings).await;
    scene.ask().await.unwrap();
    web.put(DOCUMENT, page(&did, peer_id(&Keypair::generate_ed25519())));
    eventually("the name is lost", || async {
        scene.ask().await.is_err().then_some(())
    })
    .await;
    web.put(DOCUMENT, page(&did, me));
    eventually("the name counts again", || async { scene.ask().await.ok() }).await;
    assert_eq!(id(&scene.asker), me);
}

/// The document is right at once, and what was believed of it before does not turn the new key away.
#[tokio::test]
async fn a_node_that_has_changed_its_key_keeps_its_name() {
    let web = TestWebServer::start().await;
    let did = web.did("");
    let asker = named(&did).await;
    web.put(DOCUMENT, page(&did, id(&asker)));
    let mut scene = VerifiedNamesSetup::new(asker, &(allows(&did) + &web.known())).await;
    assert_eq!(scene.ask().await.unwrap(), "echo: hello");
    scene.asker.stop().await;
    let home = scene.asker.home().path().as_os_str().to_owned();
    let rotated = anycast([OsString::from("--home"), home, "key".into(), "rotate".into()]);
    assert!(rotated.status.success(), "{}", rotated.all_output);
    let key = agentanycast_identity::load_or_create(&scene.asker.home().path().join("key")).unwrap();
    web.put(DOCUMENT, page(&did, peer_id(&key)));
    scene.asker.restart().await;
    assert_eq!(id(&scene.asker), peer_id(&key));
    scene.node = scene.asker.node().await;
    wait_connected(&scene.node, &scene.guarded).await;
    assert_eq!(scene.ask().await.unwrap(), "echo: hello");
}

/// A card makes nobody connect to hosts behind it.
#[tokio::test]
async fn private_hosts_are_not_asked_unless_that_is_allowed() {
    let web = TestWebServer::start().await;
    let did = web.did("");
    let asker = named(&did).await;
    web.put(DOCUMENT, page(&did, id(&asker)));
    let scene = VerifiedNamesSetup::new(asker, &allows(&did)).await;
    rejected(scene.ask().await);
    assert_eq!(web.asked(), 0);
    let scene = VerifiedNamesSetup::new(scene.asker, &(allows(&did) + &web.known())).await;
    assert_eq!(scene.ask().await.unwrap(), "echo: hello");
}

/// Without rules that ask for names nobody is asked about them.
#[tokio::test]
async fn names_that_no_rule_asks_for_are_not_looked_up() {
    let web = TestWebServer::start().await;
    let did = web.did("");
    let scene = VerifiedNamesSetup::new(named(&did).await, &(allows("*") + &web.known())).await;
    scene.ask().await.unwrap();
    assert_eq!(web.asked(), 0);
}

#[tokio::test]
async fn a_domain_names_its_peers() {
    let names = TxtNameServer::start().await;
    let asker = || Daemon::builder().args(["--did-dns=agents.example.org"]);
    let settings = format!(
        "{}[identity]\nname_server = \"{}\"\n",
        allows("did:dns:agents.example.org"),
        names.address()
    );
    let scene = VerifiedNamesSetup::new(asker().start().await, &settings).await;
    rejected(scene.ask().await);
    let other = did_key_of(peer_id(&Keypair::generate_ed25519())).unwrap();
    names.put("_did.agents.example.org", &format!("did={other}"));
    let scene = VerifiedNamesSetup::new(asker().start().await, &settings).await;
    rejected(scene.ask().await);
    let asker = asker().start().await;
    let own = did_key_of(id(&asker)).unwrap();
    names.put("_did.agents.example.org", &format!("did={own}"));
    let scene = VerifiedNamesSetup::new(asker, &settings).await;
    assert_eq!(scene.ask().await.unwrap(), "echo: hello");
}

/// What a name denies is denied from the first task on, however long it takes to prove it; nobody else waits.
#[tokio::test]
async fn a_name_that_is_denied_is_waited_for() {
    let names = TxtNameServer::start_slow(Duration::from_secs(1)).await;
    let asker = Daemon::builder()
        .args(["--did-dns=bad.example.org"])
        .start()
        .await;
    let own = did_key_of(id(&asker)).unwrap();
    names.put("_did.bad.example.org", &format!("did={own}"));
    let settings = format!(
        "[[policy.acl]]\nsource = \"did:dns:bad.example.org\"\nallow = false\n{}[identity]\nname_server = \"{}\"\n",
        allows("*"),
        names.address()
    );
    let scene = VerifiedNamesSetup::new(asker, &settings).await;
    rejected(scene.ask().await);
    let other = Daemon::builder().start().await;
    let node = other.node().await;
    node.connect_peer(scene.guarded.peer_id(), [scene.guarded.tcp()])
        .await
        .unwrap();
    assert_eq!(
        wait_ended(&send(&node, &scene.guarded).await).await.unwrap(),
        "echo: hello"
    );
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    now.as_millis() as u64
}

/// A home with a key and a credential about it.
fn with_credential(
    grant: impl FnOnce(String) -> Grant,
    issuer: &Keypair,
    suite: Suite,
) -> (DaemonBuilder, PathBuf) {
    let home = Home::new();
    let key = agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
    let grant = grant(did_key_of(peer_id(&key)).unwrap());
    let path = home.path().join("credential.json");
    fs::write(&path, grant.sign(issuer, suite, now()).unwrap().to_string()).unwrap();
    let settings = format!("[identity]\ncredentials = [\"{}\"]\n", path.display());
    (DaemonBuilder::new(home).config(&settings), path)
}

#[tokio::test]
async fn a_credential_of_a_trusted_issuer_vouches_for_its_subject() {
    let web = TestWebServer::start().await;
    let [trusted, other] = [(); 2].map(|()| Keypair::generate_ed25519());
    let issuer = did_key_of(peer_id(&trusted)).unwrap();
    let settings = format!(
        "[policy]\ntrust = \"known\"\ntrusted_issuers = [{issuer:?}]\n{}",
        web.known()
    );
    let grant = |by: &Keypair, status: Option<usize>| {
        let issuer = did_key_of(peer_id(by)).unwrap();
        let list = web.url("/status");
        move |subject| Grant {
            id: String::new(),
            issuer,
            subject,
            capabilities: vec!["echo".to_owned()],
            from_ms: now() - 10_000,
            until_ms: Some(now() + 3_600_000),
            status: status.map(|index| StatusEntry {
                list,
                index,
                purpose: "revocation".to_owned(),
            }),
        }
    };
    let mut taken_back = StatusList::new("revocation");
    taken_back.set(7);
    let list = taken_back.sign(&web.url("/status"), &issuer, &trusted, now(), 3_600_000);
    web.put("/status", WebPage::Text(list.unwrap().to_string()));
    let cases = [
        (&trusted, Suite::EddsaJcs2022, None, true),
        (&trusted, Suite::Ed25519Signature2020, None, true),
        (&other, Suite::EddsaJcs2022, None, false),
        (&trusted, Suite::EddsaJcs2022, Some(6), true),
        (&trusted, Suite::EddsaJcs2022, Some(7), false),
    ];
    for (by, suite, status, counts) in cases {
        let (asker, _) = with_credential(grant(by, status), by, suite);
        let scene = VerifiedNamesSetup::new(asker.start().await, &settings).await;
        let outcome = scene.ask().await;
        if counts {
            assert_eq!(outcome.unwrap(), "echo: hello");
        } else {
            assert!(rejected(outcome).contains("peers that it knows only"));
            let log = scene.guarded.log_tail();
            assert_eq!(log.contains("was taken back"), status.is_some(), "{log}");
        }
    }
    // Without any, and with another one's.
    let scene = VerifiedNamesSetup::new(Daemon::builder().start().await, &settings).await;
    rejected(scene.ask().await);
    let foreign =
        |_| grant(&trusted, None)("did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH".to_owned());
    let (asker, path) = with_credential(foreign, &trusted, Suite::EddsaJcs2022);
    let ended = asker.run_to_end().await;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        !ended.status.success() && said.contains(&path.display().to_string()),
        "{said}"
    );
}

/// Whoever would not be believed is told at the start, and starts.
#[tokio::test]
async fn a_credential_of_ones_own_that_convinces_nobody_is_told() {
    let issuer = Keypair::generate_ed25519();
    let grant = |from_ms, until_ms| {
        let issuer = did_key_of(peer_id(&issuer)).unwrap();
        move |subject| Grant {
            id: String::new(),
            issuer,
            subject,
            capabilities: vec!["echo".to_owned()],
            from_ms,
            until_ms: Some(until_ms),
            status: None,
        }
    };
    let hour = 3_600_000;
    for (from, until, changed, why) in [
        (now() - hour, now() + hour, false, None),
        (now() - hour, now() - 1, false, Some("expired")),
        (now() + hour, now() + 2 * hour, false, Some("counts from")),
        (now() - hour, now() + hour, true, Some("signature does not hold")),
    ] {
        let (spec, path) = with_credential(grant(from, until), &issuer, Suite::EddsaJcs2022);
        if changed {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace("\"echo\"", "\"admin\"")).unwrap();
        }
        let log = spec.start().await.log_tail();
        let told = log.lines().find(|line| line.contains("convinces nobody now"));
        let said =
            |why: &str| told.is_some_and(|line| line.contains(why) && line.contains(path.to_str().unwrap()));
        assert!(why.map_or(told.is_none(), said), "{why:?}: {log}");
    }
}
