//! Faults that a correct node does not have, put in on purpose: what proves that the checker can see.

use agentanycast_store::Batch;

use crate::schema::tag;

/// One deliberate fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mutation {
    #[default]
    None,
    /// Answers, acknowledgements and events come out before their batch is durable.
    EarlyEffects,
    /// The marks of applied envelopes are not written down.
    NoMarks,
    /// A crash leaves a part of a batch.
    SplitBatch,
    /// The entries of the outboxes are not written down.
    ForgottenQueue,
}

impl Mutation {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [
        Self::EarlyEffects,
        Self::NoMarks,
        Self::SplitBatch,
        Self::ForgottenQueue,
    ];

    /// What becomes of a batch on its way to the writer.
    pub(super) fn of_batch(self, batch: &mut Batch) {
        let dropped: &[u8] = match self {
            Self::NoMarks => &[tag::APPLIED, tag::APPLIED_ID, tag::APPLIED_SLOT],
            Self::ForgottenQueue => &[tag::ENTRY],
            _ => return,
        };
        batch
            .changes
            .retain(|(key, _)| !key.first().is_some_and(|tag| dropped.contains(tag)));
    }

    /// The batch that effects wait for.
    pub(super) fn of_commit(self, commit: u64) -> u64 {
        if self == Self::EarlyEffects { 0 } else { commit }
    }

    /// What a crash leaves of a batch that was not durable.
    pub(super) fn half_of(self, batch: &Batch) -> Batch {
        let kept = if self == Self::SplitBatch {
            batch.changes.len() / 2
        } else {
            0
        };
        Batch {
            changes: batch.changes[..kept].to_vec(),
        }
    }
}
