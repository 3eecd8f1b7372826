//! The audit log: each decision once, tied together, kept by rotation, and needed where it is required.

use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt as _};

use agentanycast::{ErrorKind, Target};
use agentanycast_proto::v1::{A2aEnvelope, SendTaskPayload, a2a_envelope::Payload};
use agentanycast_tests::{
    DaemonBuilder,
    agent::TestAgent,
    cli::anycast,
    daemon::{Daemon, Home},
    eventually,
    raw_peer::{RawPeer, envelope, message, numbered},
    rpc,
    small_disk::SmallDisk,
    task_assertions::completed,
    within,
};
use http::StatusCode;
use rustix::process::{Signal, kill_process};
use tokio::task::{self, JoinSet};

use crate::setup::{
    PolicySetup, audit_log, audited, is_serving, lines, refusals, rejected, send, wait_ended,
};

fn chained(home: &Home) -> String {
    format!(
        "[policy]\n{}audit_chain = true\naudit_sync = true\n",
        audited(home)
    )
}

fn task(id: &str, skill: &str) -> Payload {
    Payload::SendTask(SendTaskPayload {
        task_id: id.to_owned(),
        message: Some(message("x")),
        target_skill_id: skill.to_owned(),
        ..SendTaskPayload::default()
    })
}

fn acks(heard: &A2aEnvelope, envelope: &str) -> bool {
    matches!(&heard.payload, Some(Payload::Ack(ack)) if ack.acknowledged_envelope_id == envelope)
}

/// Envelopes that come again, on the same stream, on another one and after a reconnect, are no new decisions.
#[tokio::test]
async fn each_decision_is_a_line_once_however_often_it_comes() {
    let scene = PolicySetup::new(|_, home| {
        chained(home) + "[[policy.acl]]\nskill = \"secret\"\nallow = false\n[[policy.acl]]\nallow = true\n"
    })
    .await;
    let stranger = RawPeer::new();
    let envelopes = [
        envelope(task("a", "")),
        envelope(task("b", "secret")),
        numbered(task("c", ""), 7, 1),
        numbered(task("d", "secret"), 7, 2),
    ];
    for _ in 0..3 {
        let link = stranger.dial(scene.guarded.tcp()).await;
        for _ in 0..2 {
            link.send(&envelopes).await;
        }
        for envelope in &envelopes {
            let answers = || {
                link.heard()
                    .iter()
                    .filter(|heard| acks(heard, &envelope.envelope_id))
                    .count()
            };
            eventually("each time it is answered", || async {
                (answers() >= 2).then_some(())
            })
            .await;
        }
    }
    // A line of somebody else is behind them all.
    scene.ask().await.unwrap();
    let lines = lines(&scene.guarded, 5).await;
    let said: Vec<(&str, &str, &str)> = lines
        .iter()
        .map(|line| {
            let field = |name: &str| line[name].as_str().unwrap();
            (field("task"), field("decision"), field("rule"))
        })
        .collect();
    assert_eq!(
        said[..4],
        [
            ("a", "allow", "acl 2"),
            ("b", "deny", "acl 1"),
            ("c", "allow", "acl 2"),
            ("d", "deny", "acl 1"),
        ]
    );
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["source"], stranger.id().to_string());
    assert_eq!(lines[0]["envelope"], envelopes[0].envelope_id);
    let mode = fs::metadata(audit_log(scene.guarded.home()))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// What the agent sends itself is a line too, with the envelope that takes it away.
#[tokio::test]
async fn both_ends_of_a_task_have_a_line_of_it() {
    let scene = PolicySetup::new(|_, home| format!("[policy]\n{}", audited(home))).await;
    let own = scene.guarded.node().await;
    let agent = TestAgent::echo(&scene.node);
    let target = Target::Peer(scene.asker.peer_id().clone());
    let handle = own.send_task(target, "there").await.unwrap();
    completed(&handle).await;
    let line = &lines(&scene.guarded, 1).await[0];
    assert_eq!(
        (&line["source"], &line["transport"]),
        (&"local".into(), &"local".into())
    );
    assert_eq!(line["task"], handle.id());
    assert_eq!(line["target"], scene.asker.peer_id().to_string());
    assert!(!line["envelope"].as_str().unwrap().is_empty());
    drop(agent);
}

