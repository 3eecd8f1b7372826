//! What gateways and carriers beyond this network leave with tasks: the notes of gateways, and the boxes in which others
//! carry tasks between their two nodes.

mod notes;
mod sealing;

use agentanycast_identity::Keypair;
use agentanycast_store::StoreError;

use self::notes::Notes;
use super::{clock::Now, idempotency::IdempotencyKeys, schema::tag, transaction::Transaction};

/// See the module's text.
pub(crate) struct External {
    notes: Notes,
    /// Sealed tasks that came and were opened here, each of which comes once.
    opened: IdempotencyKeys,
    /// With which boxes are made and opened; None: none are.
    key: Option<Keypair>,
}

impl External {
    /// As the store has it, without what belongs to tasks for which `exists` does not hold.
    pub(crate) fn load(transaction: &Transaction, exists: impl Fn(&str) -> bool) -> Result<Self, StoreError> {
        Ok(Self {
            notes: Notes::load(transaction.store(), exists)?,
            opened: IdempotencyKeys::load(transaction.store(), tag::SEALED)?,
            key: None,
        })
    }

    /// Forgets sealed tasks whose boxes are too old to be opened again. Boxes have times of their senders' calendars; a
    /// box whose mark is gone is refused by its time.
    pub(crate) fn expire_opened(&mut self, transaction: &mut Transaction, now: Now) {
        self.opened.expire(now.unix, transaction.batch());
    }
}
