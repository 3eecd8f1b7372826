//! Conversations: a caller's are its own, whatever it calls them, and go on by the name that it knows.

use agentanycast::{Artifact, HandlerError, IncomingTask};
use agentanycast_tests::{Bridge, bridge::collect_events, http::HttpClient};
use serde_json::{Value, json};

use crate::setup::{BridgeSetup, send_params, texts, user_message};

/// Says by which name it knows the conversation; asks first, if it is told to.
async fn name_it(task: IncomingTask) -> Result<(), HandlerError> {
    if task.message().text_content() == "ask" {
        task.ask("Which one?").await?;
    }
    let known = task.context_id().to_owned();
    task.complete([Artifact::text(known)]).await?;
    Ok(())
}

fn within(context: &Value, text: &str) -> Value {
    let mut message = user_message(text);
    message["contextId"] = context.clone();
    json!({ "message": message })
}

/// What the client calls the conversation of its task, and what the agent does.
fn names(task: &Value) -> (Value, String) {
    (task["contextId"].clone(), texts(task).remove(0))
}

async fn asked(client: &HttpClient, params: Value) -> (Value, String) {
    names(&client.call("SendMessage", params).await["task"])
}

#[tokio::test]
async fn two_callers_that_say_the_same_have_two_conversations() {
    let scene = BridgeSetup::new(name_it).await;
    let tokens = scene.pair.bob.home().path().join("tokens");
    std::fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\nbob bbbbbbbbbbbbbbbb\n").unwrap();
    let flag = format!("--tokens-file={}", tokens.display());
    let mut bridge = Bridge::start_with(&scene.pair.bob, &[&flag]).await;
    let client = |bridge: &Bridge, token: &str| {
        let client = bridge.client().at(&scene.path());
        client.version("1.0").token(token)
    };
    let (alice, bob) = (
        client(&bridge, "aaaaaaaaaaaaaaaa"),
        client(&bridge, "bbbbbbbbbbbbbbbb"),
    );
    let main = json!("main");
    let (shown, known) = asked(&alice, within(&main, "x")).await;
    assert_eq!(shown, main, "a client's own name is kept");
    let (shown, other) = asked(&bob, within(&main, "x")).await;
    assert_eq!(shown, main);
    assert_ne!(other, known, "the agent tells the two apart");
    assert_eq!(
        asked(&alice, within(&main, "again")).await,
        (main.clone(), known.clone())
    );

    // One that the bridge has named goes on by that name; to somebody else it is none of those that there are.
    let (named, begun) = asked(&alice, send_params("x")).await;
    assert_eq!(
        asked(&alice, within(&named, "again")).await,
        (named.clone(), begun.clone())
    );
    assert_ne!(asked(&bob, within(&named, "mine?")).await.1, begun);
    for theirs in [json!(known), json!(begun)] {
        let (_, name) = asked(&bob, within(&theirs, "mine?")).await;
        assert!(
            name != known && name != begun,
            "what the agent calls it opens nothing"
        );
    }

    let count = async |client: &HttpClient, context: &Value| {
        let listed = client.call("ListTasks", json!({ "contextId": context })).await;
        let all = listed["tasks"].as_array().unwrap();
        assert!(all.iter().all(|task| task["contextId"] == *context), "{listed}");
        listed["totalSize"].clone()
    };
    assert_eq!(count(&alice, &main).await, 2);
    assert_eq!(count(&alice, &named).await, 2);
    assert_eq!(count(&bob, &main).await, 1);

    // Streams, questions, and the bridge's restart.
    let events = collect_events(alice.stream("SendStreamingMessage", within(&main, "x")).await).await;
    for event in &events {
        let event = event["result"].as_object().unwrap().values().next().unwrap();
        assert_eq!(event["contextId"], main, "{event}");
    }
    bridge.crash().await;
    let alice = client(&bridge, "aaaaaaaaaaaaaaaa");
    let question = alice.call("SendMessage", within(&main, "ask")).await["task"].take();
    assert_eq!(question["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let mut answer = within(&json!("other"), "red");
    answer["message"]["taskId"] = question["id"].clone();
    assert_eq!(alice.code("SendMessage", answer.clone()).await, -32602);
    answer["message"]["contextId"] = main.clone();
    assert_eq!(asked(&alice, answer).await, (main.clone(), known));
    let read = alice.call("GetTask", json!({ "id": question["id"] })).await;
    assert_eq!(read["contextId"], main);
    let history = read["history"].as_array().unwrap();
    assert!(
        history.iter().all(|message| message["contextId"] == main),
        "{read}"
    );
    assert_eq!(count(&alice, &main).await, 4);
}

#[tokio::test]
async fn where_nobody_says_who_it_is_names_are_as_they_are_given() {
    let scene = BridgeSetup::new(name_it).await;
    let client = scene.client();
    assert_eq!(
        asked(&client, within(&json!("main"), "x")).await,
        (json!("main"), "main".to_owned())
    );
    let (named, known) = asked(&client, send_params("x")).await;
    assert_eq!(named, known);
}