#[tokio::test]
async fn a_changed_line_is_found_also_over_restarts_and_rotation() {
    let mut scene = PolicySetup::new(|_, home| chained(home)).await;
    for _ in 0..3 {
        scene.ask().await.unwrap();
    }
    scene.guarded.stop().await;
    scene.guarded.restart().await;
    let own = scene.guarded.node().await;
    let _agent = TestAgent::echo(&own);
    scene.ask().await.unwrap();
    let log = audit_log(scene.guarded.home());
    lines(&scene.guarded, 4).await;
    let old = log.with_extension("jsonl.1");
    fs::rename(&log, &old).unwrap();
    kill_process(scene.guarded.pid(), Signal::HUP).unwrap();
    // The chain is in the new file before anything is decided, for whoever starts next.
    assert_eq!(lines(&scene.guarded, 1).await[0]["decision"], "continued");
    scene.guarded.stop().await;
    scene.guarded.restart().await;
    let own = scene.guarded.node().await;
    let _agent = TestAgent::echo(&own);
    scene.ask().await.unwrap();
    lines(&scene.guarded, 2).await;

    let verify = |files: &[&std::path::Path]| {
        let mut args = vec!["audit".into(), "verify".into()];
        args.extend(files.iter().map(|file| file.as_os_str().to_owned()));
        anycast(args)
    };
    let strictly = |files: &[&std::path::Path]| {
        let mut args = vec!["audit".into(), "verify".into(), "--chained".into()];
        args.extend(files.iter().map(|file| file.as_os_str().to_owned()));
        anycast(args)
    };
    assert!(strictly(&[&old, &log]).status.success());
    let whole = verify(&[&old, &log]);
    assert!(whole.status.success(), "{}", whole.all_output);
    assert!(
        whole.all_output.contains("lines      6") && whole.all_output.contains("chained    6"),
        "{}",
        whole.all_output
    );
    assert!(!verify(&[&log, &old]).status.success(), "in the wrong order");
    let text = fs::read_to_string(&old).unwrap();
    // Without its chain, or emptied: the file after it tells.
    let unchained = text.lines().map(|line| {
        let (rest, _) = line.split_once(",\"prev\"").unwrap();
        format!("{rest}}}\n")
    });
    for instead in [unchained.collect(), String::new()] {
        fs::write(&old, instead).unwrap();
        let broken = verify(&[&old, &log]);
        assert_eq!(broken.status.code(), Some(1), "{}", broken.all_output);
        assert!(
            broken.all_output.contains("line 1: its prev is"),
            "{}",
            broken.all_output
        );
        // By itself only whoever asks for a chain is told.
        assert!(verify(&[&old]).status.success());
        assert_eq!(strictly(&[&old]).status.code(), Some(1));
    }
    let mut edited: Vec<String> = text.lines().map(str::to_owned).collect();
    edited[1] = edited[1].replace("\"allow\"", "\"deny\"");
    fs::write(&old, edited.join("\n") + "\n").unwrap();
    let broken = verify(&[&old, &log]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(broken.all_output.contains("line 3"), "{}", broken.all_output);
}

/// Where the log cannot be opened again, lines go on into the old file: that is told, and nobody is turned away.
#[tokio::test]
async fn a_log_that_cannot_be_opened_again_stops_nothing() {
    let scene = PolicySetup::new(|_, home| {
        let place = home.path().join("logs");
        fs::create_dir(&place).unwrap();
        format!("[policy]\naudit_log_path = {:?}\n", place.join("audit.jsonl"))
    })
    .await;
    scene.ask().await.unwrap();
    let (place, away) = (
        scene.guarded.home().path().join("logs"),
        scene.guarded.home().path().join("away"),
    );
    fs::rename(&place, &away).unwrap();
    kill_process(scene.guarded.pid(), Signal::HUP).unwrap();
    is_serving(&scene.guarded, "audit", false).await;
    scene.ask().await.unwrap();
    eventually("the line is in the old file", || async {
        let text = fs::read_to_string(away.join("audit.jsonl")).unwrap();
        (text.lines().count() == 2).then_some(())
    })
    .await;
    let problems = scene.guarded.metrics().get("/health").await.body["problems"].to_string();
    assert!(problems.contains("cannot be opened again"), "{problems}");
    fs::create_dir(&place).unwrap();
    is_serving(&scene.guarded, "audit", true).await;
    scene.ask().await.unwrap();
    eventually("the line is in the new file", || async {
        let text = fs::read_to_string(place.join("audit.jsonl")).unwrap();
        (text.lines().count() == 1).then_some(())
    })
    .await;
    let old = fs::read_to_string(away.join("audit.jsonl")).unwrap();
    assert_eq!(old.lines().count(), 2);
}

/// The file that was open is deleted, and no other can be made: no line would ever be read.
#[tokio::test]
async fn a_log_that_was_deleted_for_good_shuts_the_door() {
    let scene = PolicySetup::new(|_, home| {
        let place = home.path().join("logs");
        fs::create_dir(&place).unwrap();
        format!("[policy]\naudit_log_path = {:?}\n", place.join("audit.jsonl"))
    })
    .await;
    scene.ask().await.unwrap();
    let place = scene.guarded.home().path().join("logs");
    fs::remove_dir_all(&place).unwrap();
    // The first one finds out.
    scene.ask().await.unwrap();
    is_serving(&scene.guarded, "audit", false).await;
    let reason = eventually("the door is shut", || async { scene.ask().await.err() }).await;
    assert!(rejected(Err(reason)).contains("audit log"));
    fs::create_dir(&place).unwrap();
    is_serving(&scene.guarded, "audit", true).await;
    eventually("the door is open", || async { scene.ask().await.ok() }).await;
    eventually("the lines that were kept are there", || async {
        let text = fs::read_to_string(place.join("audit.jsonl")).unwrap();
        let has = |decision: &str| text.contains(&format!("\"decision\":\"{decision}\""));
        (has("allow") && has("deny")).then_some(())
    })
    .await;
}

/// The disk of the log is full: nobody new comes in, what runs goes on, and when there is room all is well.
#[tokio::test]
async fn a_full_disk_stops_new_tasks_and_nothing_else() {
    for sync in [false, true] {
        let scene = PolicySetup::new(|_, home| {
            std::os::unix::fs::symlink("/dev/full", audit_log(home)).unwrap();
            format!("[policy]\n{}audit_sync = {sync}\n", audited(home))
        })
        .await;
        let log = audit_log(scene.guarded.home());
        // The first one finds out. It was let in before, and goes on.
        assert_eq!(scene.ask().await.unwrap(), "echo: hello");
        is_serving(&scene.guarded, "audit", false).await;
        let reason = eventually("the door is shut", || async { scene.ask().await.err() }).await;
        assert!(rejected(Err(reason)).contains("audit log"));
        let own = scene.guarded.node().await;
        let target = Target::Peer(scene.asker.peer_id().clone());
        let refused = own.send_task(target, "x").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{refused}");
        assert!(scene.guarded.log_tail().contains("No space left"));
        // Nobody should send more here, and what was turned away is counted.
        let watched = scene.guarded.metrics();
        let ready = watched.get("/ready").await;
        assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ready.body["accepts_tasks"], false);
        assert_eq!(watched.get("/health").await.body["status"], "degraded");
        assert!(refusals(&scene.guarded, "unaudited").await >= 2);
        // There is room again.
        fs::remove_file(&log).unwrap();
        kill_process(scene.guarded.pid(), Signal::HUP).unwrap();
        is_serving(&scene.guarded, "audit", true).await;
        eventually("the door is open", || async { scene.ask().await.ok() }).await;
        assert_eq!(watched.get("/ready").await.status, StatusCode::OK);
        // What was decided meanwhile is there, the first one too.
        let lines = lines(&scene.guarded, 3).await;
        assert_eq!(lines[0]["decision"], "allow");
        assert!(lines.iter().any(|line| line["rule"] == "audit log"));
    }
}

