//! Many clients at once, some of whom go away in the middle and some of whom do not read: the others notice nothing,
//! and nothing is left of them.

use agentanycast_tests::{
    Bridge, bridge::collect_events, eventually, http::HttpClient, http::SseEvents, proc_stats,
};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::setup::{BridgeSetup, nonblocking_send_params, send_params, user_message};

/// Tasks, streams of each at once (a node has 64 at most), and how many of their readers stand still.
const TASKS: usize = 10;
const STREAMS: usize = 50;
const STANDING: usize = 10;

/// Short requests beside them; one of so many begins a task, the others read one.
const REQUESTS: usize = 20_000;
const SENDS: usize = 20;

/// Short requests at once.
const AT_ONCE: usize = 16;

/// Descriptors of a bridge that nobody talks to, at most.
const AT_REST: u64 = 40;

/// Streams of those who go away.
const LEAVING: usize = 400;

/// A scene whose bridge counts nobody's requests, since all of them come from here.
async fn scene() -> BridgeSetup {
    let mut scene = BridgeSetup::talking().await;
    scene.bridge = Bridge::start_with(&scene.pair.bob, &["--rate=0", "--at-once=2000"]).await;
    scene
}

async fn asking(client: &HttpClient) -> Value {
    let task = client.call("SendMessage", send_params("ask")).await["task"].take();
    json!({"id": task["id"]})
}

async fn answer(client: &HttpClient, id: &Value) {
    let mut message = user_message("red");
    message["taskId"] = id["id"].clone();
    client.call("SendMessage", json!({ "message": message })).await;
}

/// How often each of these streams told of the end.
fn ends(events: &[Value]) -> usize {
    let ended = |event: &&Value| event["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED";
    events.iter().filter(ended).count()
}

async fn follow(client: &HttpClient, id: &Value, streams: usize) -> Vec<SseEvents> {
    let streams = futures::stream::iter(0..streams).map(|_| client.stream("SubscribeToTask", id.clone()));
    streams.buffer_unordered(AT_ONCE).collect().await
}

/// So many requests; how many were answered by the task that they are about.
async fn short_requests(client: &HttpClient, id: &Value, count: usize) -> usize {
    let requests = futures::stream::iter(0..count).map(|n| async move {
        if n % SENDS == 0 {
            let sent = client
                .call("SendMessage", nonblocking_send_params(&format!("echo {n}")))
                .await;
            usize::from(sent["task"]["id"].is_string())
        } else {
            let read = client.call("GetTask", id.clone()).await;
            usize::from(read["id"] == id["id"])
        }
    });
    requests
        .buffer_unordered(AT_ONCE)
        .fold(0, |all, one| async move { all + one })
        .await
}

/// Reads a stream to its end, whose last events come when the sender of `answered` is gone.
async fn read(mut stream: SseEvents, mut answered: watch::Receiver<()>) -> Vec<Value> {
    let mut events = vec![stream.event().await];
    // However long the load beside it takes.
    let _ = answered.changed().await;
    events.extend(collect_events(stream).await);
    events
}

/// All streams, a load beside them, and their ends.
async fn crowd(client: &HttpClient, requests: usize) {
    let (mut ids, mut readers, mut standing) = (Vec::new(), Vec::new(), Vec::new());
    let (tell, answered) = watch::channel(());
    for _ in 0..TASKS {
        let id = asking(client).await;
        let mut streams = follow(client, &id, STREAMS).await;
        standing.extend(streams.split_off(STREAMS - STANDING));
        let read = |stream| tokio::spawn(read(stream, answered.clone()));
        readers.extend(streams.into_iter().map(read));
        ids.push(id);
    }
    assert_eq!(short_requests(client, &ids[0], requests).await, requests);
    for id in &ids {
        answer(client, id).await;
    }
    drop(tell);
    assert_eq!(
        (readers.len(), standing.len()),
        (TASKS * (STREAMS - STANDING), TASKS * STANDING)
    );
    for reader in readers {
        let events = reader.await.unwrap();
        assert_eq!(ends(&events), 1, "{events:?}");
    }
    // Whoever did not read until now gets all of it.
    for stream in standing {
        assert_eq!(ends(&collect_events(stream).await), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_go_away_disturb_nobody() {
    let scene = scene().await;
    let client = scene.client();
    let id = asking(&client).await;
    let stays = follow(&client, &id, 1).await.remove(0);
    for _ in 0..LEAVING / STREAMS {
        let other = asking(&client).await;
        for mut stream in follow(&client, &other, STREAMS).await {
            assert_eq!(stream.event().await["result"]["task"]["id"], other["id"]);
        }
    }
    answer(&client, &id).await;
    let events = collect_events(stays).await;
    assert_eq!(ends(&events), 1, "{events:?}");
    assert!(events.iter().all(|event| event.get("error").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: waits for readers that stopped"]
async fn many_follow_and_some_do_not_read_and_nothing_is_left() {
    let scene = scene().await;
    let pid = scene.bridge.pid();
    // What the first crowd leaves is what a bridge that has worked takes.
    crowd(&scene.client(), AT_ONCE * 100).await;
    quiet(&scene).await;
    let before = proc_stats::rss_bytes(pid);
    crowd(&scene.client(), REQUESTS).await;
    quiet(&scene).await;
    eventually("memory is given back", || async {
        let now = proc_stats::rss_bytes(pid);
        (now <= before + before / 5).then_some(())
    })
    .await;
}

/// Waits until no connection of the crowd is left.
async fn quiet(scene: &BridgeSetup) {
    eventually("the connections are gone", || async {
        (proc_stats::open_files(scene.bridge.pid()) <= AT_REST).then_some(())
    })
    .await;
}
