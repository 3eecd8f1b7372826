//! Output that is framed by lines is the same lines for every reader: U+0085, U+2028 and U+2029 are escaped
//! in it. The reader of streams in `agentanycast_tests::http` refuses an event that has one of them.

use agentanycast_tests::{bridge::collect_events, cli, http::has_safe_line_breaks};
use http::Method;
use serde_json::{Value, json};

use crate::setup::{BridgeSetup, send_params, texts};

/// Text with what some readers take for the end of a line.
const TEXT: &str = "a\u{85}b\u{2028}c\u{2029}d";

#[tokio::test]
async fn events_are_one_line_for_every_reader() {
    let scene = BridgeSetup::talking().await;
    let params = send_params(&format!("echo {TEXT}"));
    let rest = scene
        .client()
        .events(Method::POST, "/message:stream", &params)
        .await;
    let rpc = scene.client().stream("SendStreamingMessage", params).await;
    for stream in [rest, rpc] {
        let events = collect_events(stream).await;
        let told = Value::from(events).to_string();
        assert!(told.contains(TEXT), "{told}");
    }
}

#[tokio::test]
async fn json_of_the_command_is_one_line_for_every_reader() {
    let scene = BridgeSetup::talking().await;
    let peer = scene.pair.alice.peer_id().to_string();
    let message = format!("echo {TEXT}");
    let said = cli::anycast_at(&scene.pair.bob, &["--json", "send", &peer, &message]).await;
    assert!(said.status.success(), "{}", said.all_output);
    assert!(has_safe_line_breaks(&said.all_output), "{:?}", said.all_output);
    let task: Value = serde_json::from_str(&said.stdout).unwrap();
    assert!(texts(&task).contains(&TEXT.to_owned()), "{task}");
    assert_eq!(
        task["messages"][0]["parts"][0],
        json!({"type": "text", "text": message})
    );
}
