//! A task that is sealed goes by a bridge and a proxy before it, and neither reads it or changes it: an agent on one node,
//! the bridge in a second one, the sender on a third that knows neither of them but by URL.

mod setup;

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use agentanycast::{Artifact, Message, Part, PeerId, Target, Task, TaskError, TaskHandle, TaskStatus};
use agentanycast_tests::{
    agent::TestAgent as MeshAgent,
    cli::{anycast_at, anycast_json},
    task_assertions::{completed, not_completed},
    within,
};
use futures::StreamExt as _;
use serde_json::{Value, json};

use self::setup::{BindingVariant, SealedSetup, Tampering};
use crate::http_agent::{HttpAgent, card, daemon, is_card, result};

/// The media type of a box.
const SEALED: &str = "application/vnd.agentanycast.sealed";

/// A peer that is not there.
const ANYBODY: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

/// What the sender says.
fn message() -> Message {
    Message::new([
        Part::text("secret text").with_metadata("k", "secret mark"),
        Part::raw(&b"secret bytes"[..], "application/x-test").with_filename("secret.bin"),
        Part::data(json!({"secret": [1, null, "ü"]})).unwrap(),
    ])
}

async fn send(scene: &SealedSetup, message: impl Into<Message>) -> TaskHandle {
    let task = scene.sender.task(Target::url(scene.url()), message);
    let task = task.metadata("priority", "secret label");
    task.sealed_for(&scene.reader()).send().await.unwrap()
}

async fn until(handle: &TaskHandle, status: TaskStatus) {
    let mut updates = handle.updates();
    let reached = async {
        while let Some(update) = updates.next().await {
            if update.unwrap().status == status {
                return;
            }
        }
        let task = handle.snapshot().await.unwrap();
        panic!(
            "the task ended before it was {status}: {} ({})",
            task.status,
            task.reason()
        )
    };
    within("the task comes so far", reached).await;
}

fn texts(task: &Task) -> Vec<String> {
    task.messages.iter().map(Message::text_content).collect()
}

/// Whether a word is in any file there.
fn is_in_files(directory: &Path, word: &[u8]) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            return is_in_files(&entry.path(), word);
        }
        let bytes = fs::read(entry.path()).unwrap_or_default();
        kind.is_file() && bytes.windows(word.len()).any(|window| window == word)
    })
}

/// The agent is given what the sender has said, and the sender what the agent has; nobody between them.
async fn carried(way: BindingVariant) {
    let scene = SealedSetup::new(way, Tampering::nothing).await;
    let from = scene.sender.info().await.unwrap().peer_id.unwrap();
    let _agent = MeshAgent::serve(&scene.agents().await, move |task| {
        let from = from.clone();
        async move {
            assert_eq!(task.message().parts, message().parts);
            assert_eq!(task.task().sealed_by(), Some(from));
            assert_eq!(task.metadata()["priority"], "secret label");
            task.working("secret progress").await?;
            let answer = task.ask("secret question").await?;
            assert_eq!(answer.text_content(), "secret answer");
            let artifact = Artifact::new("secret name", [Part::text("secret result")]);
            task.complete_with([artifact], Message::agent_text("secret end"))
                .await?;
            Ok(())
        }
    });
    let handle = send(&scene, message()).await;
    until(&handle, TaskStatus::InputRequired).await;
    handle.reply("secret answer").await.unwrap();
    let task = completed(&handle).await;
    let said = [
        "secret text",
        "secret progress",
        "secret question",
        "secret answer",
        "secret end",
    ];
    assert_eq!(texts(&task), said);
    assert_eq!(task.artifacts[0].text_content(), "secret result");
    assert_eq!(task.artifacts[0].name, "secret name");
    assert_eq!(
        (task.sealed_for(), task.sealed_by()),
        (Some(scene.reader()), None)
    );

    let heard = scene.heard();
    assert!(heard.len() > 1000 && heard.contains(SEALED), "{heard}");
    assert!(!heard.contains("secret"), "{heard}");
    let kept = scene.bridge.home().path();
    assert!(
        is_in_files(kept, SEALED.as_bytes()),
        "the bridge's node has kept the boxes"
    );
    assert!(!is_in_files(kept, b"secret"));
    // And the two ends have it as it is.
    assert!(is_in_files(scene.agent.home().path(), b"secret progress"));
}

