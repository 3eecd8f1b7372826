//! The log of a daemon as a program reads it: every line is an object in which no name stands twice, what is said of a task
//! names it, and nothing of what agents say to each other is in it.

use std::{collections::BTreeMap, fmt, time::Duration};

use agentanycast::{Artifact, Target};
use agentanycast_tests::{
    Daemon, DaemonBuilder, DaemonPair, TransportKind,
    agent::TestAgent,
    eventually,
    task_assertions::{completed, not_completed},
};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// A word that stands in everything that is sent.
const SECRET: &str = "rosebud";

/// A value of JSON, read strictly: a name that stands twice is an error.
#[derive(Debug, PartialEq)]
enum StrictJson {
    Other,
    Text(String),
    Object(BTreeMap<String, StrictJson>),
}

impl StrictJson {
    fn text(&self, name: &str) -> &str {
        match self {
            Self::Object(fields) => match fields.get(name) {
                Some(Self::Text(text)) => text,
                _ => "",
            },
            _ => "",
        }
    }
}

impl<'de> Deserialize<'de> for StrictJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrictVisitor;
        impl<'de> Visitor<'de> for StrictVisitor {
            type Value = StrictJson;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_bool<E>(self, _: bool) -> Result<StrictJson, E> {
                Ok(StrictJson::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<StrictJson, E> {
                Ok(StrictJson::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<StrictJson, E> {
                Ok(StrictJson::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<StrictJson, E> {
                Ok(StrictJson::Other)
            }

            fn visit_unit<E>(self) -> Result<StrictJson, E> {
                Ok(StrictJson::Other)
            }

            fn visit_str<E>(self, text: &str) -> Result<StrictJson, E> {
                Ok(StrictJson::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<StrictJson, A::Error> {
                while items.next_element::<StrictJson>()?.is_some() {}
                Ok(StrictJson::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<StrictJson, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = entries.next_entry::<String, StrictJson>()? {
                    if fields.insert(name.clone(), value).is_some() {
                        return Err(A::Error::custom(format!("{name} stands twice")));
                    }
                }
                Ok(StrictJson::Object(fields))
            }
        }
        deserializer.deserialize_any(StrictVisitor)
    }
}

/// The lines of a log, each of which can be read.
fn lines(daemon: &Daemon) -> Vec<StrictJson> {
    let log = daemon.log_tail();
    let read = log.lines().map(|line| {
        let read: StrictJson = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        // Crates below say some things by fields alone.
        let own = read.text("target").starts_with("agentanycast");
        for name in ["timestamp", "level", "target", "message"]
            .into_iter()
            .take(if own { 4 } else { 3 })
        {
            assert!(!read.text(name).is_empty(), "no {name}: {line}");
        }
        read
    });
    read.collect()
}

/// Has a pair do what leaves lines: a task with its artifact, one that nobody answers until its deadline, one for a peer that
/// does not take it; and an attempt to reach a bootstrap peer that is not there. The ids of the task that was ended, of the
/// one that was not delivered, and of the one that was done.
async fn busy(pair: &mut DaemonPair) -> [String; 3] {
    let alice = pair.alice.node().await;
    let bob = Target::Peer(pair.bob.peer_id().clone());
    let agent = TestAgent::serve(&pair.bob.node().await, |task| async move {
        let text = task.message().text_content();
        if text.contains("fail") {
            task.fail(SECRET).await?;
        } else {
            task.working(SECRET).await?;
            task.complete([Artifact::text(text)]).await?;
        }
        Ok(())
    });
    let task = |text: &str| {
        let labels = BTreeMap::from([("label".to_owned(), SECRET.to_owned())]);
        let task = alice.task(bob.clone(), format!("{text} {SECRET}").as_str());
        task.metadata_from(labels)
    };
    let done = task("do").send().await.unwrap();
    completed(&done).await;
    not_completed(&task("fail").send().await.unwrap()).await;
    drop(agent);
    let late = task("late").timeout(Duration::from_secs(1)).send().await.unwrap();
    not_completed(&late).await;
    pair.bob.kill().await;
    let lost = task("lost").send().await.unwrap();
    not_completed(&lost).await;
    [late.id().to_owned(), lost.id().to_owned(), done.id().to_owned()]
}

fn with(level: &'static str) -> impl Fn(DaemonBuilder) -> DaemonBuilder {
    move |daemon| {
        daemon
            .args([format!("--log-level={level}")])
            .config("offline_queue_ttl = \"2s\"\n")
            .bootstrap("/ip4/127.0.0.1/tcp/1/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK")
            .bootstrap("/ip4/127.0.0.1/tcp/2")
    }
}

/// The line with this message that is about this, by this name.
async fn said(pair: &DaemonPair, message: &str, (name, about): (&str, &str)) -> StrictJson {
    eventually(message, || async {
        let mut lines = [&pair.alice, &pair.bob].into_iter().flat_map(lines);
        lines.find(|line| line.text("message").contains(message) && line.text(name).contains(about))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_read_of_tasks_by_their_ids_and_of_messages_nothing() {
    let mut pair = DaemonPair::start_with(TransportKind::Tcp, with("info")).await;
    let [late, lost, _] = busy(&mut pair).await;
    said(&pair, "task ended by this node", ("task", &late)).await;
    let expired = said(&pair, "an envelope expired undelivered", ("task", &lost)).await;
    assert_eq!(expired.text("peer"), pair.bob.peer_id().to_string());
    for whom in [
        "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK",
        "/ip4/127.0.0.1/tcp/2",
    ] {
        let unreached = said(&pair, "bootstrap peer not reached", ("peer", whom)).await;
        assert!(unreached.text("target").contains("dialing"), "{unreached:?}");
    }
    for daemon in [&pair.alice, &pair.bob] {
        assert!(!daemon.log_tail().contains(SECRET), "{}", daemon.log_tail());
        assert!(!lines(daemon).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_debugs_follows_a_task_by_its_ids_and_reads_of_messages_nothing() {
    let mut pair = DaemonPair::start_with(TransportKind::Quic, with("debug")).await;
    let done = busy(&mut pair).await[2].clone();
    // Each step of one task, at the side where it is done; the envelope that brought it has one id at both.
    let queued = said(&pair, "an envelope is in the queue", ("task", &done)).await;
    let envelope = queued.text("envelope");
    for (daemon, other, steps) in [
        (
            &pair.alice,
            &pair.bob,
            [
                "an envelope is in the queue",
                "an envelope is sent",
                "an envelope was acknowledged",
            ]
            .as_slice(),
        ),
        (&pair.bob, &pair.alice, &["an envelope came"]),
    ] {
        let lines = lines(daemon);
        let about = |message: &str| {
            lines.iter().find(|line| {
                line.text("message") == message
                    && line.text("task") == done
                    && line.text("envelope") == envelope
            })
        };
        for step in steps {
            let line = about(step).unwrap_or_else(|| panic!("{step}: {}", daemon.log_tail()));
            assert_eq!(line.text("peer"), other.peer_id().to_string(), "{step}");
        }
        let stages = lines.iter().filter(|line| {
            line.text("message") == "a task came to a status"
                && line.text("task") == done
                && line.text("peer") == other.peer_id().as_ref()
        });
        let stages: Vec<&str> = stages.map(|line| line.text("status")).collect();
        // That it is worked on is not told of a task that ends at once.
        assert_eq!(stages.first(), Some(&"SUBMITTED"));
        assert_eq!(stages.last(), Some(&"COMPLETED"));
        assert!(stages.len() <= 3, "{stages:?}");
        // What the crates below say would be most of it.
        assert!(
            !lines
                .iter()
                .any(|line| { line.text("level") == "DEBUG" && line.text("target").starts_with("libp2p") })
        );
    }
    for daemon in [&pair.alice, &pair.bob] {
        assert!(lines(daemon).iter().any(|line| line.text("level") == "DEBUG"));
        assert!(!daemon.log_tail().contains(SECRET));
    }
}
