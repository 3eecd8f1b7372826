//! Whom the daemon connects to when a sender names the host.

use agentanycast::{ErrorKind, Target};
use agentanycast_tests::task_assertions::completed;

use crate::http_agent::{HttpAgent, card, daemon, greeter, reason, send};

#[tokio::test]
async fn private_hosts_are_called_only_when_that_is_allowed() {
    let agent = greeter().await;
    let port = agent.address.port();
    let (_daemon, node) = daemon("").await;
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let reason = reason(&node, &format!("http://{host}:{port}")).await;
        let refused =
            reason.contains("an address of this host") || reason.contains("the unspecified address");
        assert!(refused, "{reason}");
    }
    for host in [
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "[::127.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[fd00::1]",
    ] {
        let reason = reason(&node, &format!("http://{host}:{port}")).await;
        assert!(reason.contains("allow_private"), "{reason}");
    }
    // What only some programs take for an address is a name.
    let reason = reason(&node, &format!("http://127.1:{port}")).await;
    assert!(reason.contains("cannot be resolved"), "{reason}");
    assert_eq!(agent.asked().len(), 0);
    let (_other, node) = daemon("allow_private = true\n").await;
    completed(&send(&node, &agent.url()).await).await;
}

/// What is allowed for one host is not for another that its card names.
#[tokio::test]
async fn a_card_opens_no_other_door() {
    let inside = greeter().await;
    let url = format!("http://localhost:{}/", inside.address.port());
    let outside = HttpAgent::start(move |_, _| {
        let card = card(&url, "1.0", false);
        async { card }
    })
    .await;
    let allowed = format!(
        "[bridge.outbound.\"127.0.0.1:{}\"]\nallow_private = true\n",
        outside.address.port()
    );
    let (_daemon, node) = daemon(&allowed).await;
    let reason = reason(&node, &outside.url()).await;
    assert!(
        reason.contains("localhost is") && reason.contains("an address of this host"),
        "{reason}"
    );
    assert_eq!(inside.asked().len(), 0);
}

/// What is set for a host is used for who sends there, and for cards that its operator has named, not for others' cards.
#[tokio::test]
async fn a_card_does_not_borrow_what_is_set_for_another_host() {
    let inside = greeter().await;
    let url = format!("http://{}/internal/", inside.address);
    let stranger = HttpAgent::start(move |_, _| {
        let card = card(&url, "1.0", false);
        async { card }
    })
    .await;
    let (inner, outer) = (inside.address, stranger.address);
    let config = |cards_from: &str| {
        format!(
            "[bridge.outbound.\"{outer}\"]\nallow_private = true\n[bridge.outbound.\"{inner}\"]\nallow_private = true\nbearer_token = \"secret\"\n{cards_from}"
        )
    };
    let (_daemon, node) = daemon(&config("")).await;
    let reason = reason(&node, &stranger.url()).await;
    assert!(
        reason.contains("cards_from") && reason.contains(&outer.to_string()),
        "{reason}"
    );
    assert_eq!(inside.asked().len(), 0);
    let (_daemon, node) = daemon(&config(&format!("cards_from = [\"{outer}\"]\n"))).await;
    completed(&send(&node, &stranger.url()).await).await;
    assert!(!inside.asked().is_empty());
}

#[tokio::test]
async fn what_is_no_url_is_refused_at_once() {
    let (_daemon, node) = daemon("").await;
    for url in [
        "",
        "agent",
        "ftp://h/",
        "http://",
        "http://user:secret@h/",
        &format!("http://h/{}", "x".repeat(3000)),
    ] {
        let error = node.task(Target::url(url), "hello").send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}: {error}");
    }
    let (_other, node) = daemon("enabled = false\n").await;
    let error = node
        .task(Target::url("http://h/"), "hello")
        .send()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("bridge.outbound.enabled"), "{error}");
}