/// A real disk that fills up in the middle of a line: the log stays whole, and its chain unbroken.
#[tokio::test]
async fn a_log_on_a_disk_that_fills_up_stays_whole() {
    let home = Home::new();
    let Some(disk) = SmallDisk::mount(&home.path().join("logs"), 16) else {
        return;
    };
    let log = home.path().join("logs/audit.jsonl");
    let settings = format!(
        "[policy]\naudit_log_path = \"{}\"\naudit_chain = true\n",
        log.display()
    );
    let daemon = DaemonBuilder::new(home).config(&settings).start().await;
    let node = daemon.node().await;
    let _agent = TestAgent::echo(&node);
    let target = || Target::Peer(daemon.peer_id().clone());
    completed(&node.send_task(target(), "x").await.unwrap()).await;
    disk.fill(0);
    until_refused(&daemon).await;
    let rpc = daemon.rpc().await;
    let send = || {
        let (mut rpc, task) = (rpc.clone(), rpc::to_peer(daemon.peer_id(), rpc::text("x")));
        async move { rpc.send_task(task).await }
    };
    disk.make_room();
    eventually("there is room again", || async { send().await.ok() }).await;
    is_serving(&daemon, "audit", true).await;
    let verified = anycast([OsStr::new("audit"), OsStr::new("verify"), log.as_os_str()]);
    assert!(verified.status.success(), "{}", verified.all_output);
    assert!(fs::read_to_string(&log).unwrap().contains("audit log"));
}

