//! How a task lies in the store. A small one is one record, written again with each change: one key for the
//! database to keep. A larger one is spread over a head that never changes, a small state that does, and
//! one record per message and result, so that the thousandth progress message costs as much as the first.
//! Its keys are the number of its arrival here: what comes together is kept together, whatever its id.

use std::sync::Arc;

use agentanycast_proto::v1::Message;
use agentanycast_store::{Batch, Store, StoreError};
use prost::{Message as _, bytes::BufMut as _};

use super::records::{HeadRecord, ResultRecord, StateRecord, TaskRecord};
use crate::{
    schema::{self, tag},
    task::{Output, Task},
};

/// Most bytes of head, messages and results of a task that is one record. It is written some four times.
pub(super) const MAX_WHOLE: u64 = 4 << 10;

/// What of a task is new since it was last written.
pub(super) struct TaskDelta<'a> {
    /// The task.
    pub task: &'a Task,
    /// Its state, as it is to be.
    pub state: &'a StateRecord,
    /// Messages from this one on.
    pub messages_from: usize,
    /// These results: their places, and what was there before.
    pub results: &'a [(usize, Option<Arc<Output>>)],
}

/// Writes a task that is, and stays, one record.
pub(super) fn write_whole(number: u64, task: &Task, head: HeadRecord, state: StateRecord, batch: &mut Batch) {
    let record = TaskRecord {
        id: task.id.clone(),
        state: Some(state),
        head: Some(head),
        ..TaskRecord::default()
    };
    let messages: usize = task
        .messages
        .iter()
        .map(|message| message.encoded_len() + 4)
        .sum();
    let mut bytes = Vec::with_capacity(record.encoded_len() + messages + 64);
    // A vector takes whatever it is given.
    let _ = record.encode(&mut bytes);
    for message in &task.messages {
        prost::encoding::message::encode(5, &**message, &mut bytes);
    }
    for result in &task.results {
        ResultRecord::encode_as(6, result, &mut bytes);
    }
    batch.put(task_key(number), bytes);
}

/// Writes what is new of a task that is spread. `was_whole`: it was one record, or is new.
pub(super) fn write_spread(number: u64, news: &TaskDelta<'_>, was_whole: bool, batch: &mut Batch) {
    let name = number.to_be_bytes();
    let task = news.task;
    if was_whole {
        let head = HeadRecord::from_task(task);
        batch.put_large(&schema::key(tag::HEAD, &name), schema::encode(&head));
    }
    let from = if was_whole { 0 } else { news.messages_from };
    for (at, message) in task.messages.iter().enumerate().skip(from) {
        let key = schema::numbered(tag::MESSAGE, &name, at as u64);
        batch.put_large(&key, schema::encode(&**message));
    }
    if was_whole {
        for (at, result) in task.results.iter().enumerate() {
            write_result(&name, at, result, batch);
        }
    } else {
        for (at, before) in news.results {
            if let Some(before) = before {
                // A shorter result must not keep pieces of the longer one that it replaces.
                let key = schema::numbered(tag::RESULT, &name, *at as u64);
                batch.delete_large(&key, ResultRecord::encoded_len_of(before));
            }
            if let Some(result) = task.results.get(*at) {
                write_result(&name, *at, result, batch);
            }
        }
    }
    let record = TaskRecord {
        id: task.id.clone(),
        state: Some(news.state.clone()),
        spread: true,
        ..TaskRecord::default()
    };
    batch.put(task_key(number), schema::encode(&record));
}

fn write_result(name: &[u8], at: usize, result: &Output, batch: &mut Batch) {
    let key = schema::numbered(tag::RESULT, name, at as u64);
    batch.put_large(&key, ResultRecord::encode_of(result));
}

/// Removes a task.
pub(super) fn remove(
    store: &dyn Store,
    number: u64,
    is_spread: bool,
    batch: &mut Batch,
) -> Result<(), StoreError> {
    batch.delete(task_key(number));
    if !is_spread {
        return Ok(());
    }
    for kind in [tag::HEAD, tag::MESSAGE, tag::RESULT] {
        agentanycast_store::for_each(store, &schema::key(kind, &number.to_be_bytes()), |key, _| {
            batch.delete(key.to_vec());
            Ok::<(), StoreError>(())
        })?;
    }
    Ok(())
}

/// A task as it was read.
pub(super) struct StoredTask {
    pub task: Task,
    pub bytes: u64,
    pub is_spread: bool,
}

/// Reads a task; [`StoreError::Damaged`] when something of it is missing or cannot be read.
pub(super) fn read(store: &dyn Store, number: u64, id: &str) -> Result<StoredTask, StoreError> {
    let name = number.to_be_bytes();
    let damaged = || StoreError::Damaged(format!("task {id}"));
    // The store knows a record by its key only.
    let named = |error| match error {
        StoreError::Damaged(_) => damaged(),
        error => error,
    };
    let record = store.get(&task_key(number)).map_err(named)?.ok_or_else(damaged)?;
    let mut record: TaskRecord = schema::decode(&record).ok_or_else(damaged)?;
    let state = record.state.take().ok_or_else(damaged)?;
    if record.id != id {
        return Err(damaged());
    }
    if record.spread {
        let head = agentanycast_store::get_large(store, &schema::key(tag::HEAD, &name))
            .map_err(named)?
            .ok_or_else(damaged)?;
        record.head = Some(schema::decode(&head).ok_or_else(damaged)?);
        record.messages = read_numbered::<Message>(store, tag::MESSAGE, &name).map_err(named)?;
        record.results = read_numbered::<ResultRecord>(store, tag::RESULT, &name).map_err(named)?;
    }
    let head = record.head.take().ok_or_else(damaged)?;
    let messages = record.messages.into_iter().map(Arc::new).collect();
    let results = record.results.into_iter();
    let results = results.map(|record| Arc::new(record.output())).collect();
    let mut task = head.task(id, &state).ok_or_else(damaged)?;
    state.fill(&mut task, messages, results);
    Ok(StoredTask {
        task,
        bytes: state.bytes,
        is_spread: record.spread,
    })
}

fn read_numbered<M: prost::Message + Default>(
    store: &dyn Store,
    kind: u8,
    name: &[u8],
) -> Result<Vec<M>, StoreError> {
    let mut whole: Vec<Vec<u8>> = Vec::new();
    agentanycast_store::for_each(store, &schema::key(kind, name), |key, value| {
        let first_piece = key.ends_with(&[0, 0]);
        match whole.last_mut() {
            Some(last) if !first_piece => last.put_slice(value),
            _ => whole.push(value.to_vec()),
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(whole.iter().filter_map(|bytes| schema::decode(bytes)).collect())
}

fn task_key(number: u64) -> Vec<u8> {
    schema::key(tag::TASK, &number.to_be_bytes())
}
