//! A node that changes its key, between daemons: tasks that wait go on, rules for the old key let the new one in, and a
//! key that nobody has signed over gets nothing.

use std::ffi::OsString;

use agentanycast::{Artifact, Target};
use agentanycast_identity::{Keypair, PeerId, rotation::Rotation};
use agentanycast_tests::{
    Daemon, DaemonBuilder,
    agent::TestAgent,
    cli::{anycast, anycast_at, anycast_json},
    daemon::Home,
    daemon_pair::wait_connected,
    task_assertions::completed,
};

use crate::setup::{audited, lines, rejected, send, wait_ended};

fn rotate(daemon: &Daemon) {
    let home = daemon.home().path().as_os_str().to_owned();
    let args = ["--home".into(), home, "key".into(), "rotate".into()];
    let done = anycast(args.to_vec());
    assert!(done.status.success(), "{}", done.all_output);
}

/// The same home with whatever key is in it now.
async fn again(daemon: &mut Daemon) {
    daemon.stop().await;
    rotate(daemon);
    let before = daemon.peer_id().clone();
    let spec = daemon.stopped();
    *daemon = spec.start().await;
    assert_ne!(daemon.peer_id(), &before);
}

#[tokio::test]
async fn tasks_that_wait_go_on_under_the_new_key() {
    let bob = Daemon::builder().start().await;
    let mut alice = Daemon::builder().bootstrap(bob.tcp()).start().await;
    let (at_alice, at_bob) = (alice.node().await, bob.node().await);
    wait_connected(&at_alice, &bob).await;
    // One task each way; nobody works on them yet, and the second comes while Alice is away.
    let hers = send(&at_alice, &bob).await;
    alice.stop().await;
    let was = alice.peer_id().clone();
    let old = Target::Peer(was.clone());
    let his = at_bob.send_task(old.clone(), "for alice").await.unwrap();
    rotate(&alice);
    let spec = alice.stopped();
    alice = spec.start().await;
    let at_alice = alice.node().await;
    wait_connected(&at_alice, &bob).await;
    let _bobs = TestAgent::echo(&at_bob);
    let _alices = TestAgent::serve(&at_alice, |task| async move {
        task.complete([Artifact::text("from alice")]).await?;
        Ok(())
    });
    assert_eq!(completed(&his).await.text_content(), "from alice");
    let hers = at_alice.task_handle(hers.id());
    assert_eq!(completed(&hers).await.text_content(), "echo: hello");
    // What happened before has the name of then, and where the names change is said.
    let trace = anycast_json(&bob, &["trace", his.id()]).await;
    let said = |kind: &str| {
        let steps = trace["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["kind"] == kind);
        step.unwrap_or_else(|| panic!("no {kind} in {trace}"))["what"].to_string()
    };
    assert!(said("sent").contains(&format!("accepted for {was}")), "{trace}");
    assert!(
        said("new-key").contains(was.as_ref()) && said("new-key").contains(alice.peer_id().as_ref()),
        "{trace}"
    );
    assert!(said("acknowledged").contains(alice.peer_id().as_ref()), "{trace}");
    assert_eq!(trace["peer_before"][0]["peer_id"], was.to_string());
    let card = anycast_at(&bob, &["card", was.as_ref()]).await;
    assert!(
        card.all_output.contains(alice.peer_id().as_ref()),
        "{}",
        card.all_output
    );
    // Bob still knows her by the old name.
    let next = at_bob.send_task(old, "again").await.unwrap();
    assert_eq!(completed(&next).await.text_content(), "from alice");
    // And again, twice removed.
    again(&mut alice).await;
    let at_alice = alice.node().await;
    wait_connected(&at_alice, &bob).await;
    assert_eq!(
        wait_ended(&send(&at_alice, &bob).await).await.unwrap(),
        "echo: hello"
    );
}

/// A node that knows nobody, and changes its key while it is away: whoever looks for it where it was finds it.
#[tokio::test]
async fn a_node_is_found_under_its_new_key_where_it_was() {
    let mut bob = Daemon::builder().start().await;
    let alice = Daemon::builder().bootstrap(bob.tcp()).start().await;
    let at_alice = alice.node().await;
    wait_connected(&at_alice, &bob).await;
    bob.stop().await;
    let waits = send(&at_alice, &bob).await;
    rotate(&bob);
    let before = bob.peer_id().clone();
    bob.restart().await;
    assert_ne!(bob.peer_id(), &before);
    let _agent = TestAgent::echo(&bob.node().await);
    assert_eq!(completed(&waits).await.text_content(), "echo: hello");
    // What the settings have is the old key: that is said, once.
    let log = alice.log_tail();
    let said: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("has another key now"))
        .collect();
    assert!(
        said.len() == 1 && said[0].contains(before.as_ref()) && said[0].contains(bob.peer_id().as_ref()),
        "{log}"
    );
}

