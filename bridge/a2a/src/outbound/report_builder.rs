//! What of all that an agent outside says is news to the task here. PURE.
//!
//! The one rule: each word once, in order, and results before the state that they came with. What is heard again,
//! because a stream was lost or the task was read anew, is no news.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use agentanycast_gateway::{
    DeliveryReport, ExternalTask, TaskSeal, is_terminal,
    labels::{ANSWER, MESSAGE},
};
use agentanycast_proto::v1::{self, Artifact, Message, MessageRole, TaskStatus};
use prost::Message as _;

use super::{decode::UpdateContent, error::OutboundError, pieces, unseal};

/// Most bytes of what comes out of one task: it is held in memory while it comes.
const MAX_RESULTS_BYTES: usize = 64 << 20;

/// Most results of a task; nodes take as many.
const MAX_RESULTS: usize = 1000;

/// What a part takes in memory besides its content.
const PART_OVERHEAD: usize = 128;

/// A result up to this size is told piece by piece; a larger one each time that it has doubled, so that what is
/// written is at most twice what came.
const SMALL: usize = 64 << 10;

/// Longest id that a node takes, in bytes.
const MAX_ID: usize = 256;

/// Looks at a task in a state that A2A does not have, until it is given up.
const UNKNOWN_STATES: u32 = 5;

/// When what was heard should be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportDue {
    /// There is nothing.
    Nothing,
    /// With what comes next.
    Later,
    /// In a moment: somebody may be watching it grow.
    Soon,
    /// Now.
    Now,
}

/// A task as far as its sender was told of it.
#[derive(Debug)]
pub(crate) struct ReportBuilder {
    /// Of a sealed task: what is heard comes in boxes.
    seal: Option<Arc<dyn TaskSeal>>,
    status: TaskStatus,
    said: HashSet<String>,
    results: Vec<GrowingArtifact>,
    /// The ids of results that come in pieces.
    pieced: HashSet<String>,
    bytes: usize,
    changes: Vec<(TaskStatus, Option<Message>)>,
    /// A message without a task, which is the agent's whole answer unless more comes.
    held: Option<Message>,
    /// What each message without a task says, as a hash, by the message's key.
    answers: HashMap<String, u64>,
    /// Looks in a row at a task whose state is unknown.
    unknown_states: u32,
}

#[derive(Debug)]
struct GrowingArtifact {
    artifact: Artifact,
    bytes: usize,
    /// Of these bytes the sender was told.
    told: usize,
    is_news: bool,
    is_whole: bool,
}

impl GrowingArtifact {
    /// Nothing of it follows, which is news.
    fn end(&mut self) {
        self.is_news |= !self.is_whole;
        self.is_whole = true;
    }
}

impl ReportBuilder {
    /// From the errand's task as it stands here.
    pub(crate) fn new(errand: &ExternalTask) -> Self {
        let task = &errand.task;
        let mut progress = Self {
            seal: errand.seal.clone(),
            status: task.status(),
            said: task.messages.iter().map(key).collect(),
            results: Vec::new(),
            pieced: HashSet::new(),
            bytes: 0,
            changes: Vec::new(),
            held: None,
            answers: HashMap::new(),
            unknown_states: 0,
        };
        for artifact in &task.artifacts {
            let bytes = mem_size(artifact);
            progress.bytes += bytes;
            progress.results.push(GrowingArtifact {
                artifact: artifact.clone(),
                bytes,
                told: bytes,
                is_news: false,
                is_whole: !errand.growing.contains(&artifact.artifact_id),
            });
        }
        progress
    }

    /// Whether what is heard comes in boxes.
    pub(crate) fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// The state of the task after all that was heard.
    pub(crate) fn status(&self) -> TaskStatus {
        self.changes.last().map_or(self.status, |(status, _)| *status)
    }

    /// Hears something. An error ends the task: it is more than a task may hold, or not what a sealed one may be told.
    pub(crate) fn apply(&mut self, what: UpdateContent) -> Result<(), OutboundError> {
        self.release_held();
        if is_terminal(self.status()) {
            return Ok(());
        }
        let what = match &self.seal {
            Some(seal) => unseal::open(&**seal, what, |id| self.position(id).is_some())?,
            None => what,
        };
        match what {
            UpdateContent::Task(task) => self.apply_task(*task),
            UpdateContent::Message(message) => {
                self.change(TaskStatus::Completed, Some(*message));
                Ok(())
            }
            UpdateContent::Status(status, message) => {
                self.change(status, message);
                Ok(())
            }
            UpdateContent::Artifact {
                artifact,
                append: true,
                last,
            } => self.append(artifact, last),
            UpdateContent::Artifact {
                mut artifact, last, ..
            } => {
                self.name(&mut artifact);
                self.pieced.remove(&artifact.artifact_id);
                if let (true, Some(at)) = (last, self.position(&artifact.artifact_id)) {
                    self.results[at].end();
                }
                self.put(artifact, last)
            }
        }
    }

