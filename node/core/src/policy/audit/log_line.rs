//! One line of the audit log: a decision as a JSON object, and the chain that ties it to the line before.
//!
//! PURE. A line is what `serde_json` writes, in this order of fields, with the ends of lines that JSON allows
//! in texts escaped (`json_lines`); the chain is over its bytes without the newline.

use std::fmt::Write as _;

use agentanycast_daemon_kit::json_lines;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::policy::{Decision, PolicyOutcome};

/// How a task came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskOrigin {
    /// From another node, over libp2p.
    P2p,
    /// By a bridge beside this node.
    Bridge,
    /// From the agent beside this node.
    Local,
}

/// A decision, with what it was about. Ids that there are not are empty.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// When, Unix milliseconds.
    pub at: u64,
    /// What was decided, and by what.
    pub decision: Decision,
    /// Who asked: a peer id, `http:CALLER` or `local`.
    pub source: String,
    /// As whom it was seen by what decided, if not by that: a name that it has proven, or a key that it had before.
    pub seen_as: Option<String>,
    /// Whose agent was asked: a peer id.
    pub target: String,
    /// The skill.
    pub skill: String,
    /// The task.
    pub task: String,
    /// Of a sealed one: its id where it was sealed, as it is told beside the box.
    pub sealed_task: String,
    /// The envelope that brought it, or takes it away.
    pub envelope: String,
    /// How it came.
    pub transport: TaskOrigin,
}

/// What is written: the fields of a line, in order.
#[derive(Serialize)]
struct DecisionLine<'a> {
    time: String,
    decision: &'static str,
    source: &'a str,
    target: &'a str,
    skill: &'a str,
    task: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    sealed_task: &'a str,
    envelope: &'a str,
    transport: TaskOrigin,
    rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    seen_as: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev: Option<String>,
}

/// That decisions were not written.
const LOST: &str = "lost";

/// That a new file goes on with the chain.
const CONTINUED: &str = "continued";

/// What is written besides decisions.
#[derive(Serialize)]
struct MarkerLine {
    time: String,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev: Option<String>,
}

/// What a line says of how many decisions it stands for.
#[derive(Deserialize)]
struct LineCount {
    decision: String,
    count: Option<u64>,
}

/// How many decisions such lines tell of: a remark tells of those that it counts.
pub fn decisions(lines: &[u8]) -> u64 {
    let of = |line| match serde_json::from_slice(line) {
        Ok(LineCount { decision, count }) if [LOST, CONTINUED].contains(&decision.as_str()) => {
            count.unwrap_or_default()
        }
        _ => 1,
    };
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(of).sum()
}

/// The SHA-256 of a line.
pub type LineHash = [u8; 32];

/// Where a chain stands: the hash of the last line, zeros before the first. None: lines are not chained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashChain(pub Option<LineHash>);

impl HashChain {
    /// Adds a decision to `lines`, with its newline.
    pub fn write(&mut self, entry: &AuditEntry, lines: &mut Vec<u8>) {
        let Decision { outcome, reason: by } = entry.decision;
        let written = DecisionLine {
            time: time(entry.at),
            decision: outcome.word(),
            source: &entry.source,
            target: &entry.target,
            skill: &entry.skill,
            task: &entry.task,
            sealed_task: &entry.sealed_task,
            envelope: &entry.envelope,
            transport: entry.transport,
            rule: by.to_string(),
            seen_as: entry.seen_as.as_deref(),
            reason: (outcome != PolicyOutcome::Allow).then(|| by.message()),
            prev: self.0.as_ref().map(hex),
        };
        self.push(&written, lines);
    }

    /// Adds that so many decisions were not written.
    pub fn write_lost(&mut self, at: u64, count: u64, lines: &mut Vec<u8>) {
        self.write_remark(at, LOST, Some(count), lines);
    }

    /// Adds a line to a new file that has the end of the chain in the one before, for whoever goes on with it.
    pub fn write_continued(&mut self, at: u64, lines: &mut Vec<u8>) {
        self.write_remark(at, CONTINUED, None, lines);
    }

    /// Whether there is a line before the next one that it is tied to.
    pub fn is_begun(&self) -> bool {
        self.0.is_some_and(|last| last != [0; 32])
    }

    fn write_remark(&mut self, at: u64, decision: &'static str, count: Option<u64>, lines: &mut Vec<u8>) {
        let remark = MarkerLine {
            time: time(at),
            decision,
            count,
            prev: self.0.as_ref().map(hex),
        };
        self.push(&remark, lines);
    }

    fn push(&mut self, line: &impl Serialize, lines: &mut Vec<u8>) {
        let begin = lines.len();
        // Serialization does not fail: texts and numbers always have a form in JSON.
        let Ok(json) = serde_json::to_string(line) else {
            return;
        };
        lines.extend_from_slice(json_lines::escape(&json).as_bytes());
        if let Some(last) = &mut self.0 {
            *last = hash(&lines[begin..]);
        }
        lines.push(b'\n');
    }
}

/// The hash of a line without its newline.
pub fn hash(line: &[u8]) -> LineHash {
    Sha256::digest(line).into()
}

/// A hash as lines have it.
pub fn hex(hash: &LineHash) -> String {
    let mut text = String::with_capacity(64);
    for byte in hash {
        let _ = write!(text, "{byte:02x}"); // A String takes everything.
    }
    text
}

fn time(unix_ms: u64) -> String {
    jiff::Timestamp::from_millisecond(unix_ms as i64)
        .map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}
