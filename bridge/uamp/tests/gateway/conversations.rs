//! What becomes of a conversation: an answer, a result in pieces, a question, a cancel, a failure, a refusal.

use agentanycast_gateway::Target;
use agentanycast_proto::v1::TaskStatus;
use agentanycast_uamp::{
    body::EnvelopeBody,
    delta::DeltaType,
    envelope::{EnvelopeDraft, Intent},
};
use serde_json::json;

use crate::fixture::{TestGateway, answer, draft, gateway_identity, http, now_ms, said, sender, signed};

#[tokio::test]
async fn an_ask_is_a_task_whose_end_is_done() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    let ask = draft(Intent::Ask, "2+2");
    let path = gateway.ask(&http, &ask).await;
    let deltas = gateway.events(&http, &path, None).await.rest().await;
    assert_eq!(
        deltas.iter().map(said).collect::<Vec<_>>(),
        [(0, DeltaType::Done, answer("2+2"))]
    );
    let state = gateway.node.state();
    let task = state.tasks.values().next().unwrap();
    assert_eq!(task.target, Target::Own);
    let labels = &task.task.metadata;
    assert_eq!(labels["uamp.from"], sender().did());
    assert_eq!(labels["uamp.id"], ask.id.to_string());
    assert_eq!(labels["gateway.caller"], "uamp:alice");
    // The far side can verify what was signed.
    let parts = &task.task.messages[0].parts;
    assert_eq!(parts[1].media_type, "application/uamp+json");
}

#[tokio::test]
async fn the_same_envelope_again_begins_nothing() {
    let mut gateway = TestGateway::start().await;
    let http = http(false);
    for ask in [
        draft(Intent::Ask, "once"),
        draft(Intent::Ask, "twice").with_stream_id("my stream/1"),
    ] {
        let before = gateway.node.state().tasks.len();
        let first = gateway.ask(&http, &ask).await;
        let again = gateway.ask(&http, &ask).await;
        assert_eq!(first, again);
        let (one, two) = tokio::join!(gateway.ask(&http, &ask), gateway.ask(&http, &ask));
        assert_eq!((one, two), (first.clone(), first.clone()));
        gateway.restart().await;
        assert_eq!(gateway.ask(&http, &ask).await, first);
        assert_eq!(gateway.node.state().tasks.len(), before + 1);
        let deltas = gateway.events(&http, &first, None).await.rest().await;
        assert_eq!(deltas.len(), 1);
    }
}

#[tokio::test]
async fn a_question_is_answered_in_its_stream() {
    for restarts in [false, true] {
        let mut gateway = TestGateway::start().await;
        let http = http(false);
        let ask = draft(Intent::Ask, "ask");
        let path = gateway.ask(&http, &ask).await;
        let mut events = gateway.events(&http, &path, None).await;
        let question = said(&events.next().await.unwrap());
        let wanted = json!({ "state": "input_required", "message": "which colour?" });
        assert_eq!(question, (0, DeltaType::Progress, wanted));
        if restarts {
            gateway.restart().await;
            events = gateway.events(&http, &path, Some(0)).await;
        }
        let reply = draft(Intent::Ask, "blue").with_reply_to(ask.id);
        assert_eq!(gateway.ask(&http, &reply).await, path);
        assert_eq!(gateway.ask(&http, &reply).await, path);
        let end = events.rest().await;
        assert_eq!(
            end.iter().map(said).collect::<Vec<_>>(),
            [(1, DeltaType::Done, answer("blue"))]
        );
        assert_eq!(gateway.node.state().tasks.len(), 1);
        // The conversation has ended: what follows is a task of its own in the same context.
        let next = draft(Intent::Ask, "and red?").with_reply_to(ask.id);
        assert_ne!(gateway.ask(&http, &next).await, path);
        let state = gateway.node.state();
        let contexts: std::collections::BTreeSet<_> =
            state.tasks.values().map(|task| &task.task.context_id).collect();
        assert_eq!((state.tasks.len(), contexts.len()), (2, 1));
    }
}

