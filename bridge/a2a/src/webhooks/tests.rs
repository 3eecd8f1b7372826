//! Webhooks of tests: they answer as they are told, and remember what they were told.

use agentanycast_egress::egress_filter::led;
use agentanycast_gateway::{NewTask, Target, fake::FakeGateway};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
};

use super::*;
use crate::protocol::{
    push::{Webhook, WebhookRecord},
    version::Version,
};

/// What came: the head, in small letters, and the body.
type ReceivedPost = (String, Value);

/// A webhook that gives these answers, one after the other, and then `200 OK`.
async fn webhook(answers: &'static [&'static str]) -> (String, mpsc::UnboundedReceiver<ReceivedPost>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?x=1", listener.local_addr().unwrap());
    let (sender, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut answers = answers.iter();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = String::new();
            let body = loop {
                let mut bytes = [0; 4096];
                let length = stream.read(&mut bytes).await.unwrap();
                text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
                if let Some((head, body)) = text.split_once("\r\n\r\n")
                    && let Ok(body) = serde_json::from_str(body)
                {
                    break (head.to_ascii_lowercase(), body);
                }
            };
            let answer = answers.next().unwrap_or(&"200 OK");
            let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            sender.send(body).unwrap();
        }
    });
    (url, told)
}

/// A task that is over, with this webhook.
async fn noted(gateway: &FakeGateway, url: &str, old: bool) -> String {
    let outgoing = NewTask {
        target: Target::Own,
        message: v1::Message::default(),
        context_id: "c".to_owned(),
        metadata: std::collections::BTreeMap::new(),
        group: [0; 16],
        note: None,
        idempotency_key: None,
    };
    let task = gateway.send(outgoing).await.unwrap();
    let webhook = Webhook {
        id: "w".to_owned(),
        url: url.to_owned(),
        token: "t".to_owned(),
        scheme: "Bearer".to_owned(),
        credentials: "secret".to_owned(),
    };
    let version = if old { Version::V03 } else { Version::V10 };
    let note = v1::TaskNote {
        name: format!("{NOTE}w"),
        content: WebhookRecord::new(webhook, version).write(),
        open: true,
        ..v1::TaskNote::default()
    };
    gateway.put_note(task.id(), note, 0).await.unwrap();
    task.id().to_owned()
}

async fn settled(gateway: &FakeGateway, task: &str) -> WebhookRecord {
    loop {
        let notes = gateway.notes(task).await.unwrap();
        if !notes[0].open {
            return WebhookRecord::read(&notes[0].content).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn run(gateway: &FakeGateway, screen: EgressFilter, patience: Duration) -> CancellationToken {
    let stop = CancellationToken::new();
    let notifier = Arc::new(WebhookNotifier::new(Arc::new(gateway.clone()), screen, patience).unwrap());
    tokio::spawn(notifier.run(stop.clone()));
    stop
}

#[tokio::test]
async fn a_webhook_is_told_until_it_has_heard() {
    for old in [false, true] {
        let gateway = FakeGateway::default();
        let (url, mut told) = webhook(&["500 No", "302 Found"]).await;
        let task = noted(&gateway, &url, old).await;
        let _stop = run(&gateway, EgressFilter::Private, Duration::from_mins(1)).drop_guard();
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(told.recv().await.unwrap());
        }
        assert_eq!(all[0], all[2]);
        let (head, body) = &all[2];
        assert!(head.starts_with("post /hook?x=1 http/1.1"), "{head}");
        for line in [
            "x-a2a-notification-token: t",
            "authorization: bearer secret",
            "host: 127.0.0.1:",
        ] {
            assert!(head.contains(line), "{head}");
        }
        let media_type = if old {
            "application/json"
        } else {
            "application/a2a+json"
        };
        assert!(head.contains(&format!("content-type: {media_type}")), "{head}");
        let shown = if old { body } else { &body["task"] };
        assert_eq!(shown["id"], task.as_str(), "{body}");
        let kept = settled(&gateway, &task).await;
        assert!(!kept.given_up && kept.failing_since.is_none());
        assert!(told.try_recv().is_err(), "it was told more than once");
    }
}

#[tokio::test]
async fn a_webhook_that_is_gone_or_not_allowed_is_given_up() {
    let gateway = FakeGateway::default();
    let (url, mut told) = webhook(&["410 Gone"]).await;
    let task = noted(&gateway, &url, false).await;
    let stop = run(&gateway, EgressFilter::Private, Duration::from_mins(1));
    told.recv().await.unwrap();
    assert!(settled(&gateway, &task).await.given_up);
    stop.cancel();

    // Nothing is sent to where nothing may go, and after its patience it is no longer tried.
    let gateway = FakeGateway::default();
    let (url, mut told) = webhook(&[]).await;
    let task = noted(&gateway, &url, false).await;
    let _stop = run(&gateway, EgressFilter::Public, Duration::from_secs(1)).drop_guard();
    assert!(settled(&gateway, &task).await.given_up);
    assert!(told.try_recv().is_err());
}

/// Of two bridges of a node the one that takes a webhook may allow less than the one that tells it.
#[tokio::test]
async fn a_bridge_that_allows_more_tells_no_webhook_inside_that_another_has_taken() {
    let gateway = FakeGateway::default();
    let (url, mut told) = webhook(&[]).await;
    let task = noted(&gateway, &url, false).await;
    let note = gateway.notes(&task).await.unwrap().remove(0);
    let kept = WebhookRecord {
        public_only: true,
        ..WebhookRecord::read(&note.content).unwrap()
    };
    let version = note.version;
    let note = v1::TaskNote {
        content: kept.write(),
        ..note
    };
    gateway.put_note(&task, note, version).await.unwrap();
    let _stop = run(&gateway, EgressFilter::Private, Duration::from_secs(1)).drop_guard();
    assert!(settled(&gateway, &task).await.given_up);
    assert!(told.try_recv().is_err());
}

/// A name is good for an address when it is connected to, not when the webhook is set: whoever has it may lead it inside
/// between the two.
#[tokio::test]
async fn a_name_that_leads_inside_by_now_is_not_called() {
    const HOST: &str = "hooks.example.org";
    let there = |url: &str| url.replacen("127.0.0.1", HOST, 1);
    led::set_address(HOST, "8.8.8.8");
    let gateway = FakeGateway::default();
    let (url, mut told) = webhook(&[]).await;
    let task = noted(&gateway, &there(&url), false).await;
    led::set_address(HOST, "127.0.0.1");
    let stop = run(&gateway, EgressFilter::Public, Duration::from_secs(1));
    let kept = settled(&gateway, &task).await;
    assert!(kept.given_up && told.try_recv().is_err(), "{kept:?}");
    stop.cancel();

    // It does lead there.
    let task = noted(&gateway, &there(&url), false).await;
    let _stop = run(&gateway, EgressFilter::Private, Duration::from_mins(1)).drop_guard();
    assert_eq!(told.recv().await.unwrap().1["task"]["id"], task.as_str());
}
