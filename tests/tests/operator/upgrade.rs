//! An upgrade: the homes of two daemons of an older version, each with its key and its store, are gone on with by
//! today's daemons, and no task is lost.
//!
//! `tests/fixtures/homes-*.tar.gz` were written by older commits' daemons. `deploy/check-upgrade COMMIT` does the same with any
//! commit's release daemon, such as that of `HEAD~1`, and keeps nothing. To keep one, build the daemon of that commit and run,
//! with its path,
//! `AGENTANYCAST_OLD_DAEMON=… cargo test --workspace --test operator -- --include-ignored write_a_fixture`:
//! it writes `tests/fixtures/homes-VERSION.tar.gz`, under the version that the daemon says; they are called after their commits.
//! `AGENTANYCAST_HOMES` names another directory for both tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use agentanycast::{AgentCard, Artifact, Node, Skill, Target, TaskHandle};
use agentanycast_proto::v1::{
    AgentAccess, RegisterAgentRequest, SetAgentAccessRequest, agent_service_client::AgentServiceClient,
};
use agentanycast_tests::{
    Daemon,
    agent::TestAgent,
    cli::anycast_at,
    daemon::{DaemonBuilder, Home},
    daemon_pair::{wait_connected, wait_disconnected},
    eventually, rpc, within,
};
use futures::future::join_all;
use serde_json::{Value, json};

/// So that what waits, and what has ended, is still there years later.
const SETTINGS: &str = "offline_queue_ttl = \"0\"\ntask_retention = \"876000h\"\n";

/// Larger than what a record of a task holds, and than what an entry of a queue does.
const LARGE: usize = 300_000;

/// So many at a time, and so long, that a daemon keeps segments of its journal for them.
const AT_ONCE: usize = 32;
const VERY_LARGE: usize = 1_000_000;

/// As often at most: a daemon may be of before such segments.
const TIMES: usize = 8;

/// Segments that are there at once without one that is kept.
const SEGMENTS: usize = 3;

/// What the agent streams.
const STREAMED: usize = 200_000;

fn fixtures() -> PathBuf {
    std::env::var_os("AGENTANYCAST_HOMES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"),
        PathBuf::from,
    )
}

fn large() -> String {
    "0123456789".repeat(LARGE / 10)
}

fn very_large() -> String {
    "0123456789".repeat(VERY_LARGE / 10)
}

/// Sends very large tasks of the daemon to itself until it keeps segments of its journal. Their ids.
async fn send_very_large(daemon: &Daemon) -> Vec<String> {
    let journal = daemon.home().path().join("data/journal");
    let keeps_segments = || fs::read_dir(&journal).is_ok_and(|segments| segments.count() > SEGMENTS);
    let what = very_large();
    let connections = join_all((0..AT_ONCE).map(|_| daemon.rpc())).await;
    let senders = connections.into_iter().map(async |mut rpc| {
        let mut sent = Vec::new();
        while sent.len() < TIMES && !keeps_segments() {
            sent.push(rpc::send(&mut rpc, daemon.peer_id(), &what).await.task_id);
        }
        sent
    });
    join_all(senders).await.concat()
}

fn streamed() -> Vec<u8> {
    (0..STREAMED).map(|place| (place % 251) as u8).collect()
}

/// Echoes; what is asked to stream streams instead.
fn agent(node: &Node) -> TestAgent {
    TestAgent::serve(node, |task| async move {
        let asked = task.message().text_content();
        if asked == "stream" {
            let mut artifact = task.stream_artifact("bytes", "").await?;
            artifact.write(streamed()).await?;
            artifact.finish().await?;
            task.complete([]).await?;
        } else {
            task.complete([Artifact::text(format!("echo: {asked}"))]).await?;
        }
        Ok(())
    })
}

fn tar(args: &[&str], archive: &Path) {
    let status = Command::new("tar")
        .args(args)
        .arg("-f")
        .arg(archive)
        .status()
        .unwrap();
    assert!(status.success(), "tar ended with {status}");
}