#[tokio::test]
async fn a_cancel_ends_the_task_and_the_stream() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    for by_stream in [false, true] {
        let mut ask = draft(Intent::Ask, "work");
        if by_stream {
            ask = ask.with_stream_id("str-1");
        }
        let path = gateway.ask(&http, &ask).await;
        let mut events = gateway.events(&http, &path, None).await;
        let working = said(&events.next().await.unwrap());
        assert_eq!(
            working,
            (
                0,
                DeltaType::Progress,
                json!({ "state": "working", "message": "half way" })
            )
        );
        let cancel = draft(Intent::Cancel, "");
        let cancel = if by_stream {
            cancel.with_stream_id("str-1")
        } else {
            cancel.with_reply_to(ask.id)
        };
        let response = gateway.post(&http, signed(&cancel)).await;
        assert_eq!(response.status(), 202);
        assert!(response.headers().get("location").is_none());
        assert_eq!(
            events.rest().await.iter().map(said).collect::<Vec<_>>(),
            [(1, DeltaType::Cancel, json!({}))]
        );
    }
}

#[tokio::test]
async fn failures_and_refusals_are_errors() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    for (text, payload) in [
        ("fail", json!({ "message": "it broke" })),
        (
            "reject",
            json!({ "code": "4.03", "denied": true, "message": "not mine" }),
        ),
    ] {
        let path = gateway.ask(&http, &draft(Intent::Ask, text)).await;
        let deltas = gateway.events(&http, &path, None).await.rest().await;
        assert_eq!(
            deltas.iter().map(said).collect::<Vec<_>>(),
            [(0, DeltaType::Error, payload)]
        );
    }
}

#[tokio::test]
async fn what_needs_no_answer_has_no_stream() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    for intent in [Intent::Inform, Intent::Notify] {
        let response = gateway.post(&http, signed(&draft(intent, "news"))).await;
        assert_eq!(response.status(), 202);
        assert!(response.headers().get("location").is_none());
    }
    for intent in [Intent::Confirm, Intent::Deny] {
        let response = gateway.post(&http, signed(&draft(intent, "fine"))).await;
        assert_eq!(response.status(), 202);
    }
    assert_eq!(gateway.node.state().tasks.len(), 2);
    assert_eq!(gateway.figure("uamp_envelopes"), 4);
}

#[tokio::test]
async fn several_receivers_are_a_task_each_in_one_stream() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    let peer = "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH";
    let mut ask = draft(Intent::Ask, "hello");
    ask.to = vec![
        "urn:agentanycast:skill:greet".to_owned(),
        format!("{peer}#polite"),
        "urn:agentanycast:skill:none".to_owned(),
        format!("{}#two", gateway_identity().did()),
    ];
    let path = gateway.ask(&http, &ask).await;
    let deltas = gateway.events(&http, &path, None).await.rest().await;
    let numbers: Vec<_> = deltas.iter().map(|delta| delta.seq).collect();
    assert!(numbers.iter().copied().eq(0..deltas.len() as u64), "{numbers:?}");
    let end = deltas.last().unwrap();
    assert_eq!(end.kind, DeltaType::Done);
    let results = end.payload["results"].as_array().unwrap();
    let kinds: Vec<_> = results
        .iter()
        .map(|result| result["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["done", "done", "error", "done"]);
    assert_eq!(results[1]["receiver"], ask.to[1]);
    let state = gateway.node.state();
    let targets: Vec<_> = state
        .tasks
        .values()
        .map(|task| format!("{:?}", task.target))
        .collect();
    assert_eq!(targets.len(), 3);
    for wanted in [
        "Skill(\"greet\")",
        "agent: \"polite\"",
        "peer: None, agent: \"two\"",
    ] {
        assert!(
            targets.iter().any(|target| target.contains(wanted)),
            "{targets:?}"
        );
    }
}

#[tokio::test]
async fn a_stream_of_several_receivers_outlives_the_gateway() {
    let mut gateway = TestGateway::start().await;
    let http = http(false);
    let mut ask = draft(Intent::Ask, "work");
    ask.to = ["none", "one", "two"]
        .map(|skill| format!("urn:agentanycast:skill:{skill}"))
        .to_vec();
    let path = gateway.ask(&http, &ask).await;
    let seen = gateway.events(&http, &path, None).await.at_once(2).await;
    let receivers: std::collections::BTreeSet<_> = seen
        .iter()
        .map(|delta| delta.payload["receiver"].as_str().unwrap().to_owned())
        .collect();
    assert!(receivers.contains(&ask.to[1]) && receivers.contains(&ask.to[2]));
    gateway.restart().await;
    let ids: Vec<String> = gateway.node.state().tasks.keys().cloned().collect();
    for id in ids {
        gateway.node.state().tasks.get_mut(&id).unwrap().complete(&id);
    }
    let deltas = gateway.events(&http, &path, Some(1)).await.rest().await;
    assert_eq!(deltas[0].seq, 2);
    let end = deltas.last().unwrap();
    let results = end.payload["results"].as_array().unwrap();
    let kinds: Vec<_> = results
        .iter()
        .map(|result| result["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        (end.kind, kinds),
        (DeltaType::Done, vec!["error", "done", "done"])
    );
    assert_eq!(results[2]["receiver"], ask.to[2]);
}

#[tokio::test]
async fn bodies_are_parts_of_their_kind() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    let json = json!({ "n": [1, 2.5, "ü"] });
    for body in [
        EnvelopeBody::json(&json),
        EnvelopeBody::bytes("image/png", b"\x89PNG"),
    ] {
        let ask = EnvelopeDraft::new(
            Intent::Ask,
            vec![gateway_identity().did().to_owned()],
            body,
            now_ms(),
        );
        gateway.ask(&http, &ask).await;
    }
    let state = gateway.node.state();
    let mut kinds: Vec<String> = state
        .tasks
        .values()
        .map(|task| {
            let part = &task.task.messages[0].parts[0];
            let content = format!("{:?}", part.content);
            format!("{} {}", part.media_type, content.split('(').nth(1).unwrap())
        })
        .collect();
    kinds.sort();
    assert_eq!(kinds, ["application/json DataPart", "image/png RawPart"]);
}

#[tokio::test]
async fn a_subscriber_follows_the_task_of_another_envelope() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    let ask = draft(Intent::Ask, "work");
    gateway.ask(&http, &ask).await;
    let subscribe = draft(Intent::Subscribe, "").with_reply_to(ask.id);
    let path = gateway.ask(&http, &subscribe).await;
    let mut events = gateway.events(&http, &path, None).await;
    assert_eq!(events.next().await.unwrap().payload["state"], "working");
    gateway
        .node
        .change("work", |task| task.set(TaskStatus::Working, Some("nearly")));
    assert_eq!(events.next().await.unwrap().payload["message"], "nearly");
    gateway.node.change("work", |task| task.complete("done"));
    assert_eq!(
        said(&events.next().await.unwrap()),
        (2, DeltaType::Done, answer("done"))
    );
}

