//! What others say about themselves and about tasks, as the command prints it: it begins no line of its own
//! and does not drive the terminal, in words and as JSON.

use agentanycast::{AgentCard, Skill, Target};
use agentanycast_tests::{
    DaemonPair, TransportKind, agent::TestAgent, cli::anycast_at, task_assertions::not_completed,
};

/// A name, a description, a reason: with all that ends a line, colours it, or turns it around.
const FOREIGN: &str = "foreign\nforged\u{1b}[2J\rforged\u{85}forged\u{2028}forged\u{202e}";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_others_say_begins_a_line_or_drives_the_terminal() {
    let pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = (pair.alice.node().await, pair.bob.node().await);
    let skill = Skill::new("skill", FOREIGN).with_tag("tag", FOREIGN);
    let card = AgentCard::new(FOREIGN, FOREIGN).with_skill(skill);
    bob.set_card(card).await.unwrap();
    let _agent = TestAgent::serve(&bob, |task| async move {
        task.fail(FOREIGN).await?;
        Ok(())
    });
    let peer = pair.bob.peer_id().clone();
    let task = alice
        .send_task(Target::Peer(peer.clone()), FOREIGN)
        .await
        .unwrap();
    not_completed(&task).await;
    for arguments in [
        &["card", peer.as_ref()][..],
        &["task", task.id()],
        &["task", task.id(), "--wait"],
        &["tasks"],
        &["trace", task.id()],
        &["peers"],
        &["relays"],
        &["status"],
        &["top", "--once", "--interval=100ms"],
    ] {
        let words = anycast_at(&pair.alice, arguments).await.all_output;
        let json = anycast_at(&pair.alice, &[&["--json"], arguments].concat())
            .await
            .stdout;
        assert_eq!(json.lines().count(), 1, "{arguments:?}: {json}");
        for said in [&words, &json] {
            let drives = |c: char| c.is_control() && c != '\n' || "\u{2028}\u{202e}".contains(c);
            assert!(!said.contains(drives), "{arguments:?}: {said:?}");
            assert!(
                !said.lines().any(|line| line.starts_with("forged")),
                "{arguments:?}: {said}"
            );
        }
    }
    let words = anycast_at(&pair.alice, &["card", peer.as_ref()]).await.all_output;
    assert!(words.contains("foreign forged"), "{words}");
}
