//! What dies and comes back during a task that is followed: the bridge, its daemon, the agent's daemon.

use agentanycast_tests::{bridge::to_the_end, eventually};
use serde_json::{Value, json};

use crate::scene::{Scene, say, send, send_off, texts};

/// Answers the question of a task, and waits for its end.
async fn answer(scene: &Scene, id: &Value) -> Value {
    let mut message = say("red");
    message["taskId"] = id.clone();
    eventually("the answer is taken", || async {
        let answer = scene
            .client()
            .rpc("SendMessage", json!({ "message": message }))
            .await;
        answer["result"].get("task").cloned()
    })
    .await
}

async fn asked(scene: &Scene, id: &Value) {
    eventually("the agent asks", || async {
        let task = scene.client().rpc("GetTask", json!({ "id": id })).await;
        (task["result"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_bridge_dies() {
    let mut scene = Scene::talking().await;
    let id = scene.client().call("SendMessage", send_off("ask")).await["task"]["id"].take();
    asked(&scene, &id).await;
    let before = scene
        .client()
        .stream("SubscribeToTask", json!({ "id": id }))
        .await;
    scene.bridge.crash().await;
    assert!(to_the_end(before).await.len() <= 1, "nothing came but the task");
    let after = scene
        .client()
        .stream("SubscribeToTask", json!({ "id": id }))
        .await;
    assert_eq!(texts(&answer(&scene, &id).await), ["You said red"]);
    let events = to_the_end(after).await;
    let states: Vec<_> = events[1..]
        .iter()
        .filter_map(|event| event["result"]["statusUpdate"]["status"]["state"].as_str())
        .collect();
    assert_eq!(states.last(), Some(&"TASK_STATE_COMPLETED"), "{events:?}");
}

#[tokio::test]
async fn the_daemons_die() {
    let mut scene = Scene::talking().await;
    let id = scene.client().call("SendMessage", send_off("ask")).await["task"]["id"].take();
    asked(&scene, &id).await;
    let stream = scene
        .client()
        .stream("SubscribeToTask", json!({ "id": id }))
        .await;
    scene.pair.bob.kill().await;
    scene.pair.bob.restart().await;
    asked(&scene, &id).await;
    assert_eq!(texts(&answer(&scene, &id).await), ["You said red"]);
    // The stream outlived the daemon.
    let events = to_the_end(stream).await;
    let states: Vec<_> = events
        .iter()
        .filter_map(|event| event["result"]["statusUpdate"]["status"]["state"].as_str())
        .collect();
    let ends = states
        .iter()
        .filter(|state| **state == "TASK_STATE_COMPLETED")
        .count();
    assert_eq!(ends, 1, "{events:?}");

    let id = scene.client().call("SendMessage", send_off("ask")).await["task"]["id"].take();
    asked(&scene, &id).await;
    scene.pair.alice.kill().await;
    scene.pair.alice.restart().await;
    assert_eq!(texts(&answer(&scene, &id).await), ["You said red"]);
}

#[tokio::test]
async fn a_stop_ends_streams_in_good_order() {
    let scene = Scene::talking().await;
    let stream = scene.client().stream("SendStreamingMessage", send("wait")).await;
    let reading = tokio::spawn(to_the_end(stream));
    eventually("the task is there", || async {
        let list = scene.client().call("ListTasks", json!({})).await;
        (list["totalSize"] == 1).then_some(())
    })
    .await;
    scene.bridge.stop().await;
    let events = reading.await.unwrap();
    let last = events.last().unwrap();
    assert_eq!(last["error"]["data"][0]["reason"], "UNAVAILABLE", "{last}");
}