#[tokio::test]
async fn nobody_on_the_way_reads_a_sealed_task() {
    carried(BindingVariant::new("1.0", true)).await;
}

#[tokio::test]
async fn nobody_on_the_way_reads_a_sealed_task_that_is_looked_at() {
    carried(BindingVariant::new("1.0", false)).await;
}

#[tokio::test]
async fn nobody_on_the_way_reads_a_sealed_task_of_0_3() {
    tokio::join!(
        carried(BindingVariant::new("0.3", true)),
        carried(BindingVariant::new("0.3", false))
    );
}

#[tokio::test]
async fn nobody_on_the_way_reads_a_sealed_task_over_rest() {
    tokio::join!(
        carried(BindingVariant::rest("1.0")),
        carried(BindingVariant::rest("0.3"))
    );
}

#[tokio::test]
async fn what_the_agent_streams_is_sealed_as_a_whole() {
    let scene = SealedSetup::new(BindingVariant::new("1.0", true), Tampering::nothing).await;
    let _agent = MeshAgent::serve(&scene.agents().await, |task| async move {
        let mut writer = task.stream_artifact("secret name", "text/plain").await?;
        for piece in 0..20 {
            writer.write(format!("secret piece {piece};")).await?;
        }
        writer.finish().await?;
        task.complete([]).await?;
        Ok(())
    });
    let task = completed(&send(&scene, "go").await).await;
    let pieces: Vec<String> = (0..20).map(|piece| format!("secret piece {piece};")).collect();
    let whole = pieces.concat();
    let bytes = task.artifacts[0].parts[0].as_raw().map(<[u8]>::to_vec);
    let text = bytes.map_or_else(
        || task.artifacts[0].text_content(),
        |bytes| String::from_utf8(bytes).unwrap(),
    );
    assert_eq!(text, whole);
    assert!(!scene.heard().contains("secret"));
    assert!(!is_in_files(scene.bridge.home().path(), b"secret"));
}

/// A sealed task that somebody on the way has changed; how it ends, and how often the agent was asked.
async fn changed(change: fn(&mut Value)) -> (TaskError, usize) {
    let scene = SealedSetup::new(BindingVariant::new("1.0", false), Tampering(change)).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let _agent = MeshAgent::serve(&scene.agents().await, move |task| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            task.working("on it").await?;
            task.complete([Artifact::text("result")]).await?;
            Ok(())
        }
    });
    let error = not_completed(&send(&scene, "do it").await).await;
    let task = error.task().unwrap();
    // What was changed is in no message but the reason.
    assert!(!texts(task)[1..].iter().any(|text| text == "forged"), "{task:?}");
    assert!(
        task.artifacts
            .iter()
            .all(|artifact| artifact.text_content() == "result")
    );
    (error, asked.load(Ordering::Relaxed))
}

fn reason(error: &TaskError) -> String {
    let task = error.task().unwrap();
    assert_eq!(task.status, TaskStatus::Failed, "{task:?}");
    task.reason()
}

/// Each box that is below this in JSON.
fn boxes(json: &mut Value, f: &mut dyn FnMut(&mut String)) {
    match json {
        Value::Array(values) => values.iter_mut().for_each(|value| boxes(value, f)),
        Value::Object(fields) => {
            if fields.get("mediaType").is_some_and(|kind| kind == SEALED)
                && let Some(Value::String(base64)) = fields.get_mut("raw")
            {
                f(base64);
            }
            fields.values_mut().for_each(|value| boxes(value, f));
        }
        _ => {}
    }
}