    /// Hears of a piece of a result whose content is read otherwise.
    pub(crate) fn note_piece(&mut self, artifact_id: &str) {
        if self.pieced.len() < MAX_RESULTS && artifact_id.len() <= MAX_ID {
            self.pieced.insert(artifact_id.to_owned());
        }
    }

    /// Hears a message without a task in a stream. It is the last word, or more follows: that is known later.
    pub(crate) fn hold_message(&mut self, mut message: Message) {
        if is_terminal(self.status()) {
            return;
        }
        let says = hash(&message.encode_to_vec());
        match self.answers.get(&key(&message)) {
            Some(before) if *before == says => return,
            // Two messages have one id: the second is known by what it says.
            Some(_) => message.message_id.clear(),
            None => {}
        }
        self.answers.insert(key(&message), says);
        self.release_held();
        self.held = Some(message);
    }

    /// Messages without a task that were heard, each counted once.
    pub(crate) fn answers(&self) -> usize {
        self.answers.len()
    }

    /// The message that is held is not the last word, or does not wait any longer.
    pub(crate) fn release_held(&mut self) {
        if let Some(message) = self.held.take() {
            self.add_message(message);
        }
    }

    /// Hears a message beside a task, which does not end it.
    pub(crate) fn add_message(&mut self, mut message: Message) {
        if is_terminal(self.status()) {
            return;
        }
        // The label is no part of what the message is known by.
        message.message_id = key(&message);
        if let Some(first) = message.parts.first_mut() {
            first.metadata.insert(ANSWER.to_owned(), MESSAGE.to_owned());
        }
        self.change(TaskStatus::Working, Some(message));
    }

    /// The agent has said all by its messages: the task is complete.
    pub(crate) fn complete(&mut self) {
        if !is_terminal(self.status()) {
            let last = self.held.take();
            self.change(TaskStatus::Completed, last);
        }
    }

    /// Counts a look at the task. `unknown`: its state, if that is one that A2A does not have.
    ///
    /// # Errors
    /// When the state was unknown so often that nothing else is to be expected.
    pub(crate) fn check_state(&mut self, unknown: Option<&str>) -> Result<(), OutboundError> {
        let Some(state) = unknown else {
            self.unknown_states = 0;
            return Ok(());
        };
        self.unknown_states += 1;
        if self.unknown_states < UNKNOWN_STATES {
            return Ok(());
        }
        Err(OutboundError::permanent(format!(
            "its task has the state {state}, which tells neither that it works nor that it has ended"
        )))
    }

    fn apply_task(&mut self, task: v1::Task) -> Result<(), OutboundError> {
        let status = task.status();
        for (at, artifact) in task.artifacts.into_iter().enumerate() {
            self.apply_listed(at, artifact, status)?;
        }
        let of_status = task.status_message.as_ref().map(key);
        for message in task.messages {
            let is_theirs = message.role != MessageRole::User as i32;
            if is_theirs && Some(key(&message)) != of_status && !self.said.contains(&key(&message)) {
                self.change(TaskStatus::Working, Some(message));
            }
        }
        self.change(status, task.status_message);
        Ok(())
    }

    fn change(&mut self, status: TaskStatus, message: Option<Message>) {
        let now = self.status();
        // An agent that has not begun says nothing new; one whose state has no name says that it works.
        let status = match status {
            TaskStatus::Unspecified if message.is_none() => return,
            TaskStatus::Submitted if message.is_none() || now != TaskStatus::Submitted => now,
            TaskStatus::Unspecified | TaskStatus::Submitted => TaskStatus::Working,
            status => status,
        };
        let message = message.filter(|message| !self.said.contains(&key(message)));
        if message.is_none() && status == now {
            return;
        }
        let message = message.map(|mut message| {
            let key = key(&message);
            if message.message_id.is_empty() || message.message_id.len() > MAX_ID {
                message.message_id.clone_from(&key);
            }
            self.said.insert(key);
            message
        });
        self.changes.push((status, message));
    }

    /// Hears a result as the agent keeps it: pieces that came one after the other are parts of it, side by side.
    fn apply_listed(
        &mut self,
        place: usize,
        mut artifact: Artifact,
        status: TaskStatus,
    ) -> Result<(), OutboundError> {
        if artifact.artifact_id.is_empty() {
            artifact.artifact_id = format!("artifact-{}", place + 1);
        }
        self.name(&mut artifact);
        let known = self.position(&artifact.artifact_id).map(|at| &self.results[at]);
        if let Some(known) = known.filter(|known| known.artifact != artifact) {
            let parts = &known.artifact.parts;
            let is_pieced = self.pieced.contains(&artifact.artifact_id) || artifact.parts.len() > parts.len();
            if let Some(parts) = is_pieced.then(|| pieces::grown(parts, &artifact.parts)).flatten() {
                artifact.parts = parts;
            }
        }
        // Of a result that was growing when its task failed, something may be missing.
        let is_whole = status == TaskStatus::Completed
            || is_terminal(status) && known.is_none_or(|known| known.is_whole);
        self.put(artifact, is_whole)
    }