/// A gateway that is killed amid 100 conversations: each ends, none is told twice, none is begun twice.
#[tokio::test]
async fn conversations_outlive_the_gateway() {
    let mut gateway = TestGateway::start().await;
    let http = http(false);
    let mut asks = Vec::new();
    for number in 0..100 {
        let text = match number % 4 {
            0 => format!("plain {number}"),
            1 => "chunks 40 20000".to_owned(),
            2 => "ask".to_owned(),
            _ => "fail".to_owned(),
        };
        let ask = draft(Intent::Ask, &text);
        let path = gateway.ask(&http, &ask).await;
        let mut seen = Vec::new();
        if number % 8 == 1 {
            seen = gateway.events(&http, &path, None).await.at_once(10).await;
        }
        asks.push((ask, path, text, seen));
        if number == 50 {
            gateway.kill_and_start().await;
        }
    }
    gateway.kill_and_start().await;
    for (ask, path, text, mut seen) in asks {
        if text == "ask" {
            let reply = draft(Intent::Ask, "blue").with_reply_to(ask.id);
            assert_eq!(gateway.ask(&http, &reply).await, path);
        }
        let last = seen
            .last()
            .map(|delta: &agentanycast_uamp::delta::Delta| delta.seq);
        seen.extend(gateway.events(&http, &path, last).await.rest().await);
        let numbers = seen.iter().map(|delta| delta.seq);
        assert!(numbers.eq(0..seen.len() as u64), "{text}");
        let end = seen.last().unwrap();
        let wanted = if text == "fail" {
            DeltaType::Error
        } else {
            DeltaType::Done
        };
        assert_eq!(end.kind, wanted, "{text}");
        let bytes: usize = seen
            .iter()
            .filter_map(|delta| delta.payload.get("chunk_b64")?.as_str())
            .map(|text| text.trim_end_matches('=').len() * 3 / 4)
            .sum();
        let wanted = if text.starts_with("chunks") {
            40 * 20_000
        } else {
            0
        };
        assert_eq!(bytes, wanted, "{text}");
    }
    assert_eq!(gateway.node.state().tasks.len(), 100);
}