#[tokio::test]
async fn rules_for_the_old_key_let_the_new_one_in() {
    for settings in [
        "[[policy.acl]]\nsource = \"ID\"\nallow = true\n",
        "[policy]\ntrust = \"pinned\"\ntrusted_peers = [\"ID\"]\n",
    ] {
        let mut asker = Daemon::builder().start().await;
        let was = asker.peer_id().to_string();
        let home = Home::new();
        let audit = audited(&home);
        let settings = if settings.starts_with("[policy]") {
            settings.replace("ID", &was) + &audit
        } else {
            format!("[policy]\n{audit}{}", settings.replace("ID", &was))
        };
        again(&mut asker).await;
        let guarded = DaemonBuilder::new(home).bootstrap(asker.tcp()).config(&settings);
        let guarded = guarded.start().await;
        let _agent = TestAgent::echo(&guarded.node().await);
        let node = asker.node().await;
        wait_connected(&node, &guarded).await;
        assert_eq!(
            wait_ended(&send(&node, &guarded).await).await.unwrap(),
            "echo: hello"
        );
        // As whom it came is in the audit log.
        let line = lines(&guarded, 1).await.remove(0);
        assert_eq!(line["source"], asker.peer_id().as_ref());
        assert_eq!(line["as"], was, "{line}");
        // Another node that shows the same statement, or one that the old key has not signed, is nobody.
        let statement = agentanycast_identity::rotations_path(&asker.home().path().join("key"));
        for stolen in [true, false] {
            let home = Home::new();
            let key = agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
            let mut bytes = std::fs::read(&statement).unwrap();
            if !stolen {
                let own = Rotation::sign(&Keypair::generate_ed25519(), &key, 1)
                    .unwrap()
                    .to_bytes();
                bytes = own;
            }
            std::fs::write(home.path().join("key.rotations"), bytes).unwrap();
            let thief = DaemonBuilder::new(home).bootstrap(guarded.tcp()).start().await;
            let node = thief.node().await;
            wait_connected(&node, &guarded).await;
            rejected(wait_ended(&send(&node, &guarded).await).await);
            // A copied file may be a mistake, so the node says that it is of no use.
            let warned = thief
                .log_tail()
                .contains("no statement in it leads to this node's key");
            assert_eq!(warned, stolen, "{}", thief.log_tail());
        }
    }
}

/// Others have followed the new key: with the old one the node would be nobody to them, and lose its tasks.
#[tokio::test]
async fn an_old_key_that_was_put_back_is_refused() {
    let mut daemon = Daemon::builder().start().await;
    let was = daemon.peer_id().to_string();
    again(&mut daemon).await;
    let is = daemon.peer_id().to_string();
    daemon.stop().await;
    let key = daemon.home().path().join("key");
    let new = std::fs::read(&key).unwrap();
    std::fs::copy(daemon.home().path().join("key.old"), &key).unwrap();
    let ended = daemon.stopped().run_to_end().await;
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let args = [
        "key".as_ref(),
        "rotate".as_ref(),
        "--key".as_ref(),
        key.as_os_str(),
    ];
    let rotated = anycast(args);
    assert_eq!(rotated.status.code(), Some(1));
    for said in [said, rotated.all_output] {
        assert!(said.contains(&key.display().to_string()), "{said}");
        let why = format!("is the key of {was}, which was replaced by that of {is}");
        assert!(
            said.contains(&why) && said.contains(&format!("put the key of {is} back")),
            "{said}"
        );
    }
    std::fs::write(&key, new).unwrap();
    daemon.restart().await;
    assert_eq!(daemon.peer_id().to_string(), is);
}