fn flip(base64: &mut String) {
    let at = base64.len() / 2;
    let other = if base64.as_bytes()[at] == b'A' { "B" } else { "A" };
    base64.replace_range(at..=at, other);
}

#[tokio::test]
async fn a_changed_message_is_refused_at_the_agents_node() {
    let (error, asked) = changed(|json| boxes(&mut json["params"]["message"], &mut flip)).await;
    let task = error.task().unwrap();
    assert!(
        matches!(task.status, TaskStatus::Failed | TaskStatus::Rejected),
        "{task:?}"
    );
    let reason = task.reason();
    assert!(
        reason.contains("not sealed, by whoever carries the task"),
        "{reason}"
    );
    assert!(reason.contains("the box cannot be opened"), "{reason}");
    assert_eq!(asked, 0);
}

#[tokio::test]
async fn a_message_in_the_clear_beside_a_box_is_refused() {
    let (error, asked) = changed(|json| {
        if let Some(parts) = json["params"]["message"]["parts"].as_array_mut() {
            parts.push(json!({"text": "forged"}));
        }
    })
    .await;
    let reason = error.task().unwrap().reason();
    assert!(reason.contains("sealed in part only"), "{reason}");
    assert_eq!(asked, 0);
}

#[tokio::test]
async fn a_changed_answer_fails_the_task() {
    let (error, _) = changed(|json| boxes(&mut json["result"], &mut flip)).await;
    let reason = reason(&error);
    assert!(reason.contains("the box cannot be opened"), "{reason}");
}

#[tokio::test]
async fn an_answer_in_the_place_of_another_fails_the_task() {
    // The artifact's box as the last message.
    let (error, _) = changed(|json| {
        let task = match json["result"].get("task") {
            Some(_) => &mut json["result"]["task"],
            None => &mut json["result"],
        };
        let parts = task["artifacts"][0]["parts"].clone();
        if parts.is_array() && task["status"]["message"].is_object() {
            task["status"]["message"]["parts"] = parts;
        }
    })
    .await;
    let reason = reason(&error);
    assert!(reason.contains("its box holds something else"), "{reason}");
}

#[tokio::test]
async fn an_answer_without_its_results_fails_the_task() {
    let (error, _) = changed(|json| {
        for path in ["/result/task", "/result"] {
            if let Some(Value::Object(task)) = json.pointer_mut(path) {
                task.remove("artifacts");
            }
        }
    })
    .await;
    let reason = reason(&error);
    assert!(reason.contains("has not come"), "{reason}");
}

