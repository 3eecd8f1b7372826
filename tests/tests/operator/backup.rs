//! A cold copy of a home is a backup: what was there when the daemon had stopped is there again where it is put back.

use std::process::Command;

use agentanycast::Target;
use agentanycast_tests::{
    Daemon,
    agent::TestAgent,
    daemon::{DaemonBuilder, Home},
    daemon_pair::{wait_connected, wait_disconnected},
    within,
};

#[tokio::test]
async fn a_cold_copy_is_put_back_elsewhere() {
    let mut alice = Daemon::builder().start().await;
    let mut bob = Daemon::builder().bootstrap(alice.tcp()).start().await;
    let sender = alice.node().await;
    let agent = TestAgent::echo(&bob.node().await);
    wait_connected(&sender, &bob).await;
    let peer = bob.peer_id().clone();
    let target = || Target::Peer(peer.clone());
    let done = sender.send_task(target(), "done").await.unwrap();
    within("the task ends", done.wait()).await.unwrap();
    drop(agent);
    bob.stop().await;
    wait_disconnected(&sender).await;
    let waiting = sender.send_task(target(), "waiting").await.unwrap();
    let (done, waiting) = (done.id().to_owned(), waiting.id().to_owned());
    let me = alice.peer_id().clone();
    alice.stop().await;

    // As docs/operating.md says: stop, copy key and store.
    let other = Home::new();
    let copied = Command::new("cp")
        .arg("-a")
        .args(["key", "data"].map(|file| alice.home().path().join(file)))
        .arg(other.path())
        .status()
        .unwrap();
    assert!(copied.success());
    drop(alice);

    let alice = DaemonBuilder::new(other).start().await;
    assert_eq!(alice.peer_id(), &me, "the key is the identity");
    let sender = alice.node().await;
    let ended = sender.task_handle(&done).wait().await.unwrap();
    assert_eq!(ended.text_content(), "echo: done");
    let bob = bob
        .stopped()
        .without_bootstrap()
        .bootstrap(alice.tcp())
        .start()
        .await;
    let _agent = TestAgent::echo(&bob.node().await);
    let ended = within("what waited is delivered", sender.task_handle(&waiting).wait())
        .await
        .unwrap();
    assert_eq!(ended.text_content(), "echo: waiting");
}

/// What either node has said since the copy was made, the other one remembers: it must not take what is new for that.
#[tokio::test]
async fn a_copy_of_earlier_takes_and_sends_new_tasks() {
    for (restored, who) in ["sender", "agent"].into_iter().enumerate() {
        let alice = Daemon::builder().start().await;
        let bob = Daemon::builder().bootstrap(alice.tcp()).start().await;
        let peer = bob.peer_id().clone();
        let mut nodes = [alice, bob];
        let ask = async |[alice, bob]: &[Daemon; 2], times: usize| {
            let sender = alice.node().await;
            let _agent = TestAgent::echo(&bob.node().await);
            wait_connected(&sender, bob).await;
            for _ in 0..times {
                let sent = sender
                    .send_task(Target::Peer(peer.clone()), "hello")
                    .await
                    .unwrap();
                let ended = within("the task ends", sent.wait()).await.unwrap();
                assert_eq!(ended.text_content(), "echo: hello", "{who}");
            }
        };
        ask(&nodes, 1).await;
        nodes[restored].stop().await;
        let home = nodes[restored].home().path();
        let (data, copy) = (home.join("data"), home.join("copy"));
        let copied = Command::new("cp")
            .arg("-a")
            .args([&data, &copy])
            .status()
            .unwrap();
        assert!(copied.success());
        nodes[restored].restart().await;
        ask(&nodes, 3).await;
        nodes[restored].stop().await;
        std::fs::remove_dir_all(&data).unwrap();
        std::fs::rename(&copy, &data).unwrap();
        nodes[restored].restart().await;
        ask(&nodes, 5).await;
    }
}
