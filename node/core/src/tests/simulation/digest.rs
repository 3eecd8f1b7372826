//! What a run came to, in one number: the envelopes between each two hosts in their order, and each task as both its sides
//! have it at the end. Ids of envelopes and spans are left out: they are drawn at random, and say nothing.

use std::{collections::BTreeMap, fmt::Write as _};

use sha2::{Digest as _, Sha256};

use super::describe;
use crate::task::{Output, Task};

#[derive(Default)]
pub(super) struct RunDigest {
    /// By sender and receiver.
    envelopes: BTreeMap<(usize, usize), Sha256>,
    tasks: Sha256,
}

impl RunDigest {
    /// An envelope has come to its receiver.
    pub(super) fn envelope(&mut self, from: usize, to: usize, frame: &[u8]) {
        let line = describe::outcome(frame) + "\n";
        self.envelopes.entry((from, to)).or_default().update(line);
    }

    /// A task as this host has it at the end; None: it is not there.
    pub(super) fn task(&mut self, at: usize, id: &str, task: Option<&Task>) {
        self.tasks
            .update(format!("{at} {id} {}\n", task.map_or_else(String::new, text)));
    }

    pub(super) fn finish(self) -> [u8; 32] {
        let mut all = self.tasks;
        for ((from, to), envelopes) in self.envelopes {
            all.update(format!("{from} {to} "));
            all.update(envelopes.finalize());
        }
        all.finalize().into()
    }
}

/// Its state, its reason, what was said, and what came out.
fn text(task: &Task) -> String {
    let reason = task
        .status_message
        .as_ref()
        .map(|said| crate::wire::text_of(said));
    let mut text = format!("{:?} {} {reason:?}", task.role, task.status);
    for message in &task.messages {
        let _ = write!(
            text,
            " {} {:?}",
            message.message_id,
            super::text_in(&message.parts)
        );
    }
    for result in &task.results {
        let _ = match &**result {
            Output::Whole(artifact) => {
                write!(
                    text,
                    " {} {:?}",
                    artifact.artifact_id,
                    super::text_in(&artifact.parts)
                )
            }
            Output::Streamed(streamed) => {
                write!(
                    text,
                    " {} {:?} {}",
                    streamed.artifact_id, streamed.outcome, streamed.bytes
                )
            }
        };
    }
    text
}