#[tokio::test]
async fn an_answer_that_is_not_sealed_fails_the_task() {
    let forge = |json: &mut Value| {
        for path in ["/result/task/artifacts/0/parts", "/result/artifacts/0/parts"] {
            if let Some(parts) = json.pointer_mut(path) {
                *parts = json!([{"text": "forged"}]);
            }
        }
    };
    let (error, _) = changed(forge).await;
    let text = reason(&error);
    assert!(
        text.contains("an artifact of the sealed task is not taken: it is not sealed"),
        "{text}"
    );

    // An agent that does not know boxes answers in the clear.
    let agent = HttpAgent::start(|asked, address| async move {
        if is_card(&asked) {
            return card(&format!("http://{address}/"), "1.0", false);
        }
        assert!(!String::from_utf8_lossy(&asked.body).contains("secret"));
        let said = json!({"messageId": "said", "role": "ROLE_AGENT", "parts": [{"text": "what is this?"}]});
        result(&json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED", "message": said}}}))
    })
    .await;
    let (daemon, node) = daemon("allow_private = true\n").await;
    let seal = |peer: &PeerId| {
        node.task(Target::url(agent.url()), "secret")
            .sealed_for(peer)
            .send()
    };
    // It is for somebody else: this node itself is told at once.
    let refused = seal(daemon.peer_id()).await.unwrap_err();
    assert_eq!(refused.kind(), agentanycast::ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("is this node itself"), "{refused}");
    let handle = seal(&ANYBODY.parse().unwrap()).await.unwrap();
    let error = not_completed(&handle).await;
    let text = reason(&error);
    assert!(text.contains("it is not sealed"), "{text}");
    assert_eq!(error.task().unwrap().messages.len(), 2);
}

/// What the bridge calls a task.
async fn sent_as(scene: &SealedSetup, handle: &TaskHandle) -> String {
    let sent = anycast_json(&scene.home, &["trace", handle.id()]).await;
    sent["external"]["remote_task_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_box_for_another_node_says_which_and_what_to_do() {
    let scene = SealedSetup::new(BindingVariant::new("1.0", false), Tampering::nothing).await;
    let _agent = MeshAgent::echo(&scene.agents().await);
    let task = scene.sender.task(Target::url(scene.url()), "secret");
    let handle = task.sealed_for(scene.bridge.peer_id()).send().await.unwrap();
    let error = not_completed(&handle).await;
    let reason = error.task().unwrap().reason();
    let (wrong, right) = (scene.bridge.peer_id(), scene.reader());
    for part in [
        format!("it is sealed for {wrong}, and this node is {right}"),
        format!("send it to the URL of {wrong}, or seal it for {right}"),
    ] {
        assert!(reason.contains(&part), "{reason}");
    }
    // At the node that refused it it is found by the same id, though there is no audit log.
    let refused = anycast_json(&scene.agent, &["trace", handle.id()]).await;
    assert_eq!(refused["verdict"], "refused");
    let why = refused["why"].as_str().unwrap();
    assert!(why.contains(&format!("it is sealed for {wrong}")), "{why}");
    let step = &refused["refusals"][0];
    assert_eq!(step["peer_id"], scene.bridge.peer_id().as_str());
    assert_eq!(step["task_id"], sent_as(&scene, &handle).await.as_str());
    let unknown = anycast_at(&scene.agent, &["trace", "nobody"]).await;
    assert!(
        unknown.all_output.contains("nor was it refused here of late"),
        "{}",
        unknown.all_output
    );
    // No rule or limit has to do with it.
    let sent = anycast_json(&scene.home, &["trace", handle.id()]).await;
    let carried = sent["external"]["remote_task_id"].as_str().unwrap();
    let carried = anycast_json(&scene.bridge, &["trace", carried]).await;
    assert_eq!(carried["verdict"], "refused");
    for trace in [sent, carried] {
        let next = trace["next"].as_str().unwrap();
        assert!(
            next.starts_with("whoever sealed it has to seal it for the node"),
            "{next}"
        );
    }
}

#[tokio::test]
async fn a_sealed_task_is_traced_by_its_senders_id_at_both_ends() {
    let scene = SealedSetup::new(BindingVariant::new("1.0", true), Tampering::nothing).await;
    let _agent = MeshAgent::echo(&scene.agents().await);
    let handle = send(&scene, "hello").await;
    completed(&handle).await;
    let sent = anycast_json(&scene.home, &["trace", handle.id()]).await;
    let kinds: Vec<_> = sent["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["kind"])
        .collect();
    assert_eq!(kinds[..3], ["sent", "card", "taken"]);
    assert_eq!(sent["sealed"]["for"], scene.reader().as_str());

    let remote = sent["external"]["remote_task_id"].as_str().unwrap();
    assert_ne!(remote, handle.id());
    let came = anycast_json(&scene.agent, &["trace", handle.id()]).await;
    assert_eq!(
        (&came["task_id"], &came["side"]),
        (&json!(remote), &json!("assignee"))
    );
    let sealed = json!({"task_id": handle.id(), "by": scene.home.peer_id().as_str(), "for": null});
    assert_eq!(came["sealed"], sealed);
    let said = anycast_at(&scene.agent, &["trace", handle.id()]).await.all_output;
    assert!(said.contains(&format!("as its task {}", handle.id())), "{said}");
    let shown = anycast_at(&scene.agent, &["task", handle.id()]).await;
    assert!(
        shown.status.success() && shown.all_output.contains(remote),
        "{}",
        shown.all_output
    );
    // Between them it has the other one only.
    let carried = anycast_json(&scene.bridge, &["trace", remote]).await;
    assert_eq!(
        (&carried["side"], &carried["sealed"]),
        (&json!("originator"), &Value::Null)
    );
    let unknown = anycast_at(&scene.bridge, &["trace", handle.id()]).await;
    assert!(!unknown.status.success(), "{}", unknown.all_output);
}

#[tokio::test]
async fn a_box_that_is_sent_twice_begins_one_task() {
    let scene = SealedSetup::new(BindingVariant::new("1.0", false), Tampering::nothing).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let _agent = MeshAgent::serve(&scene.agents().await, move |task| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            task.complete([Artifact::text("done")]).await?;
            Ok(())
        }
    });
    completed(&send(&scene, "do it").await).await;
    let again = scene.say_again().await;
    let state = again["result"]["task"]["status"]["state"].clone();
    assert!(
        state == "TASK_STATE_REJECTED" || state == "TASK_STATE_FAILED",
        "{again}"
    );
    assert!(again.to_string().contains("it has come before"), "{again}");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_sealed_task_outlives_the_daemons_of_both_ends() {
    let mut scene = SealedSetup::new(BindingVariant::new("1.0", true), Tampering::nothing).await;
    let handler = |task: agentanycast::IncomingTask| async move {
        assert!(task.task().sealed_by().is_some());
        let answer = task.ask("secret question").await?;
        task.complete([Artifact::text(answer.text_content())]).await?;
        Ok(())
    };
    let _agent = MeshAgent::serve(&scene.agents().await, handler);
    let handle = send(&scene, "secret task").await;
    until(&handle, TaskStatus::InputRequired).await;
    let id = handle.id().to_owned();
    drop(handle);
    scene.restart().await;
    let handle = scene.sender.task_handle(&id);
    handle.reply("secret answer").await.unwrap();
    let task = completed(&handle).await;
    assert_eq!(texts(&task), ["secret task", "secret question", "secret answer"]);
    assert_eq!(task.artifacts[0].text_content(), "secret answer");
    assert!(!scene.heard().contains("secret"));
    assert!(!is_in_files(scene.bridge.home().path(), b"secret"));
}

#[tokio::test]
async fn a_sealed_task_by_the_command_line() {
    let scene = SealedSetup::new(BindingVariant::new("1.0", true), Tampering::nothing).await;
    let _agent = MeshAgent::echo(&scene.agents().await);
    let (url, reader) = (scene.url(), scene.reader().to_string());
    let said = anycast_at(
        &scene.home,
        &["send", "--url", &url, "--seal-for", &reader, "hello"],
    )
    .await;
    assert!(said.status.success(), "{}", said.all_output);
    assert!(
        said.all_output.starts_with("echo: hello\n"),
        "{}",
        said.all_output
    );
    assert!(
        said.all_output
            .contains(&format!("sealed: the answer is from {reader}")),
        "{}",
        said.all_output
    );
    let said = anycast_at(&scene.home, &["send", "--url", &url, "hello"]).await;
    assert!(
        said.status.success() && !said.all_output.contains("sealed"),
        "{}",
        said.all_output
    );
    // To a peer it goes without.
    let said = anycast_at(&scene.home, &["send", &reader, "--seal-for", &reader, "hello"]).await;
    assert!(
        !said.status.success() && said.all_output.contains("--url"),
        "{}",
        said.all_output
    );
    let direct = scene.sender.task(Target::Peer(scene.reader()), "x");
    let refused = direct.sealed_for(&scene.reader()).send().await.unwrap_err();
    assert_eq!(refused.kind(), agentanycast::ErrorKind::InvalidArgument);
}
