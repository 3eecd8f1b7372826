//! Many clients at once, some of whom go away in the middle and some of whom do not read: the others notice nothing.

use std::time::{Duration, Instant};

use agentanycast_tests::{bridge::to_the_end, http::Stream, process};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::scene::{Scene, say, send, send_off};

/// Tasks, streams of each at once (a node has 64 at most), and how many of their readers stand still.
const TASKS: usize = 8;
const STREAMS: usize = 50;
const STANDING: usize = 10;

/// Short requests beside them.
const REQUESTS: usize = 600;

/// Short requests at once.
const AT_ONCE: usize = 16;

async fn asking(scene: &Scene) -> Value {
    let task = scene.client().call("SendMessage", send("ask")).await["task"].take();
    json!({"id": task["id"]})
}

async fn answer(scene: &Scene, id: &Value) {
    let mut message = say("red");
    message["taskId"] = id["id"].clone();
    scene
        .client()
        .call("SendMessage", json!({ "message": message }))
        .await;
}

/// How often each of these streams told of the end.
fn ends(events: &[Value]) -> usize {
    let ended = |event: &&Value| event["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED";
    events.iter().filter(ended).count()
}

async fn follow(scene: &Scene, id: &Value, streams: usize) -> Vec<Stream> {
    let client = scene.client();
    let streams = futures::stream::iter(0..streams).map(|_| client.stream("SubscribeToTask", id.clone()));
    streams.buffer_unordered(AT_ONCE).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_go_away_disturb_nobody() {
    let scene = Scene::talking().await;
    let id = asking(&scene).await;
    let stays = follow(&scene, &id, 1).await.remove(0);
    for _ in 0..TASKS {
        let other = asking(&scene).await;
        for mut stream in follow(&scene, &other, STREAMS).await {
            assert_eq!(stream.event().await["result"]["task"]["id"], other["id"]);
        }
    }
    answer(&scene, &id).await;
    let events = to_the_end(stays).await;
    assert_eq!(ends(&events), 1, "{events:?}");
    assert!(events.iter().all(|event| event.get("error").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_follow_and_some_do_not_read() {
    let scene = Scene::talking().await;
    let (mut ids, mut readers, mut standing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TASKS {
        let id = asking(&scene).await;
        let mut streams = follow(&scene, &id, STREAMS).await;
        standing.extend(streams.split_off(STREAMS - STANDING));
        readers.extend(streams.into_iter().map(|stream| tokio::spawn(to_the_end(stream))));
        ids.push(id);
    }

    let before = process::rss_bytes(scene.bridge.pid());
    let begun = Instant::now();
    let requests = futures::stream::iter(0..REQUESTS).map(|n| {
        let client = scene.client();
        async move { client.call("SendMessage", send_off(&format!("echo {n}"))).await }
    });
    requests.buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
    let took = begun.elapsed();
    let grown = process::rss_bytes(scene.bridge.pid()).saturating_sub(before);
    assert!(took < Duration::from_mins(1), "{REQUESTS} requests took {took:?}");
    assert!(grown < 64 << 20, "{grown} bytes more after {REQUESTS} requests");

    for id in &ids {
        answer(&scene, id).await;
    }
    for reader in readers {
        let events = reader.await.unwrap();
        assert_eq!(ends(&events), 1, "{events:?}");
    }
    // Whoever did not read until now gets all of it.
    for stream in standing {
        assert_eq!(ends(&to_the_end(stream).await), 1);
    }
}
