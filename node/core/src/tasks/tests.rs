use std::{collections::BTreeMap, time::Duration};

use agentanycast_identity::{Keypair, peer_id};
use agentanycast_proto::v1::{Artifact, Message, Part, part::Content};
use agentanycast_store::memory::MemoryStore;
use proptest::prelude::*;
use prost::Message as _;

use super::{records::ResultRecord, *};
use crate::{
    task::{Output, Status, TaskTimeline},
    tests::harness,
};

const NOW: Now = Now {
    mono: Duration::ZERO,
    unix: 1,
};

fn transaction(store: &Arc<dyn Store>) -> Transaction {
    let me = peer_id(&Keypair::ed25519_from_bytes([1; 32]).unwrap());
    Transaction::new(me, Arc::clone(store), NOW, 1).unwrap()
}

fn load(store: &Arc<dyn Store>) -> Tasks {
    Tasks::load(&transaction(store), &harness::limits()).unwrap()
}

fn task(id: &str) -> Task {
    Task {
        id: id.to_owned(),
        context_id: "context".into(),
        role: Role::Both,
        status: Status::Submitted,
        status_message: None,
        messages: Vec::new(),
        results: Vec::new(),
        skill: String::new(),
        metadata: BTreeMap::new(),
        created_at: 1,
        updated_at: 1,
        deadline: None,
        claimed: false,
        agent_ends: 0,
        begun: false,
        agent: None,
        route: None,
        traced: None,
        held: false,
        returnable: false,
        awaits_skill: false,
        external: None,
        group: None,
        sealed: None,
        arrived_at: None,
        timeline: TaskTimeline::default(),
    }
}

fn parts(length: usize) -> Vec<Part> {
    vec![Part {
        content: Some(Content::TextPart(agentanycast_proto::v1::TextPart {
            text: "x".repeat(length),
        })),
        ..Part::default()
    }]
}

proptest! {
    /// Whatever a task grows by, a table that is read anew has it, and counts as much memory for it; removed, it leaves
    /// nothing behind.
    #[test]
    fn a_task_is_read_as_it_was_written(
        steps in prop::collection::vec((0..3_u8, prop_oneof![0..200_usize, 3000..5000_usize, 60_000..130_000_usize]), 1..8),
    ) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut transaction = transaction(&store);
        let mut tasks = load(&store);
        tasks.insert(&mut transaction, task("other"));
        tasks.insert(&mut transaction, task("t"));
        for (at, (kind, length)) in steps.into_iter().enumerate() {
            let artifact = || Arc::new(Output::Whole(Artifact {
                artifact_id: at.to_string(),
                parts: parts(length),
                ..Artifact::default()
            }));
            let mut edit = tasks.edit("t").unwrap().unwrap();
            match kind {
                0 => edit.messages.push(Arc::new(Message {
                    message_id: at.to_string(),
                    parts: parts(length),
                    ..Message::default()
                })),
                1 => edit.results.push(artifact()),
                _ => match edit.results.last_mut() {
                    Some(last) => *last = artifact(),
                    None => edit.status = Status::Working,
                },
            }
            let expected = (*edit).clone();
            edit.save(&mut transaction);
            store.apply(transaction.finish().batch).unwrap();
            let mut anew = load(&store);
            prop_assert_eq!(anew.read("t").unwrap(), Some(expected));
            prop_assert_eq!(anew.weight("t"), tasks.weight("t"));
        }
        for id in ["t", "other"] {
            prop_assert!(tasks.remove(id, u64::MAX, transaction.batch()).unwrap());
        }
        store.apply(transaction.finish().batch).unwrap();
        prop_assert_eq!(store.scan(b"", None, 10).unwrap(), Vec::new());
    }
}

#[test]
fn an_edit_that_is_dropped_writes_nothing_and_loses_nothing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut transaction = transaction(&store);
    let mut tasks = load(&store);
    tasks.insert(&mut transaction, task("t"));
    store.apply(transaction.finish().batch).unwrap();
    if let Some(mut edit) = tasks.edit("t").unwrap() {
        edit.claimed = true;
    }
    assert!(tasks.edit("none").unwrap().is_none());
    assert!(transaction.finish().batch.is_empty());
    assert!(tasks.read("t").unwrap().is_some_and(|task| task.claimed));
    assert_eq!(load(&store).read("t").unwrap(), Some(task("t")));
}

#[test]
fn the_record_of_a_result_is_the_same_with_and_without_a_copy() {
    let results = [
        Output::Whole(Artifact {
            parts: parts(70_000),
            ..Artifact::default()
        }),
        Output::Whole(Artifact::default()),
        Output::Streamed(crate::task::Streamed {
            artifact_id: "a".into(),
            name: "n".into(),
            media_type: "m".into(),
            bytes: 7,
            outcome: None,
        }),
    ];
    for result in results {
        let record = ResultRecord::from_output(&result);
        assert_eq!(ResultRecord::encode_of(&result), schema::encode(&record));
        let (mut field, mut expected) = (Vec::new(), Vec::new());
        ResultRecord::encode_as(6, &result, &mut field);
        prost::encoding::message::encode(6, &record, &mut expected);
        assert_eq!(field, expected);
        assert_eq!(ResultRecord::encoded_len_of(&result), record.encoded_len());
    }
}

#[test]
fn a_task_that_lost_its_head_is_refused_by_name() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut transaction = transaction(&store);
    let mut lost = task("t");
    lost.messages.push(Arc::new(Message {
        parts: parts(5000),
        ..Message::default()
    }));
    load(&store).insert(&mut transaction, lost);
    let mut batch = transaction.finish().batch;
    batch.changes.retain(|(key, _)| key[0] != tag::HEAD);
    store.apply(batch).unwrap();
    let read = load(&store).read("t");
    assert!(matches!(read, Err(StoreError::Damaged(what)) if what == "task t"));
}

/// The id and the status of a task, as its record in the store has them.
pub(crate) fn stored_status(record: &[u8]) -> Option<(String, Status)> {
    let record: TaskSummary = schema::decode(record)?;
    Some((record.id, record.state?.status()?))
}
