//! Tasks that are followed: in order, nothing twice, to the end.

use std::sync::Arc;

use agentanycast::{Artifact, Message, Part};
use agentanycast_tests::bridge::collect_events;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::setup::{
    BRIDGE_MODES, BridgeSetup, nonblocking_send_params, send_params, texts, user_message, v0_3_message,
};

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
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let rest = collect_events(
            scene
                .client()
                .events(Method::POST, "/message:stream", &send_params("steps"))
                .await,
        )
        .await;
        let rpc = results(
            collect_events(
                scene
                    .client()
                    .stream("SendStreamingMessage", send_params("steps"))
                    .await,
            )
            .await,
        );
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
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.old_client();
        let events = collect_events(
            client
                .stream("message/stream", json!({"message": v0_3_message("ask")}))
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
        let mut answer = v0_3_message("blue");
        answer["taskId"] = id.clone();
        let events = results(
            collect_events(
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
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.client();
        let task = client.call("SendMessage", nonblocking_send_params("ask")).await["task"].take();
        let id = json!({"id": task["id"]});
        let mut first = client.stream("SubscribeToTask", id.clone()).await;
        assert_eq!(first.event().await["result"]["task"]["id"], task["id"]);
        drop(first);
        let second = client.stream("SubscribeToTask", id.clone()).await;
        let path = format!("/tasks/{}:subscribe", task["id"].as_str().unwrap());
        let third = client.events(Method::GET, &path, &json!({})).await;
        // The question is there before it is answered.
        let mut answer = user_message("green");
        answer["taskId"] = task["id"].clone();
        agentanycast_tests::eventually("the agent asks", || async {
            let task = client.call("GetTask", id.clone()).await;
            (task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED").then_some(())
        })
        .await;
        client.call("SendMessage", json!({ "message": answer })).await;
        let second = results(collect_events(second).await);
        let third = collect_events(third).await;
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
    let scene = BridgeSetup::new(move |task| {
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
        .stream("SendStreamingMessage", send_params("report"))
        .await;
    let (mut pieces, mut facts, mut last) = (Vec::new(), Value::Null, false);
    while let Some(mut event) = stream.next().await {
        let event = event["result"].take();
        let update = &event["artifactUpdate"];
        let part = &update["artifact"]["parts"][0];
        if update["artifact"]["name"] == "report" {
            assert_eq!(update["append"], !pieces.is_empty());
            last = update["lastChunk"] == true;
            // The end comes later than the last piece: it has no part.
            pieces.extend(part["text"].as_str().map(str::to_owned));
            seen.add_permits(1);
        } else if update["artifact"]["name"] == "facts" {
            assert!(last, "the first result had ended");
            facts = part["data"].clone();
        }
    }
    assert_eq!(pieces, ["eins", "zwei", "drei"]);
    assert_eq!(facts, json!({"n": 1}));
}

/// However quick the agent is: what the stream of a message begins with is the task before the agent has it.
#[tokio::test]
async fn a_quick_task_is_told_from_its_beginning() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::by(carrier, |task| async move {
            task.complete([Artifact::new("facts", [Part::text("forty-two")])])
                .await?;
            Ok(())
        })
        .await;
        for _ in 0..5 {
            let events = scene
                .client()
                .stream("SendStreamingMessage", send_params("hi"))
                .await;
            let events = results(collect_events(events).await);
            let state = events[0]["task"]["status"]["state"].as_str().unwrap();
            assert!(
                ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state),
                "{events:?}"
            );
            let shown = &events[0]["task"]["artifacts"];
            assert!(shown.as_array().is_none_or(Vec::is_empty), "{events:?}");
            let [.., result, end] = &events[..] else {
                panic!("{events:?}")
            };
            assert_eq!(
                result["artifactUpdate"]["artifact"]["parts"][0]["text"], "forty-two",
                "{events:?}"
            );
            assert_eq!(end["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
        }
    }
}

/// The last state that a stream told.
fn last_state(events: &[Value]) -> &str {
    fn state(event: &Value) -> Option<&str> {
        let status = &event["statusUpdate"]["status"]["state"];
        status.as_str().or(event["task"]["status"]["state"].as_str())
    }
    events.iter().rev().find_map(state).unwrap()
}

/// Clients read the stream of a message to its end before they send the next one. Who subscribes hears how it
/// goes on.
#[tokio::test]
async fn the_stream_of_a_message_ends_when_the_agent_asks() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let client = scene.client();
        let rest = client
            .events(Method::POST, "/message:stream", &send_params("ask"))
            .await;
        let rpc = client.stream("SendStreamingMessage", send_params("ask")).await;
        for events in [collect_events(rest).await, results(collect_events(rpc).await)] {
            assert_eq!(last_state(&events), "TASK_STATE_INPUT_REQUIRED", "{events:?}");
            let id = events[0]["task"]["id"].clone();
            let waiting = client.stream("SubscribeToTask", json!({ "id": id })).await;
            let mut answer = user_message("blue");
            answer["taskId"] = id;
            let answered = client.stream("SendStreamingMessage", json!({ "message": answer }));
            let answered = results(collect_events(answered.await).await);
            assert_eq!(last_state(&answered), "TASK_STATE_COMPLETED");
            let followed = results(collect_events(waiting).await);
            assert_eq!(
                followed[0]["task"]["status"]["state"],
                "TASK_STATE_INPUT_REQUIRED"
            );
            assert_eq!(last_state(&followed), "TASK_STATE_COMPLETED");
        }
    }
}

/// An agent that waits for credentials gets them by another way than a message: the stream stays open until
/// it goes on.
#[tokio::test]
async fn a_stream_stays_open_while_the_agent_waits_for_credentials() {
    let logged_in = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&logged_in);
    let scene = BridgeSetup::new(move |task| {
        let gate = Arc::clone(&gate);
        async move {
            let part = Part::text("Log in at example.org").with_metadata("gateway.state", "auth-required");
            tokio::select! {
                answer = task.ask(Message::new([part])) => drop(answer?),
                permit = gate.acquire() => permit?.forget(),
            }
            task.working("Thanks").await?;
            task.complete([Artifact::text("done")]).await?;
            Ok(())
        }
    })
    .await;
    let (new, old) = (scene.client(), scene.old_client());
    // A call that waits is answered, so that its client can do something.
    let task = new.call("SendMessage", send_params("go")).await["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{task}");
    let metadata = &task["status"]["message"]["parts"][0]["metadata"];
    assert!(metadata.get("gateway.state").is_none(), "{task}");
    logged_in.add_permits(1);

    let mut events = new.stream("SendStreamingMessage", send_params("go")).await;
    while last_state(&results(vec![events.event().await])) != "TASK_STATE_AUTH_REQUIRED" {}
    logged_in.add_permits(1);
    let rest = results(collect_events(events).await);
    assert_eq!(last_state(&rest), "TASK_STATE_COMPLETED", "{rest:?}");

    let mut events = old
        .stream("message/stream", json!({"message": v0_3_message("go")}))
        .await;
    loop {
        let event = events.event().await["result"].take();
        if event["status"]["state"] == "auth-required" {
            assert_ne!(event["final"], true, "{event}");
            break;
        }
    }
    logged_in.add_permits(1);
    let rest = results(collect_events(events).await);
    let last = rest.last().unwrap();
    assert_eq!(
        (&last["status"]["state"], &last["final"]),
        (&json!("completed"), &json!(true))
    );
}

/// An agent that has no use for a task answers with a message.
#[tokio::test]
async fn an_agent_answers_with_a_message() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::by(carrier, |task| async move {
            let part = Part::text("Hello").with_metadata("gateway.answer", "message");
            task.complete_with([], Message::new([part])).await?;
            Ok(())
        })
        .await;
        let (new, old) = (scene.client(), scene.old_client());
        let said = new.call("SendMessage", send_params("hi")).await;
        let message = &said["message"];
        assert_eq!(message["parts"], json!([{"text": "Hello"}]), "{said}");
        assert_eq!(message["role"], "ROLE_AGENT");
        assert!(
            message["contextId"].is_string() && message.get("taskId").is_none(),
            "{said}"
        );
        let said = new.post("/message:send", &send_params("hi")).await.body;
        assert_eq!(said["message"]["parts"][0]["text"], "Hello", "{said}");
        let said = old
            .call("message/send", json!({"message": v0_3_message("hi")}))
            .await;
        assert_eq!(
            (&said["kind"], &said["parts"][0]["text"]),
            (&json!("message"), &json!("Hello"))
        );

        let events =
            results(collect_events(new.stream("SendStreamingMessage", send_params("hi")).await).await);
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0]["message"]["parts"][0]["text"], "Hello");
    }
}
