//! Streams: the window, acknowledgements, coming back after a cut and after a restart.

use agentanycast_uamp::{
    delta::{Delta, DeltaType},
    envelope::Intent,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    fixture::{TestGateway, ack, draft, http, signed},
    scripted::piece,
};

fn chunk(delta: &Delta) -> Vec<u8> {
    assert_eq!(delta.kind, DeltaType::Chunk);
    STANDARD
        .decode(delta.payload["chunk_b64"].as_str().unwrap())
        .unwrap()
}

/// The bytes of chunks that come one after another.
fn joined(deltas: &[Delta]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for delta in deltas {
        if delta.kind == DeltaType::Chunk {
            assert_eq!(delta.payload["offset"], bytes.len());
            bytes.extend(chunk(delta));
        }
    }
    bytes
}

fn whole(count: usize, size: usize) -> Vec<u8> {
    (0..count).flat_map(|number| piece(number, size)).collect()
}

#[tokio::test]
async fn no_frame_is_sent_beyond_the_window() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    for (window, most) in [(None, 63), (Some(1), 1), (Some(2), 1), (Some(10), 9)] {
        let name = format!("w-{window:?}");
        let mut ask = draft(Intent::Ask, "chunks 120 20000").with_stream_id(&name);
        ask.delta_window = window;
        let path = gateway.ask(&http, &ask).await;
        let mut events = gateway.events(&http, &path, None).await;
        let mut deltas = events.at_once(most).await;
        assert!(
            events.is_quiet().await,
            "window {window:?}: one slot is kept for the end"
        );
        // Each acknowledgement lets as many frames out.
        loop {
            let last = deltas.last().unwrap();
            if last.kind.is_terminal() {
                break;
            }
            let response = gateway.post(&http, ack(&name, last.seq)).await;
            assert_eq!(response.status(), 202);
            deltas.push(events.next().await.unwrap());
            while let Ok(Some(delta)) =
                tokio::time::timeout(std::time::Duration::from_millis(50), events.next()).await
            {
                deltas.push(delta);
            }
        }
        assert_eq!(deltas.last().unwrap().kind, DeltaType::Done);
        assert!(events.next().await.is_none(), "the stream ends behind its end");
        assert!(joined(&deltas) == whole(120, 20_000));
    }
}

#[tokio::test]
async fn a_result_is_told_while_it_is_produced() {
    let mut gateway = TestGateway::start().await;
    let http = http(false);
    // Small ones, ones that are whole in the task in the end, and ones that are not.
    for size in [1 << 10, 40 << 10, 100 << 10] {
        let text = format!("live 4 {size}");
        let path = gateway.ask(&http, &draft(Intent::Ask, &text)).await;
        let mut events = gateway.events(&http, &path, None).await;
        let mut deltas = vec![events.next().await.unwrap()];
        assert_eq!(deltas[0].payload["state"], "working");
        for made in 1..=4 {
            gateway.node.change(&text, |task| task.make(made));
            // The last piece may not be the only news.
            while joined(&deltas).len() < made * size {
                deltas.push(events.next().await.unwrap());
                assert_eq!(deltas.last().unwrap().kind, DeltaType::Chunk, "{size}");
            }
            assert!(joined(&deltas) == whole(made, size));
            if made == 2 {
                drop(events);
                gateway.restart().await;
                let last = deltas.last().unwrap().seq;
                events = gateway.events(&http, &path, Some(last)).await;
            }
        }
        let rest = events.rest().await;
        let kinds: Vec<_> = rest.iter().map(|delta| delta.kind).collect();
        assert_eq!(kinds, [DeltaType::Done], "nothing is told twice");
    }
}

#[tokio::test]
async fn a_consumer_comes_back_after_a_cut_and_after_a_restart() {
    let mut gateway = TestGateway::start().await;
    let http = http(false);
    let path = gateway.ask(&http, &draft(Intent::Ask, "chunks 200 10000")).await;
    let mut deltas: Vec<Delta> = Vec::new();
    for round in 0.. {
        let last = deltas.last().map(|delta| delta.seq);
        let mut events = gateway.events(&http, &path, last).await;
        let taken = 5 + round * 7;
        let mut ended = false;
        for _ in 0..taken {
            let Some(delta) = events.next().await else {
                ended = true;
                break;
            };
            deltas.push(delta);
        }
        if ended {
            break;
        }
        drop(events);
        if round % 2 == 1 {
            gateway.kill_and_start().await;
        }
    }
    assert!(
        deltas.iter().map(|delta| delta.seq).eq(0..deltas.len() as u64),
        "nothing comes twice"
    );
    assert!(joined(&deltas) == whole(200, 10_000));
    assert!(gateway.figure("uamp_deltas") > 0);
}