/// Sends tasks to the node itself until its door is shut; those that were taken. Room for some 2 000 lines is reserved.
async fn until_refused(daemon: &Daemon) -> Vec<String> {
    let rpc = daemon.rpc().await;
    let sender = || {
        let (mut rpc, task) = (rpc.clone(), rpc::to_peer(daemon.peer_id(), rpc::text("x")));
        async move {
            let mut taken = Vec::new();
            loop {
                match rpc.send_task(task.clone()).await {
                    Ok(answer) => taken.push(answer.into_inner().task.unwrap().task_id),
                    Err(refusal) => {
                        assert!(refusal.message().contains("audit log"), "{refusal}");
                        return taken;
                    }
                }
            }
        }
    };
    let mut senders: JoinSet<_> = (0..8).map(|_| sender()).collect();
    let mut taken = Vec::new();
    while let Some(some) = within("the log finds no room", senders.join_next()).await {
        taken.extend(some.unwrap());
    }
    taken
}

/// The disk is full before the daemon starts: nothing is let in without a line, also not the first task.
#[tokio::test]
async fn a_disk_that_is_full_at_the_start_lets_nothing_in() {
    let home = Home::new();
    let Some(disk) = SmallDisk::mount(&home.path().join("logs"), 16) else {
        return;
    };
    disk.fill(0);
    let log = home.path().join("logs/audit.jsonl");
    let settings = format!(
        "[policy]\naudit_log_path = \"{}\"\naudit_chain = true\n",
        log.display()
    );
    let daemon = DaemonBuilder::new(home).config(&settings).metrics().start().await;
    let watched = daemon.metrics();
    let ready = watched.get("/ready").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    let problems = watched.get("/health").await.body["problems"].to_string();
    assert!(problems.contains("no room for more lines"), "{problems}");
    let rpc = daemon.rpc().await;
    let send = || {
        let (mut rpc, task) = (rpc.clone(), rpc::to_peer(daemon.peer_id(), rpc::text("x")));
        async move { rpc.send_task(task).await }
    };
    let refusal = send().await.unwrap_err();
    assert!(refusal.message().contains("audit log"), "{refusal}");
    assert!(!fs::read_to_string(&log).unwrap().contains("\"allow\""));
    disk.make_room();
    is_serving(&daemon, "audit", true).await;
    eventually("the door is open", || async { send().await.ok() }).await;
    eventually("/ready says so", || async {
        (watched.get("/ready").await.status == StatusCode::OK).then_some(())
    })
    .await;
    let lines = fs::read_to_string(&log).unwrap();
    assert!(lines.lines().next().unwrap().contains("\"deny\""), "{lines}");
}

/// The disk fills up while tasks come: of each that was taken the line is on the disk.
#[tokio::test(flavor = "multi_thread")]
async fn no_task_is_taken_without_its_line_while_the_disk_fills_up() {
    let home = Home::new();
    let Some(disk) = SmallDisk::mount(&home.path().join("logs"), 16) else {
        return;
    };
    let log = home.path().join("logs/audit.jsonl");
    let settings = format!(
        "[policy]\naudit_log_path = \"{}\"\naudit_sync = true\n",
        log.display()
    );
    let mut daemon = DaemonBuilder::new(home).config(&settings).start().await;
    let _agent = TestAgent::echo(&daemon.node().await);
    let (taken, ()) = tokio::join!(until_refused(&daemon), async {
        task::block_in_place(|| disk.fill(0));
    });
    assert!(!taken.is_empty());
    daemon.kill().await;
    let lines = fs::read_to_string(&log).unwrap();
    let without: Vec<_> = taken.iter().filter(|id| !lines.contains(id.as_str())).collect();
    assert!(without.is_empty(), "{} of {}", without.len(), taken.len());
}

#[tokio::test]
async fn where_the_log_is_not_required_a_full_disk_stops_nobody() {
    let scene = PolicySetup::new(|_, home| {
        std::os::unix::fs::symlink("/dev/full", audit_log(home)).unwrap();
        format!("[policy]\n{}audit_required = false\n", audited(home))
    })
    .await;
    for _ in 0..5 {
        scene.ask().await.unwrap();
    }
    is_serving(&scene.guarded, "audit", false).await;
    let handle = send(&scene.node, &scene.guarded).await;
    wait_ended(&handle).await.unwrap();
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_ends_the_start() {
    let home = Home::new();
    let settings = format!("[policy]\naudit_log_path = \"{}\"\n", home.path().display());
    let output = DaemonBuilder::new(home).config(&settings).run_to_end().await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().last().unwrap().contains("audit log"), "{said}");
}