async fn goes_on(archive: &Path) {
    let shown = archive.display();
    let place = tempfile::tempdir().unwrap();
    tar(&["-xz", "-C", place.path().to_str().unwrap()], archive);
    let written: Value =
        serde_json::from_slice(&fs::read(place.path().join("written.json")).unwrap()).unwrap();
    let daemon = |name: &str| {
        let home = Home::new();
        for file in ["key", "data"] {
            fs::rename(place.path().join(name).join(file), home.path().join(file)).unwrap();
        }
        DaemonBuilder::new(home).config(SETTINGS)
    };
    let alice = daemon("alice").start().await;
    let bob = daemon("bob").bootstrap(alice.tcp()).start().await;
    for (daemon, name) in [(&alice, "alice"), (&bob, "bob")] {
        assert_eq!(
            daemon.peer_id().to_string(),
            written[name].as_str().unwrap(),
            "{shown}"
        );
        assert!(
            !daemon.log_tail().contains("damaged"),
            "{shown}: {}",
            daemon.log_tail()
        );
    }
    let (sender, receiver) = (alice.node().await, bob.node().await);
    wait_connected(&sender, &bob).await;
    let handle = |name: &str| sender.task_handle(written[name].as_str().unwrap());

    // What had ended is as it was.
    let done = within("a task that had ended", handle("done").wait())
        .await
        .unwrap();
    assert_eq!(done.text_content(), "echo: done", "{shown}");
    let bytes = stream_of(&handle("streamed")).await;
    assert!(bytes == streamed(), "{shown}: {} bytes", bytes.len());
    let card = sender.card_of(bob.peer_id()).await.unwrap();
    assert_eq!(card.name, "an old agent", "{shown}");

    // Older fixtures have none of these.
    for id in written["very_large"].as_array().into_iter().flatten() {
        let task = sender.task_handle(id.as_str().unwrap()).snapshot().await.unwrap();
        assert!(task.messages[0].text_content() == very_large(), "{shown}: {id}");
    }

    // What had not ended ends now, and once: what was there, and what waited in the queue.
    let _agent = agent(&receiver);
    for (name, answer) in [
        ("open", "echo: open".to_owned()),
        ("queued", "echo: queued".to_owned()),
        ("large", format!("echo: {}", large())),
    ] {
        let task = within(name, handle(name).wait()).await.unwrap();
        assert!(task.text_content() == answer, "{shown}: {name}");
        assert_eq!(task.artifacts.len(), 1, "{shown}: {name}");
    }
    // And the mesh is as good as new.
    let target = Target::Peer(bob.peer_id().clone());
    let new = sender.send_task(target, "new").await.unwrap();
    assert_eq!(
        within("a new task", new.wait()).await.unwrap().text_content(),
        "echo: new"
    );
}

async fn stream_of(handle: &TaskHandle) -> Vec<u8> {
    let task = within("a task that had ended", handle.wait()).await.unwrap();
    within("its artifact", handle.read_artifact(task.artifacts[0].id.clone()))
        .await
        .unwrap()
}

#[tokio::test]
async fn stores_of_older_versions_go_on() {
    let mut archives: Vec<PathBuf> = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".tar.gz"))
        .collect();
    archives.sort();
    assert!(!archives.is_empty());
    for archive in archives {
        goes_on(&archive).await;
    }
}

