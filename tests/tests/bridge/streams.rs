//! Tasks that are followed: in order, nothing twice, to the end.

use std::sync::Arc;

use agentanycast::{Artifact, Part};
use agentanycast_tests::bridge::to_the_end;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::scene::{CARRIERS, Scene, old_say, say, send, send_off, texts};

/// The texts of the status updates of 1.0.
fn steps(events: &[Value]) -> Vec<String> {
    let texts = events.iter().filter_map(|event| {
        let text = &event["statusUpdate"]["status"]["message"]["parts"][0]["text"];
        text.as_str().map(str::to_owned)
    });
    texts.collect()
}

fn results(events: Vec<Value>) -> Vec<Value> {
    events
        .into_iter()
        .map(|mut event| {
            assert!(event.get("error").is_none(), "{event}");
            event["result"].take()
        })
        .collect()
}

#[tokio::test]
async fn a_task_is_followed_over_each_binding() {
    for carrier in CARRIERS {
        let scene = Scene::talking_by(carrier).await;
        let rest = to_the_end(
            scene
                .client()
                .events(Method::POST, "/message:stream", &send("steps"))
                .await,
        )
        .await;
        let rpc =
            results(to_the_end(scene.client().stream("SendStreamingMessage", send("steps")).await).await);
        for events in [rest, rpc] {
            let first = &events[0]["task"];
            assert_eq!(first["history"][0]["messageId"], "m-steps");
            // What came before the first event is in it.
            let mut all: Vec<String> = first["history"].as_array().unwrap()[1..]
                .iter()
                .chain(
                    [&first["status"]["message"]]
                        .into_iter()
                        .filter(|said| !said.is_null()),
                )
                .map(|said| said["parts"][0]["text"].as_str().unwrap().to_owned())
                .collect();
            all.extend(steps(&events));
            assert_eq!(all, ["step 1", "step 2", "step 3", "That was all."]);
            let last = events.last().unwrap();
            if events.len() > 1 {
                assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
                let artifacts: Vec<_> = events
                    .iter()
                    .filter(|event| event.get("artifactUpdate").is_some())
                    .collect();
                assert_eq!(artifacts.len(), 1);
                assert_eq!(
                    artifacts[0]["artifactUpdate"]["artifact"]["parts"][0]["text"],
                    "done"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_old_version_is_told_what_is_final() {
    for carrier in CARRIERS {
        let scene = Scene::talking_by(carrier).await;
        let client = scene.old_client();
        let events = to_the_end(
            client
                .stream("message/stream", json!({"message": old_say("ask")}))
                .await,
        )
        .await;
        let events = results(events);
        assert_eq!(events[0]["kind"], "task");
        let last = events.last().unwrap();
        let id = events[0]["id"].clone();
        assert_eq!(
            (&last["status"]["state"], &last["final"]),
            (&json!("input-required"), &json!(true))
        );
        let mut answer = old_say("blue");
        answer["taskId"] = id.clone();
        let events = results(
            to_the_end(
                client
                    .stream("message/stream", json!({ "message": answer }))
                    .await,
            )
            .await,
        );
        assert_eq!(events[0]["id"], id);
        let task = client.call("tasks/get", json!({ "id": id })).await;
        assert_eq!(texts(&task), ["You said blue"]);
    }
}

/// Several readers of one task, one of whom comes late and one of whom goes and comes again.
#[tokio::test]
async fn who_comes_again_misses_nothing() {
    for carrier in CARRIERS {
        let scene = Scene::talking_by(carrier).await;
        let client = scene.client();
        let task = client.call("SendMessage", send_off("ask")).await["task"].take();
        let id = json!({"id": task["id"]});
        let mut first = client.stream("SubscribeToTask", id.clone()).await;
        assert_eq!(first.event().await["result"]["task"]["id"], task["id"]);
        drop(first);
        let second = client.stream("SubscribeToTask", id.clone()).await;
        let path = format!("/tasks/{}:subscribe", task["id"].as_str().unwrap());
        let third = client.events(Method::GET, &path, &json!({})).await;
        // The question is there before it is answered.
        let mut answer = say("green");
        answer["taskId"] = task["id"].clone();
        agentanycast_tests::eventually("the agent asks", || async {
            let task = client.call("GetTask", id.clone()).await;
            (task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED").then_some(())
        })
        .await;
        client.call("SendMessage", json!({ "message": answer })).await;
        let second = results(to_the_end(second).await);
        let third = to_the_end(third).await;
        for events in [second, third] {
            let last = &events.last().unwrap()["statusUpdate"];
            assert_eq!(last["status"]["state"], "TASK_STATE_COMPLETED");
            let mut states: Vec<&str> = events
                .iter()
                .filter_map(|event| event["statusUpdate"]["status"]["state"].as_str())
                .collect();
            let all = states.len();
            states.dedup();
            assert_eq!(states.len(), all, "{events:?}");
        }
    }
}

/// A result that is produced piece by piece arrives piece by piece: the agent makes the next one when the last was
/// seen.
#[tokio::test]
async fn a_result_arrives_as_it_is_produced() {
    let seen = Arc::new(Semaphore::new(0));
    let told = Arc::clone(&seen);
    let scene = Scene::new(move |task| {
        let told = Arc::clone(&told);
        async move {
            let mut report = task.stream_artifact("report", "text/plain").await?;
            for piece in ["eins", "zwei", "drei"] {
                report.write(piece.to_owned()).await?;
                told.acquire().await?.forget();
            }
            report.finish().await?;
            task.complete([Artifact::new("facts", [Part::data(json!({"n": 1}))?])])
                .await?;
            Ok(())
        }
    })
    .await;
    let mut stream = scene
        .client()
        .stream("SendStreamingMessage", send("report"))
        .await;
    let (mut pieces, mut facts, mut last) = (Vec::new(), Value::Null, false);
    while let Some(mut event) = stream.next().await {
        let event = event["result"].take();
        let update = &event["artifactUpdate"];
        let part = &update["artifact"]["parts"][0];
        if update["artifact"]["name"] == "report" {
            assert_eq!(update["append"], !pieces.is_empty());
            last = update["lastChunk"] == true;
            pieces.push(part["text"].as_str().unwrap().to_owned());
            seen.add_permits(1);
        } else if update["artifact"]["name"] == "facts" {
            assert!(last, "the first result had ended");
            facts = part["data"].clone();
        }
    }
    assert_eq!(pieces, ["eins", "zwei", "drei", ""]);
    assert_eq!(facts, json!({"n": 1}));
}