    /// Takes a result that has a name.
    fn put(&mut self, artifact: Artifact, last: bool) -> Result<(), OutboundError> {
        let bytes = mem_size(&artifact);
        let at = self.position(&artifact.artifact_id);
        let before = at.map_or(0, |at| self.results[at].bytes);
        self.make_room(at.is_none(), before, bytes)?;
        match at {
            Some(at) => {
                let known = &mut self.results[at];
                known.is_whole |= last;
                known.bytes = bytes;
                if known.artifact != artifact {
                    *known = GrowingArtifact {
                        artifact,
                        bytes,
                        told: 0,
                        is_news: true,
                        is_whole: last,
                    };
                }
            }
            None => self.results.push(GrowingArtifact {
                artifact,
                bytes,
                told: 0,
                is_news: true,
                is_whole: last,
            }),
        }
        Ok(())
    }

    fn append(&mut self, mut piece: Artifact, last: bool) -> Result<(), OutboundError> {
        if let (true, Some(known)) = (piece.artifact_id.is_empty(), self.results.last()) {
            piece.artifact_id.clone_from(&known.artifact.artifact_id);
        }
        self.name(&mut piece);
        self.note_piece(&piece.artifact_id);
        let Some(at) = self.position(&piece.artifact_id) else {
            return self.put(piece, last);
        };
        let more: usize = piece
            .parts
            .iter()
            .map(|part| part.encoded_len() + PART_OVERHEAD)
            .sum();
        self.make_room(false, 0, more)?;
        let known = &mut self.results[at];
        known.is_news |= !piece.parts.is_empty();
        known.is_whole &= piece.parts.is_empty();
        let all = known.artifact.parts.len() + piece.parts.len();
        pieces::append(&mut known.artifact.parts, piece.parts);
        // Pieces that are joined are no parts.
        let joined = (all - known.artifact.parts.len()) * PART_OVERHEAD;
        known.bytes += more - joined;
        self.bytes -= joined;
        if last {
            known.end();
        }
        if known.artifact.name.is_empty() {
            known.artifact.name = piece.name;
        }
        Ok(())
    }

    /// Gives a result that has no id, or one that is too long, an id of its own.
    fn name(&self, artifact: &mut Artifact) {
        if artifact.artifact_id.is_empty() {
            artifact.artifact_id = format!("artifact-{}", self.results.len() + 1);
        } else if artifact.artifact_id.len() > MAX_ID {
            artifact.artifact_id = format!("artifact-{:016x}", hash(artifact.artifact_id.as_bytes()));
        }
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.results
            .iter()
            .position(|known| known.artifact.artifact_id == id)
    }

    fn make_room(&mut self, is_new: bool, before: usize, bytes: usize) -> Result<(), OutboundError> {
        if is_new && self.results.len() >= MAX_RESULTS {
            return Err(OutboundError::permanent(format!(
                "it gave more than {MAX_RESULTS} artifacts, the most one task may have"
            )));
        }
        let all = self.bytes - before + bytes;
        if all > MAX_RESULTS_BYTES {
            return Err(OutboundError::permanent(format!(
                "its artifacts have more than {} MiB, the most one task may have",
                MAX_RESULTS_BYTES >> 20
            )));
        }
        self.bytes = all;
        Ok(())
    }

    /// When what was heard should be told.
    pub(crate) fn due(&self) -> ReportDue {
        if !self.changes.is_empty() {
            return ReportDue::Now;
        }
        if self.held.is_some() {
            return ReportDue::Soon;
        }
        let due = |known: &GrowingArtifact| match known {
            GrowingArtifact { is_news: false, .. } => ReportDue::Nothing,
            GrowingArtifact { is_whole: true, .. } | GrowingArtifact { told: 0, .. } => ReportDue::Now,
            known if known.bytes <= SMALL => ReportDue::Soon,
            known if known.bytes >= known.told.saturating_mul(2) => ReportDue::Now,
            _ => ReportDue::Later,
        };
        let all = self.results.iter().map(due);
        all.max_by_key(|due| *due as u8).unwrap_or(ReportDue::Nothing)
    }

    /// What is to be told now.
    pub(crate) fn take(&mut self) -> DeliveryReport {
        let mut artifacts = Vec::new();
        let mut growing = BTreeSet::new();
        for known in self.results.iter_mut().filter(|known| known.is_news) {
            if !known.is_whole {
                growing.insert(known.artifact.artifact_id.clone());
            }
            known.is_news = false;
            known.told = known.bytes;
            artifacts.push(known.artifact.clone());
        }
        self.status = self.status();
        DeliveryReport {
            artifacts,
            growing,
            changes: std::mem::take(&mut self.changes),
            ..DeliveryReport::default()
        }
    }
}

/// What a message is known by: its id, or what it says.
fn key(message: &Message) -> String {
    if message.message_id.is_empty() || message.message_id.len() > MAX_ID {
        format!("message-{:016x}", hash(&message.encode_to_vec()))
    } else {
        message.message_id.clone()
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn mem_size(artifact: &Artifact) -> usize {
    artifact.encoded_len() + PART_OVERHEAD * (artifact.parts.len() + 1)
}

#[cfg(test)]
mod tests;
