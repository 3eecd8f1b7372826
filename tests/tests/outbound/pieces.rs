//! Agents whose results come in pieces: all of them arrive, in order and as one content, and a result is complete when
//! its agent says so, or when its task is COMPLETED.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use agentanycast::{ArtifactEvent, EndReason, Part, Task};
use agentanycast_tests::{
    cli::anycast_at,
    task_assertions::{completed, not_completed},
    within,
};
use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, channel::mpsc, stream};
use serde_json::{Value, json};

use crate::http_agent::{HttpAgent, daemon, result, send};

type Events = mpsc::UnboundedSender<Value>;

/// An agent whose next stream is what is sent here; for each stream there is one.
async fn agent_with(streams: Vec<mpsc::UnboundedReceiver<Value>>, version: &'static str) -> HttpAgent {
    let streams = Arc::new(Mutex::new(streams));
    HttpAgent::answering(version, true, move |_| match streams.lock().unwrap().pop() {
        Some(events) => body(events),
        None => result(&json!({"id": "t1", "status": {"state": "TASK_STATE_WORKING"}})),
    })
    .await
}

fn body(events: impl futures::Stream<Item = Value> + Send + 'static) -> Response {
    let events = events.map(|result| {
        let event = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        Ok::<_, Infallible>(Bytes::from(format!("data: {event}\n\n")))
    });
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(events),
    )
        .into_response()
}

/// An agent that tells this to each message.
async fn telling(events: Vec<Value>) -> HttpAgent {
    HttpAgent::answering("1.0", true, move |_| body(stream::iter(events.clone()))).await
}

fn begun() -> Value {
    json!({"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}})
}

fn piece(text: &str, append: bool, last: bool) -> Value {
    json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1", "append": append, "lastChunk": last,
        "artifact": {"artifactId": "a1", "name": "answer", "parts": [{"text": text}]}}})
}

fn state(state: &str, said: Option<&str>) -> Value {
    let mut status = json!({ "state": format!("TASK_STATE_{state}") });
    if let Some(said) = said {
        status["message"] = json!({"messageId": said, "role": "ROLE_AGENT", "parts": [{"text": said}]});
    }
    json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": status}})
}

fn texts(task: &Task) -> Vec<&str> {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    parts.filter_map(Part::as_text).collect()
}

/// The bytes of the next chunks, so many.
async fn bytes(
    events: &mut (impl futures::Stream<Item = Result<ArtifactEvent, agentanycast::Error>> + Unpin),
    count: usize,
) -> String {
    let mut all = Vec::new();
    while all.len() < count {
        match within("the next piece", events.next()).await.unwrap().unwrap() {
            ArtifactEvent::Start { .. } => {}
            ArtifactEvent::Chunk { data, .. } => all.extend_from_slice(&data),
            other => panic!("{other:?} after {} of {count} bytes", all.len()),
        }
    }
    String::from_utf8(all).unwrap()
}

/// Why the artifact ended, which is told next.
async fn end(
    events: &mut (impl futures::Stream<Item = Result<ArtifactEvent, agentanycast::Error>> + Unpin),
) -> EndReason {
    match within("the end", events.next()).await.unwrap().unwrap() {
        ArtifactEvent::End { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

async fn five_pieces(
    events: &Events,
    read: &mut (impl futures::Stream<Item = Result<ArtifactEvent, agentanycast::Error>> + Unpin),
) {
    events.unbounded_send(begun()).unwrap();
    for number in 1..=5 {
        events
            .unbounded_send(piece(&format!("piece {number};"), number > 1, false))
            .unwrap();
        assert_eq!(bytes(read, 8).await, format!("piece {number};"));
    }
}

#[tokio::test]
async fn each_piece_is_read_when_it_comes_and_the_end_is_the_agents() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    for version in ["1.0", "0.3"] {
        let (events, stream) = mpsc::unbounded();
        let agent = agent_with(vec![stream], version).await;
        let handle = send(&node, &agent.url()).await;
        let mut read = handle.artifacts();
        five_pieces(&events, &mut read).await;
        // An empty piece that is the last one.
        events.unbounded_send(piece("", true, true)).unwrap();
        assert_eq!(end(&mut read).await, EndReason::Complete);
        events.unbounded_send(state("COMPLETED", None)).unwrap();
        let task = completed(&handle).await;
        assert_eq!(texts(&task), ["piece 1;piece 2;piece 3;piece 4;piece 5;"]);
    }
}

#[tokio::test]
async fn without_a_last_piece_the_end_of_the_task_tells() {
    let (_daemon, node) = daemon("allow_private = true\n").await;
    for (ends, reason) in [("COMPLETED", EndReason::Complete), ("FAILED", EndReason::Error)] {
        let (events, stream) = mpsc::unbounded();
        let agent = agent_with(vec![stream], "1.0").await;
        let handle = send(&node, &agent.url()).await;
        let mut read = handle.artifacts();
        five_pieces(&events, &mut read).await;
        events.unbounded_send(state(ends, None)).unwrap();
        assert_eq!(end(&mut read).await, reason);
        if ends == "FAILED" {
            not_completed(&handle).await;
        }
    }
}

#[tokio::test]
async fn pieces_are_printed_as_one_text() {
    let (daemon, _node) = daemon("allow_private = true\n").await;
    let (working, done) = (state("WORKING", None), state("COMPLETED", None));
    let pieces = [
        piece("one ", false, false),
        piece("two ", true, false),
        piece("three", true, false),
    ];
    let told = |last: &[Value]| {
        let all = [begun(), working.clone()].into_iter().chain(pieces.clone());
        all.chain(last.iter().cloned())
            .chain([done.clone()])
            .collect::<Vec<_>>()
    };
    let said = |texts: &[&str]| {
        let texts = texts.iter().map(|text| state("WORKING", Some(text)));
        [begun()]
            .into_iter()
            .chain(texts)
            .chain([done.clone()])
            .collect::<Vec<_>>()
    };
    for (what, events, printed, streamed) in [
        ("pieces", told(&[]), "one two three\n", "one two three\n"),
        (
            "an end",
            told(&[piece("", true, true)]),
            "one two three\n",
            "one two three\n",
        ),
        // Agents on fasta2a send the whole at the end.
        (
            "whole",
            told(&[piece("one two three", false, true)]),
            "one two three\n",
            "one two three\n",
        ),
        (
            "other",
            told(&[piece("three", false, true)]),
            "three\n",
            "three\n",
        ),
        (
            "more",
            told(&[piece("", true, true), piece("!", true, true)]),
            "one two three!\n",
            "!\n",
        ),
        (
            "said",
            said(&["thinking", "forty-two"]),
            "thinking\nforty-two\n",
            "thinking\nforty-two\n",
        ),
    ] {
        let agent = telling(events).await;
        let url = agent.url();
        let plain = anycast_at(&daemon, &["send", "--url", &url, "hello"]).await;
        assert_eq!(
            (plain.status.code(), plain.stdout.as_str()),
            (Some(0), printed),
            "{what}"
        );
        let live = anycast_at(&daemon, &["send", "--url", &url, "--stream", "hello"]).await;
        assert_eq!(live.status.code(), Some(0), "{what}: {}", live.all_output);
        // How much of it was there when it was read first is chance.
        assert!(live.stdout.ends_with(streamed), "{what}: {}", live.all_output);
        let json = anycast_at(&daemon, &["send", "--url", &url, "--stream", "--json", "hello"]).await;
        assert_eq!(json.status.code(), Some(0), "{what}: {}", json.all_output);
    }
}