/// Each change is followed by a node that is up for all of them, and that is remembered when it is restarted: whoever has kept
/// a key that was changed comes first then, and is nobody all the same, be it as that key or as another one after it.
#[tokio::test]
async fn what_was_followed_is_remembered() {
    let home = Home::new();
    let first = agentanycast_identity::load_or_create(&home.path().join("key")).unwrap();
    let settings = format!(
        "[policy]\ntrust = \"pinned\"\ntrusted_peers = [\"{}\"]\n",
        agentanycast_identity::peer_id(&first)
    );
    let mut guarded = DaemonBuilder::new(Home::new()).config(&settings).start().await;
    let mut agent = TestAgent::echo(&guarded.node().await);
    let mut owner = DaemonBuilder::new(home).bootstrap(guarded.tcp()).start().await;
    let mut stolen = Vec::new();
    for _ in 0..3 {
        let node = owner.node().await;
        wait_connected(&node, &guarded).await;
        assert_eq!(
            wait_ended(&send(&node, &guarded).await).await.unwrap(),
            "echo: hello"
        );
        let key = owner.home().path().join("key");
        stolen = [&key, &agentanycast_identity::rotations_path(&key)]
            .map(|path| std::fs::read(path).unwrap_or_default())
            .to_vec();
        again(&mut owner).await;
    }
    let node = owner.node().await;
    wait_connected(&node, &guarded).await;
    assert_eq!(
        wait_ended(&send(&node, &guarded).await).await.unwrap(),
        "echo: hello"
    );
    let log = guarded.log_tail();
    assert!(!log.contains("two peers say"), "{log}");
    owner.stop().await;
    drop(agent);
    guarded.stop().await;
    guarded.restart().await;
    agent = TestAgent::echo(&guarded.node().await);

    let home = Home::new();
    let key = home.path().join("key");
    agentanycast_identity::load_or_create(&key).unwrap();
    std::fs::write(&key, &stolen[0]).unwrap();
    std::fs::write(agentanycast_identity::rotations_path(&key), &stolen[1]).unwrap();
    let mut thief = DaemonBuilder::new(home).bootstrap(guarded.tcp()).start().await;
    for rotates in [false, true] {
        if rotates {
            again(&mut thief).await;
        }
        let at_thief = thief.node().await;
        wait_connected(&at_thief, &guarded).await;
        rejected(wait_ended(&send(&at_thief, &guarded).await).await);
    }
    owner.restart().await;
    let node = owner.node().await;
    wait_connected(&node, &guarded).await;
    assert_eq!(
        wait_ended(&send(&node, &guarded).await).await.unwrap(),
        "echo: hello"
    );
    drop(agent);
}

/// The key of a daemon that runs is not changed under it.
#[tokio::test]
async fn a_running_daemon_keeps_its_key() {
    let daemon = Daemon::builder().start().await;
    let home = daemon.home().path().as_os_str().to_owned();
    // Also where the command does not know how the daemon is reached, as with the one of a package.
    let elsewhere = Home::new();
    let key = daemon.home().path().join("key").into_os_string();
    let by_file: [OsString; 6] = [
        "--home".into(),
        elsewhere.path().into(),
        "key".into(),
        "rotate".into(),
        "--key".into(),
        key,
    ];
    for args in [
        vec!["--home".into(), home, "key".into(), "rotate".into()],
        by_file.to_vec(),
    ] {
        let done = anycast(args);
        assert!(
            !done.status.success() && done.all_output.contains("stop it"),
            "{}",
            done.all_output
        );
    }
    let key = agentanycast_identity::load(&daemon.home().path().join("key"))
        .unwrap()
        .unwrap();
    let me: PeerId = daemon.peer_id().to_string().parse().unwrap();
    assert_eq!(agentanycast_identity::peer_id(&key), me);
}
