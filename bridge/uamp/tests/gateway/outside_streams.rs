//! Streams of agents of others: how they end, break off, repeat and leave out frames, and what the agent is told.

use std::{sync::Arc, time::Duration};

use agentanycast_gateway::external_routes::ExternalRoutes;
use agentanycast_proto::v1::{self, ExternalAction, TaskStatus, part::Content};
use agentanycast_uamp::envelope::Intent;
use agentanycast_uamp_gateway::settings::UampSettings;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    fixture::TestGateway,
    outbound::{OutsideTasks, text_of},
    scripted_agent::{ScriptedAgent, StreamScript, frame},
};

/// A gateway with a task, and the agent that it goes to.
struct Outside {
    tasks: OutsideTasks,
    agent: ScriptedAgent,
    _gateway: TestGateway,
    _routing: AbortOnDropHandle<()>,
}

impl Outside {
    /// Sends the task `t` to an agent of this script.
    async fn start(script: impl Fn(usize, Option<u64>) -> StreamScript + Send + Sync + 'static) -> Self {
        let agent = ScriptedAgent::start(script).await;
        let settings = UampSettings {
            outbound_ca: Some(agent.certificate.clone()),
            ..UampSettings::default()
        };
        let tasks = OutsideTasks::new();
        let routes = ExternalRoutes::new(Arc::new(tasks.clone()));
        let mut gateway = TestGateway::with_identity(settings, [9; 32]).await;
        gateway.external = Some(routes.clone());
        gateway.restart().await;
        let routing = tokio::spawn(routes.run(CancellationToken::new()));
        tasks.say("t", &agent.url(), "2+2");
        Self {
            tasks,
            agent,
            _gateway: gateway,
            _routing: AbortOnDropHandle::new(routing),
        }
    }

    async fn ended(&self) -> v1::Task {
        self.tasks.ended("t").await
    }
}

fn done(seq: u64, text: &str) -> Value {
    frame(
        seq,
        "done",
        &json!({ "artifacts": [{ "artifact": "a", "parts": [{ "mime": "text/plain", "content": text }] }] }),
    )
}

fn working(seq: u64) -> Value {
    frame(seq, "progress", &json!({ "message": format!("step {seq}") }))
}

fn chunk(seq: u64, base64: &str) -> Value {
    frame(
        seq,
        "chunk",
        &json!({ "artifact": "a", "mime": "text/plain", "chunk_b64": base64 }),
    )
}

fn reason(task: &v1::Task) -> &str {
    text_of(&task.status_message.as_ref().unwrap().parts)
}

#[tokio::test]
async fn an_agent_that_has_ended_its_task_is_told_nothing_more() {
    for end in ["done", "error", "cancel"] {
        let outside = Outside::start(move |_, _| StreamScript {
            stays_open: true,
            ..StreamScript::events([working(0), frame(1, end, &json!({ "message": "over" }))])
        })
        .await;
        let task = outside.ended().await;
        let completes = end == "done";
        assert_eq!(task.status() == TaskStatus::Completed, completes, "{end}");
        // The task is settled: no step of it comes any more.
        assert_eq!(outside.agent.intents(), [Intent::Ask], "{end}");
        assert_eq!(outside.agent.opened().len(), 1, "{end}");
    }
}

#[tokio::test]
async fn an_agent_that_leaves_a_frame_out_each_time_is_told_4_09() {
    let outside = Outside::start(|_, _| StreamScript::events([working(0), working(2), done(3, "4")])).await;
    let task = outside.ended().await;
    assert_eq!(task.status(), TaskStatus::Failed);
    assert!(
        reason(&task).contains("4.09") && reason(&task).contains("frame 2 where 1 was due"),
        "{}",
        reason(&task)
    );
    let opened = outside.agent.opened();
    assert_eq!(
        opened,
        [None, Some(0), Some(0), Some(0)],
        "it is asked for again behind frame 0"
    );
    let envelopes = outside.agent.envelopes();
    let last = envelopes.last().unwrap();
    assert_eq!(last.intent(), Intent::Error);
    assert_eq!(last.reply_to(), Some(envelopes[0].id()));
    assert_eq!(last.stream_id(), Some("s"));
    let content: Value = serde_json::from_slice(&last.body().decode(4096).unwrap()).unwrap();
    assert_eq!(content["code"], "4.09");
}

#[tokio::test]
async fn a_stream_that_begins_again_at_its_first_frame_gives_each_frame_once() {
    let whole = || [chunk(0, "Zm9v"), chunk(1, "YmFy"), frame(2, "done", &json!({}))];
    let outside = Outside::start(move |opening, _| {
        StreamScript::events(whole().into_iter().take(opening + 1).collect::<Vec<_>>())
    })
    .await;
    let task = outside.ended().await;
    assert_eq!(task.status(), TaskStatus::Completed);
    assert_eq!(outside.agent.opened(), [None, Some(0), Some(1)]);
    let raw = task
        .artifacts
        .iter()
        .find_map(|artifact| match &artifact.parts[0].content {
            Some(Content::RawPart(raw)) => Some(raw.data.clone()),
            _ => None,
        });
    assert_eq!(raw.unwrap_or_default(), b"foobar");
}

#[tokio::test]
async fn a_stream_that_breaks_off_each_time_is_opened_ever_more_rarely() {
    let outside = Outside::start(|_, _| StreamScript::events([working(0)])).await;
    let pauses = || -> Vec<Duration> { outside.tasks.pauses() };
    let seen = crate::fixture::soon(async {
        while pauses().len() < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        pauses()
    })
    .await;
    let millis: Vec<u128> = seen.iter().take(3).map(Duration::as_millis).collect();
    assert_eq!(millis, [500, 1000, 2000]);
    assert!(outside.tasks.actions().contains(&ExternalAction::Failed));
}

#[tokio::test]
async fn an_end_that_comes_before_its_turn_is_not_taken_for_the_end() {
    let outside = Outside::start(|opening, _| match opening {
        0 => StreamScript::events([chunk(0, "Zm9v"), chunk(1, "YmFy")]),
        _ => StreamScript::events([done(0, "half")]),
    })
    .await;
    let task = outside.ended().await;
    assert_eq!(task.status(), TaskStatus::Failed);
    assert!(reason(&task).contains("4.09"), "{}", reason(&task));
}
