//! The first hour as README tells it: two people behind NATs of their own, and a relay that their team has. Nothing is
//! configured, and nothing is carried from one to the other but the string of an invite.
//!
//! `deploy/check-packages` runs it with the programs of the installed wheel (`AGENTANYCAST_TEST_ANYCAST`).

use std::{path::Path, process::Stdio};

use agentanycast_tests::{
    User,
    cli::CommandOutput,
    eventually,
    nat::{Internet, NatKind},
    proc_stats::has_ended,
    within,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};

/// A command that succeeds; what it prints.
async fn done(user: &User, args: &[&str]) -> String {
    let CommandOutput {
        status,
        all_output: said,
        stdout: printed,
    } = user.run(args).await;
    assert!(status.success(), "{args:?}: {said}");
    printed
}

/// Ends the daemon of a user as a crash does.
async fn crash(user: &User) {
    let (pid, _) = user.up(&[]).await;
    kill_process(pid, Signal::KILL).unwrap();
    eventually("a killed daemon ends", || async { has_ended(pid).then_some(()) }).await;
}

/// `anycast demo` on the first machine, once its agent listens.
async fn demo(user: &User, relay: &str) -> Child {
    let mut demo = user
        .command(&["demo", "--relay", relay])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let told = within("the demo says how it is reached", async {
        let mut told = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            told = told + &line + "\n";
            if line.contains("Ctrl-C") {
                break;
            }
        }
        told
    });
    let told = told.await;
    assert!(told.contains("anycast invite"), "{told}");
    // Its pipe is kept empty, or it ends.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    demo
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    format!("@{}", path.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_behind_nats_talk_after_three_commands() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let relay = internet.relay.addresses[0].clone();
    let sites = [NatKind::Symmetric, NatKind::Independent].map(|kind| internet.site(kind));
    let [first, second] = [&sites[0], &sites[1]].map(|site| User::default().in_namespace(&site.home));

    // The three commands, and the string.
    let mut demo = demo(&first, &relay).await;
    let invite = done(&first, &["invite"]).await;
    let invite = invite.trim();
    assert_eq!(
        invite.lines().count(),
        1,
        "off a terminal it is one string: {invite}"
    );
    assert_eq!(done(&second, &["send", invite, "hello"]).await, "hello\n");

    // What README goes on with.
    done(&second, &["join", invite, "--as", "bob"]).await;
    let report: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    let file = write(second.directory(), "report.pdf", &report);
    let results = second.directory().join("results");
    let results = results.to_str().unwrap();
    done(&second, &["send", "bob", &file, "--output", results]).await;
    let mut came = std::fs::read_dir(results).unwrap();
    let came = came.next().expect("a file came back").unwrap().path();
    assert_eq!(std::fs::read(came).unwrap(), report);
    let agents = done(&second, &["agents"]).await;
    assert!(agents.contains("echo"), "{agents}");
    let by_skill = done(&second, &["send", "--skill", "echo", "Guten Tag"]).await;
    assert_eq!(by_skill, "Guten Tag\n");
    let tasks = second.ask(&["tasks"]).await;
    let tasks = tasks.as_array().unwrap();
    assert_eq!(tasks.len(), 3, "{tasks:?}");
    for task in tasks {
        let trace = done(&second, &["trace", task["task_id"].as_str().unwrap()]).await;
        assert!(trace.contains("completed"), "{trace}");
    }
    for user in [&first, &second] {
        let doctor = done(user, &["doctor"]).await;
        assert!(doctor.contains("all is well"), "{doctor}");
    }

    // Each daemon falls once; the next command starts it again, and the agent of the demo comes back by itself.
    crash(&second).await;
    assert_eq!(
        done(&second, &["send", "bob", "after a crash here"]).await,
        "after a crash here\n"
    );
    crash(&first).await;
    let told = done(&second, &["send", "bob", "--no-wait", "after a crash there"]).await;
    let waiting = told.trim();
    done(&first, &["agents"]).await;
    let ended = done(&second, &["task", waiting, "--wait"]).await;
    assert!(
        ended.contains("completed") && ended.contains("after a crash there"),
        "{ended}"
    );

    kill_process(Pid::from_raw(demo.id().unwrap() as i32).unwrap(), Signal::INT).unwrap();
    within("Ctrl-C ends the demo", demo.wait()).await.unwrap();
    for user in [&first, &second] {
        done(user, &["down"]).await;
        assert!(!user.is_served());
    }
}

/// A peer that nobody has the key of.
const NOBODY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

/// A node that lets nobody in but by an invite, reached through its relay.
#[tokio::test(flavor = "multi_thread")]
async fn an_invite_lets_one_peer_in_through_a_relay() {
    let Some(internet) = Internet::open().await else {
        return;
    };
    let relay = internet.relay.addresses[0].clone();
    let sites = [(); 3].map(|()| internet.site(NatKind::Symmetric));
    let [first, second, third] = [0, 1, 2].map(|at: usize| User::default().in_namespace(&sites[at].home));
    let rules = format!(
        "[policy]\ntrust = \"known\"\ntrusted_peers = [{NOBODY:?}]\n\n[[policy.acl]]\nsource = {NOBODY:?}\nallow = true\n\n\
         [[policy.acl]]\nsource = \"local\"\nallow = true\n"
    );
    std::fs::create_dir_all(first.home()).unwrap();
    std::fs::write(first.home().join("config.toml"), rules).unwrap();
    let _demo = demo(&first, &relay).await;
    let invite = done(&first, &["invite", "--uses", "1", "--label", "friend"]).await;
    let invite = invite.trim();
    assert_eq!(done(&second, &["send", invite, "hello"]).await, "hello\n");
    // The one use is taken: nobody else gets in, and who is in stays.
    let refused = third.run(&["send", invite, "hello"]).await;
    assert_eq!(refused.status.code(), Some(1), "{}", refused.all_output);
    done(&second, &["join", invite, "--as", "bob"]).await;
    assert_eq!(done(&second, &["send", "bob", "again"]).await, "again\n");
    done(&first, &["invite", "revoke", "friend"]).await;
    let refused = second.run(&["send", "bob", "too late"]).await;
    assert_eq!(refused.status.code(), Some(1), "{}", refused.all_output);
}