#[tokio::test]
#[ignore = "writes a fixture; see the text of the file"]
async fn write_a_fixture() {
    let Ok(program) = std::env::var("AGENTANYCAST_OLD_DAEMON") else {
        eprintln!("SKIPPED: AGENTANYCAST_OLD_DAEMON names no daemon of an older version");
        return;
    };
    let daemon = || Daemon::builder().program(&program).config(SETTINGS);
    let mut alice = daemon().start().await;
    let mut bob = daemon().bootstrap(alice.tcp()).start().await;
    let (sender, receiver) = (alice.node().await, bob.node().await);
    let version = sender.info().await.unwrap().version;
    receiver
        .set_card(AgentCard::new("an old agent", "of a test").with_skill(Skill::new("echo", "echoes")))
        .await
        .unwrap();
    wait_connected(&sender, &bob).await;
    let send = async |text: &str| {
        let target = Target::Peer(bob.peer_id().clone());
        sender.send_task(target, text).await.unwrap()
    };
    let serving = agent(&receiver);
    let done = send("done").await;
    within("done", done.wait()).await.unwrap();
    let stream = send("stream").await;
    assert!(stream_of(&stream).await == streamed());
    drop(serving);
    eventually("nobody listens", || async {
        (receiver.info().await.unwrap().agent_listening == Some(false)).then_some(())
    })
    .await;
    let open = send("open").await;
    let there = receiver.task_handle(open.id());
    eventually("it is there", || async { there.snapshot().await.ok() }).await;
    drop(receiver);
    bob.stop().await;
    wait_disconnected(&sender).await;
    let target = || Target::Peer(bob.peer_id().clone());
    let queued = sender.send_task(target(), "queued").await.unwrap();
    let large = sender.send_task(target(), large().as_str()).await.unwrap();
    let very_large = send_very_large(&alice).await;
    // As a crash leaves it: the journal is not taken into the database yet.
    alice.kill().await;

    let place = tempfile::tempdir().unwrap();
    for (daemon, name) in [(&alice, "alice"), (&bob, "bob")] {
        fs::create_dir(place.path().join(name)).unwrap();
        for file in ["key", "data"] {
            fs::rename(
                daemon.home().path().join(file),
                place.path().join(name).join(file),
            )
            .unwrap();
        }
    }
    let written = json!({
        "alice": alice.peer_id().to_string(), "bob": bob.peer_id().to_string(),
        "done": done.id(), "streamed": stream.id(), "open": open.id(), "queued": queued.id(), "large": large.id(),
        "very_large": very_large,
    });
    fs::write(place.path().join("written.json"), written.to_string()).unwrap();
    fs::create_dir_all(fixtures()).unwrap();
    let archive = fixtures().join(format!("homes-{version}.tar.gz"));
    tar(
        &[
            "-cz",
            "--sparse",
            "-C",
            place.path().to_str().unwrap(),
            "alice",
            "bob",
            "written.json",
        ],
        &archive,
    );
}

/// The home of `agent-of-before-1390b90.tgz`, whose agent `worker` was registered by `anycast run` before agents could be private.
#[tokio::test]
async fn an_agent_of_before_stays_open_until_it_is_closed() {
    let place = tempfile::tempdir().unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/agent-of-before-1390b90.tgz");
    tar(&["-xz", "-C", place.path().to_str().unwrap()], &archive);
    let home = Home::new();
    for file in ["key", "data"] {
        fs::rename(place.path().join("bob").join(file), home.path().join(file)).unwrap();
    }
    let owner = DaemonBuilder::new(home).start().await;
    let close = "agents set worker --private";
    assert!(owner.log_tail().contains(close), "{}", owner.log_tail());
    let doctor = async || anycast_at(&owner, &["doctor"]).await.stdout;
    let told = "every peer may use it, since it was registered before agents could be private";
    let said = doctor().await;
    assert!(said.contains(told) && said.contains(close), "{said}");
    let stranger = Daemon::builder().bootstrap(owner.tcp()).start().await;
    let sender = stranger.node().await;
    wait_connected(&sender, &owner).await;
    let channel = rpc::channel(owner.grpc()).await.unwrap();
    let mut agents = AgentServiceClient::new(channel);
    // Its program comes again, as `anycast run` does.
    let register = RegisterAgentRequest {
        name: "worker".to_owned(),
        card: Some(agentanycast_proto::v1::AgentCard {
            name: "worker".to_owned(),
            ..Default::default()
        }),
        access: AgentAccess::Default.into(),
        ..RegisterAgentRequest::default()
    };
    let registered = agents.register_agent(register).await.unwrap().into_inner();
    assert_eq!(registered.access(), AgentAccess::Unspecified, "it is as it was");
    let node = owner.node().await;
    let _worker = TestAgent::run(node.agent("worker").serve(|task| async move {
        task.complete([Artifact::text("done")]).await?;
        Ok(())
    }));
    let asks = async || {
        let target = Target::Peer(owner.peer_id().clone());
        let sent = sender.task(target, "hello").agent("worker").send().await.unwrap();
        within("the task ends", sent.wait()).await
    };
    assert_eq!(asks().await.unwrap().text_content(), "done");
    let set = SetAgentAccessRequest {
        name: "worker".to_owned(),
        access: AgentAccess::Private.into(),
    };
    agents.set_agent_access(set).await.unwrap();
    let refused = asks().await.unwrap_err().to_string();
    assert!(refused.contains("agent worker is private"), "{refused}");
    let said = doctor().await;
    assert!(!said.contains("every peer may use"), "{said}");
}
