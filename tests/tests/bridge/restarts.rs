//! What dies and comes back during a task that is followed: the bridge, its daemon, the agent's daemon.

use std::{fs, sync::Arc};

use agentanycast::{Artifact, HandlerError, IncomingTask, Message};
use agentanycast_tests::{Bridge, Daemon, bridge::collect_events, eventually, http::SseEvents};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::setup::{
    BRIDGE_MODES, BridgeMode, BridgeSetup, nonblocking_send_params, send_params, texts, user_message,
};

/// Answers the question of a task, and waits for its end.
async fn answer(scene: &BridgeSetup, id: &Value) -> Value {
    let mut message = user_message("red");
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

async fn asked(scene: &BridgeSetup, id: &Value) {
    eventually("the agent asks", || async {
        let task = scene.client().rpc("GetTask", json!({ "id": id })).await;
        (task["result"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_bridge_dies() {
    let mut scene = BridgeSetup::talking().await;
    let id = scene
        .client()
        .call("SendMessage", nonblocking_send_params("ask"))
        .await["task"]["id"]
        .take();
    asked(&scene, &id).await;
    let before = scene
        .client()
        .stream("SubscribeToTask", json!({ "id": id }))
        .await;
    scene.bridge.crash().await;
    assert!(
        collect_events(before).await.len() <= 1,
        "nothing came but the task"
    );
    let after = scene
        .client()
        .stream("SubscribeToTask", json!({ "id": id }))
        .await;
    assert_eq!(texts(&answer(&scene, &id).await), ["You said red"]);
    let events = collect_events(after).await;
    let states: Vec<_> = events[1..]
        .iter()
        .filter_map(|event| event["result"]["statusUpdate"]["status"]["state"].as_str())
        .collect();
    assert_eq!(states.last(), Some(&"TASK_STATE_COMPLETED"), "{events:?}");
}

#[tokio::test]
async fn a_hangup_is_said_and_not_the_end() {
    let daemon = Daemon::builder().start().await;
    let tokens = daemon.home().path().join("tokens");
    fs::write(&tokens, "alice aaaaaaaaaaaaaaaa\n").unwrap();
    let bridge = Bridge::start_with(&daemon, &[&format!("--tokens-file={}", tokens.display())]).await;
    let client = |token: &str| bridge.client().version("1.0").token(token);
    client("aaaaaaaaaaaaaaaa").call("ListTasks", json!({})).await;
    fs::write(&tokens, "alice bbbbbbbbbbbbbbbb\n").unwrap();
    for times in 1..=2 {
        kill_process(bridge.pid(), Signal::HUP).unwrap();
        eventually("it is said", || async {
            (bridge.log().matches("SIGHUP: ").count() == times).then_some(())
        })
        .await;
    }
    // At once, and not when the file is looked at next.
    client("bbbbbbbbbbbbbbbb").call("ListTasks", json!({})).await;
    bridge.stop().await;
}

#[tokio::test]
async fn the_daemons_die() {
    let mut scene = BridgeSetup::talking().await;
    let id = scene
        .client()
        .call("SendMessage", nonblocking_send_params("ask"))
        .await["task"]["id"]
        .take();
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
    let events = collect_events(stream).await;
    let states: Vec<_> = events
        .iter()
        .filter_map(|event| event["result"]["statusUpdate"]["status"]["state"].as_str())
        .collect();
    let ends = states
        .iter()
        .filter(|state| **state == "TASK_STATE_COMPLETED")
        .count();
    assert_eq!(ends, 1, "{events:?}");

    let id = scene
        .client()
        .call("SendMessage", nonblocking_send_params("ask"))
        .await["task"]["id"]
        .take();
    asked(&scene, &id).await;
    scene.pair.alice.kill().await;
    scene.pair.alice.restart().await;
    assert_eq!(texts(&answer(&scene, &id).await), ["You said red"]);
}

#[tokio::test]
async fn a_stop_ends_streams_in_good_order() {
    let scene = BridgeSetup::talking().await;
    let stream = scene
        .client()
        .stream("SendStreamingMessage", send_params("wait"))
        .await;
    let reading = tokio::spawn(collect_events(stream));
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

/// Who is killed while a task is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KilledProcess {
    Bridge,
    Daemon,
    RemoteDaemon,
}

/// What a client knows of what the agent said: the task shows all of it, an update the next.
#[derive(Debug, Default)]
struct AgentTranscript(Vec<String>);

impl AgentTranscript {
    fn apply(&mut self, event: &Value) {
        let text = |message: &Value| message["parts"][0]["text"].as_str().map(str::to_owned);
        let result = &event["result"];
        if let Some(task) = result.get("task") {
            let history = task["history"].as_array().cloned().unwrap_or_default();
            let said = history.iter().filter(|message| message["role"] == "ROLE_AGENT");
            self.0 = said.filter_map(text).collect();
            self.0.extend(text(&task["status"]["message"]));
        } else {
            self.0.extend(text(&result["statusUpdate"]["status"]["message"]));
        }
    }

    /// Listens until so much was said; false: the stream ended before.
    async fn listen(&mut self, stream: &mut SseEvents, count: usize) -> bool {
        while self.0.len() < count {
            match stream.next().await {
                Some(event) if event.get("error").is_none() => self.apply(&event),
                _ => return false,
            }
        }
        true
    }
}

/// Says a number as often as it is let, and ends at nine.
async fn count(task: IncomingTask, let_go: Arc<Semaphore>) -> Result<(), HandlerError> {
    for number in 1..=9 {
        let_go.acquire().await.unwrap().forget();
        task.working(number.to_string()).await?;
    }
    task.complete([agentanycast::Artifact::text("done")]).await?;
    Ok(())
}

/// Whoever is killed: the client has everything in the end, in order, nothing twice.
async fn survives(carrier: BridgeMode, victim: KilledProcess) {
    eprintln!("{victim:?} is killed, the bridge by {carrier:?}");
    let let_go = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&let_go);
    let mut scene = BridgeSetup::by(carrier, move |task| count(task, Arc::clone(&gate))).await;
    let mut stream = scene
        .client()
        .stream("SendStreamingMessage", send_params("count"))
        .await;
    let first = stream.event().await;
    let id = first["result"]["task"]["id"].clone();
    let mut heard = AgentTranscript::default();
    heard.apply(&first);
    let_go.add_permits(3);
    assert!(heard.listen(&mut stream, 3).await);
    match victim {
        KilledProcess::Bridge => scene.bridge.crash().await,
        KilledProcess::Daemon => {
            scene.pair.bob.kill().await;
            let_go.add_permits(3);
            scene.pair.bob.restart().await;
        }
        KilledProcess::RemoteDaemon => {
            scene.pair.alice.kill().await;
            scene.pair.alice.restart().await;
        }
    }
    // What three were said before or meanwhile is heard by whoever follows again.
    if victim != KilledProcess::Daemon {
        let_go.add_permits(3);
    }
    if !heard.listen(&mut stream, 6).await {
        eventually("the task is there", || async {
            let task = scene.client().rpc("GetTask", json!({ "id": id })).await;
            task.get("result").map(drop)
        })
        .await;
        stream = scene
            .client()
            .stream("SubscribeToTask", json!({ "id": id }))
            .await;
        assert!(heard.listen(&mut stream, 6).await);
    }
    let_go.add_permits(3);
    assert!(heard.listen(&mut stream, 9).await);
    let all: Vec<String> = (1..=9).map(|number| number.to_string()).collect();
    assert_eq!(heard.0, all, "{carrier:?} {victim:?}");
    let rest = collect_events(stream).await;
    let last = &rest.last().unwrap()["result"]["statusUpdate"]["status"]["state"];
    assert_eq!(last, "TASK_STATE_COMPLETED", "{rest:?}");
}

#[tokio::test]
async fn a_task_is_followed_over_the_death_of_the_bridge() {
    survives(BridgeMode::Grpc, KilledProcess::Bridge).await;
}

#[tokio::test]
async fn a_task_is_followed_over_the_death_of_the_daemon() {
    for carrier in BRIDGE_MODES {
        survives(carrier, KilledProcess::Daemon).await;
    }
}

#[tokio::test]
async fn a_task_is_followed_over_the_death_of_the_agents_daemon() {
    for carrier in BRIDGE_MODES {
        survives(carrier, KilledProcess::RemoteDaemon).await;
    }
}

/// An agent that dies for good ends its task, and the client hears of it.
#[tokio::test]
async fn the_death_of_the_agent_is_told() {
    let mut scene = BridgeSetup::with(
        BridgeMode::Grpc,
        |alice| alice.config("agent_grace = \"1s\"\n"),
        crate::setup::talk,
    )
    .await;
    let mut stream = scene
        .client()
        .stream("SendStreamingMessage", send_params("wait"))
        .await;
    let mut heard = AgentTranscript::default();
    assert!(heard.listen(&mut stream, 1).await);
    scene.end_agent();
    let events = collect_events(stream).await;
    let last = &events.last().unwrap()["result"]["statusUpdate"]["status"];
    assert_eq!(last["state"], "TASK_STATE_FAILED", "{events:?}");
    let reason = last["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(reason.contains("agent went away"), "{reason}");
}

/// What an event of a stream says: the text of a message or of a result.
fn text_of(event: &Value) -> Option<String> {
    let event = &event["result"];
    let message = &event["statusUpdate"]["status"]["message"]["parts"][0]["text"];
    let result = &event["artifactUpdate"]["artifact"]["parts"][0]["text"];
    message.as_str().or(result.as_str()).map(str::to_owned)
}

/// A client that lost its stream names the last event that it has read: it is told what is missing and
/// nothing twice, also after a kill of the bridge and of the daemon.
#[tokio::test]
async fn a_stream_goes_on_behind_the_last_event() {
    let go = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go);
    let mut scene = BridgeSetup::new(move |task| {
        let gate = Arc::clone(&gate);
        async move {
            for number in 1..=6 {
                gate.acquire().await?.forget();
                task.working(number.to_string()).await?;
            }
            gate.acquire().await?.forget();
            let results = ["a", "b"].map(Artifact::text);
            task.complete_with(results, Message::agent_text("end")).await?;
            Ok(())
        }
    })
    .await;
    let mut stream = scene
        .client()
        .stream("SendStreamingMessage", send_params("go"))
        .await;
    let id = json!({"id": stream.event().await["result"]["task"]["id"]});
    let mut last: u64 = stream.last_id().unwrap().parse().unwrap();
    let again = |scene: &BridgeSetup, last: u64| scene.client().header("last-event-id", &last.to_string());
    let mut said = Vec::new();
    let mut before_the_end = 0;
    for wanted in [2, 4, 6, 9] {
        go.add_permits(2);
        while said.len() < wanted {
            let event = stream.event().await;
            assert!(event["result"].get("task").is_none(), "{event}");
            let Some(text) = text_of(&event) else { continue };
            let now: u64 = stream.last_id().unwrap().parse().unwrap();
            assert!(now > last, "{text} has the number {now}, and {last} was before");
            last = now;
            said.push(text);
        }
        match wanted {
            2 => scene.bridge.crash().await,
            4 => {
                scene.pair.bob.kill().await;
                scene.pair.bob.restart().await;
            }
            6 => before_the_end = last,
            _ => break,
        }
        stream = again(&scene, last).stream("SubscribeToTask", id.clone()).await;
    }
    assert_eq!(said, ["1", "2", "3", "4", "5", "6", "a", "b", "end"]);
    // The task has ended: what is missing is told, and nothing if nothing is.
    let rest = again(&scene, before_the_end)
        .stream("SubscribeToTask", id.clone())
        .await;
    let rest: Vec<String> = collect_events(rest).await.iter().filter_map(text_of).collect();
    assert_eq!(rest, ["a", "b", "end"]);
    assert_eq!(again(&scene, last).code("SubscribeToTask", id).await, -32004);
}