#[tokio::test]
async fn frames_that_were_not_acknowledged_are_the_same_after_a_restart() {
    let mut gateway = TestGateway::start().await;
    let http = http(false);
    let path = gateway.ask(&http, &draft(Intent::Ask, "chunks 100 10000")).await;
    let before = gateway.events(&http, &path, None).await.at_once(63).await;
    gateway.restart().await;
    let after = gateway.events(&http, &path, None).await.at_once(63).await;
    let said = |deltas: &[Delta]| deltas.iter().map(crate::fixture::said).collect::<Vec<_>>();
    assert!(said(&before) == said(&after));
    let from = gateway
        .events(&http, &format!("{path}?from=10"), None)
        .await
        .at_once(53)
        .await;
    assert!(said(&before)[10..] == said(&from));
}

#[tokio::test]
async fn an_envelope_that_is_repeated_after_a_restart_has_the_frames_of_before() {
    let mut gateway = TestGateway::start().await;
    let http = http(false);
    let mut ask = draft(Intent::Ask, "chunks 100 10000");
    ask.delta_window = Some(8);
    let path = gateway.ask(&http, &ask).await;
    let before = gateway.events(&http, &path, None).await.at_once(7).await;
    // Frame 3 and those before it are acknowledged by this.
    drop(gateway.events(&http, &path, Some(3)).await.at_once(7).await);
    gateway.restart().await;
    assert_eq!(gateway.ask(&http, &ask).await, path);
    let after = gateway.events(&http, &path, Some(3)).await.at_once(7).await;
    let said = |deltas: &[Delta]| deltas.iter().map(crate::fixture::said).collect::<Vec<_>>();
    assert!(said(&before[4..]) == said(&after[..3]));
    let numbers: Vec<u64> = after.iter().map(|delta| delta.seq).collect();
    assert_eq!(numbers, [4, 5, 6, 7, 8, 9, 10]);
}

#[tokio::test]
async fn a_window_of_one_has_its_end_when_a_consumer_comes_back() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    let mut ask = draft(Intent::Ask, "work");
    ask.delta_window = Some(1);
    let path = gateway.ask(&http, &ask).await;
    let mut events = gateway.events(&http, &path, None).await;
    assert_eq!(events.next().await.unwrap().payload["state"], "working");
    gateway.node.change("work", |task| task.complete("4"));
    assert!(events.is_quiet().await, "the second frame waits");
    let last = gateway.events(&http, &path, Some(0)).await.rest().await;
    assert_eq!((last.len(), last[0].seq, last[0].kind), (1, 1, DeltaType::Done));
}

#[tokio::test]
async fn frames_that_are_not_there_are_missing() {
    let gateway = TestGateway::start().await;
    let http = http(false);
    let path = gateway
        .ask(&http, &draft(Intent::Ask, "hello").with_stream_id("s"))
        .await;
    gateway.events(&http, &path, None).await.rest().await;
    let get = |query: &'static str, last: Option<&'static str>| {
        let mut request = http
            .get(gateway.url(&format!("{path}{query}")))
            .bearer_auth(crate::fixture::TOKEN);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        request.send()
    };
    for (query, last) in [("?from=2", None), ("", Some("1"))] {
        let (status, content) = gateway.refusal(get(query, last).await.unwrap()).await;
        assert_eq!((status, content["code"].as_str().unwrap()), (409, "4.09"));
    }
    let (_, content) = gateway.refusal(get("", Some("999")).await.unwrap()).await;
    let said = content["message"].as_str().unwrap();
    assert!(
        said.contains("Last-Event-ID: 999") && said.contains("has 0 to 0"),
        "{said}"
    );
    let (_, content) = gateway.refusal(get("?from=999", None).await.unwrap()).await;
    let said = content["message"].as_str().unwrap();
    assert!(
        said.contains("delta_seq 999") && said.contains("has 0 to 0"),
        "{said}"
    );
    let (status, content) = gateway.refusal(gateway.post(&http, ack("s", 1)).await).await;
    assert_eq!((status, content["code"].as_str().unwrap()), (409, "4.09"));
    for (query, last) in [("?from=x", None), ("", Some("x"))] {
        let (status, _) = gateway.refusal(get(query, last).await.unwrap()).await;
        assert_eq!(status, 400);
    }
    // A stream is its caller's.
    let request = http.get(gateway.url(&path)).bearer_auth("fedcba9876543210");
    let (status, _) = gateway.refusal(request.send().await.unwrap()).await;
    assert_eq!(status, 404);
    let odd = signed(&draft(Intent::Progress, "half way").with_stream_id("s"));
    let (status, content) = gateway.refusal(gateway.post(&http, odd).await).await;
    assert_eq!(
        (status, content["field"].as_str().unwrap()),
        (400, "body.content")
    );
}
