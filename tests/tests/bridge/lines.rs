//! Output that is framed by lines is the same lines for every reader: U+0085, U+2028 and U+2029 are escaped
//! in it. The reader of streams in `agentanycast_tests::http` refuses an event that has one of them.

use agentanycast_tests::{bridge::to_the_end, command, http::is_lines};
use http::Method;
use serde_json::{Value, json};

use crate::scene::{Scene, send, texts};

/// Text with what some readers take for the end of a line.
const TEXT: &str = "a\u{85}b\u{2028}c\u{2029}d";

#[tokio::test]
async fn events_are_one_line_for_every_reader() {
    let scene = Scene::talking().await;
    let params = send(&format!("echo {TEXT}"));
    let rest = scene
        .client()
        .events(Method::POST, "/message:stream", &params)
        .await;
    let rpc = scene.client().stream("SendStreamingMessage", params).await;
    for stream in [rest, rpc] {
        let events = to_the_end(stream).await;
        let told = Value::from(events).to_string();
        assert!(told.contains(TEXT), "{told}");
    }
}

#[tokio::test]
async fn json_of_the_command_is_one_line_for_every_reader() {
    let scene = Scene::talking().await;
    let peer = scene.pair.alice.peer_id().to_string();
    let message = format!("echo {TEXT}");
    let said = command::told(&scene.pair.bob, &["--json", "send", &peer, &message]).await;
    assert!(said.status.success(), "{}", said.said);
    assert!(is_lines(&said.said), "{:?}", said.said);
    let task: Value = serde_json::from_str(&said.printed).unwrap();
    assert!(texts(&task).contains(&TEXT.to_owned()), "{task}");
    assert_eq!(
        task["messages"][0]["parts"][0],
        json!({"type": "text", "text": message})
    );
}
