//! Notes that gateways keep with tasks: what they have to remember, as durable as the task, and gone with it.
//!
//! PURE but for the batch. The one rule: what is in memory is what the store has when the batch is durable; the bounds
//! are on what there is, settled or not, so that no caller can fill the node.

use std::collections::{BTreeMap, HashMap};

use super::External;
use crate::{
    schema::{self, tag},
    transaction::{Effect, EngineError, Transaction},
    types::Note,
};
use agentanycast_store::{Batch, Store, StoreError};

/// Notes of one task.
const MAX_PER_TASK: usize = 16;

/// Bytes of a note's name, owner and content.
const MAX_BYTES: usize = 8 << 10;

/// Longest name, in bytes: it is a part of the store's key.
const MAX_NAME: usize = 512;

/// Open notes of one owner.
const MAX_OPEN: usize = 1024;

/// Bytes of all notes of a node, each with [`OVERHEAD`].
const MAX_ALL_BYTES: usize = 64 << 20;

/// What a note takes in memory besides its texts, about.
const OVERHEAD: usize = 256;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Notes {
    by_task: BTreeMap<String, BTreeMap<String, Note>>,
    /// Open notes of each owner who has any.
    open: HashMap<String, usize>,
    bytes: usize,
}

impl Notes {
    /// As the store has them, without those of tasks that are no more; a damaged one is left out.
    pub(super) fn load(store: &dyn Store, exists: impl Fn(&str) -> bool) -> Result<Self, StoreError> {
        let mut notes = Self::default();
        agentanycast_store::for_each(store, &[tag::NOTE], |key, value| {
            let task = schema::split(key).and_then(|(task, _)| std::str::from_utf8(task).ok());
            match (task, schema::decode::<Note>(value)) {
                (Some(task), Some(note)) if exists(task) => notes.enter(task, note),
                _ => tracing::warn!(task, "a note that belongs to no task, or is damaged, is not used"),
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(notes)
    }

    fn enter(&mut self, task: &str, note: Note) {
        self.bytes += note.bytes() + OVERHEAD;
        if note.open {
            *self.open.entry(note.owner.clone()).or_default() += 1;
        }
        let of_task = self.by_task.entry(task.to_owned()).or_default();
        of_task.insert(note.name.clone(), note);
    }

    fn take(&mut self, task: &str, name: &str) -> Option<Note> {
        let of_task = self.by_task.get_mut(task)?;
        let note = of_task.remove(name)?;
        if of_task.is_empty() {
            self.by_task.remove(task);
        }
        self.bytes -= note.bytes() + OVERHEAD;
        if note.open
            && let Some(count) = self.open.get_mut(&note.owner)
        {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&note.owner);
            }
        }
        Some(note)
    }

    fn get(&self, task: &str, name: &str) -> Option<&Note> {
        self.by_task.get(task)?.get(name)
    }

    /// Whether there is room for a note. What a task has it keeps, so more of it is refused for good; other bounds pass.
    fn check_room(&self, task: &str, note: &Note) -> Result<(), EngineError> {
        let known = self.get(task, &note.name);
        let of_task = self.by_task.get(task).map_or(0, BTreeMap::len);
        if known.is_none() && of_task >= MAX_PER_TASK {
            return Err(EngineError::Invalid(format!(
                "task {task} has {MAX_PER_TASK} notes (each webhook is one), the most of one task; delete one first"
            )));
        }
        let opened = note.open && known.is_none_or(|known| !known.open || known.owner != note.owner);
        if opened && self.open.get(&note.owner).is_some_and(|count| *count >= MAX_OPEN) {
            return Err(EngineError::Exhausted(format!(
                "{MAX_OPEN} notes of this owner are open, the most"
            )));
        }
        let freed = known.map_or(0, |known| known.bytes() + OVERHEAD);
        if self.bytes - freed + note.bytes() + OVERHEAD > MAX_ALL_BYTES {
            return Err(EngineError::Exhausted(format!(
                "the notes take {} bytes, the most is {MAX_ALL_BYTES}",
                self.bytes
            )));
        }
        Ok(())
    }

    /// The notes of a task, by name.
    fn of_task(&self, task: &str) -> Vec<Note> {
        let of_task = self.by_task.get(task).into_iter().flat_map(BTreeMap::values);
        of_task.cloned().collect()
    }

    /// Whether something is still to be done about a task.
    pub(super) fn is_open(&self, task: &str) -> bool {
        self.by_task
            .get(task)
            .is_some_and(|of_task| of_task.values().any(|note| note.open))
    }

    /// Removes all notes of a task that is no more.
    pub(super) fn forget(&mut self, task: &str, batch: &mut Batch) {
        for note in self.of_task(task) {
            batch.delete(key(task, &note.name));
            self.take(task, &note.name);
        }
    }
}

fn key(task: &str, name: &str) -> Vec<u8> {
    let mut key = schema::key(tag::NOTE, task.as_bytes());
    key.extend_from_slice(name.as_bytes());
    key
}

impl External {
    /// Writes a note of a task, over this version or over whatever there is; its new version.
    pub(crate) fn put_note(
        &mut self,
        transaction: &mut Transaction,
        task: &str,
        note: Note,
        if_version: Option<u64>,
    ) -> Result<u64, EngineError> {
        let version = self.notes.get(task, &note.name).map(|known| known.version);
        if if_version.is_some() && if_version != version {
            return Err(EngineError::Precondition(
                "the note is not as it was read; read it again".to_owned(),
            ));
        }
        self.check_note(task, &note)?;
        Ok(self.write_note(transaction, task, note))
    }

    /// Whether a note of a task can be written; one that is not there yet has no id.
    pub(crate) fn check_note(&self, task: &str, note: &Note) -> Result<(), EngineError> {
        if note.name.is_empty() || note.name.len() > MAX_NAME || note.bytes() > MAX_BYTES {
            return Err(EngineError::Invalid(format!(
                "a note needs a name of 1 to {MAX_NAME} bytes, and may have {MAX_BYTES} bytes with owner and content; \
                 this one has {}",
                note.bytes()
            )));
        }
        self.notes.check_room(task, note)
    }

    /// Writes a note that was checked; its version.
    pub(crate) fn write_note(&mut self, transaction: &mut Transaction, task: &str, mut note: Note) -> u64 {
        note.version = transaction.new_epoch();
        let version = note.version;
        let was_open = self.notes.is_open(task);
        transaction
            .batch()
            .put(key(task, &note.name), schema::encode(&note));
        self.notes.take(task, &note.name);
        self.notes.enter(task, note);
        self.publish_notes(transaction, task, was_open);
        version
    }

    /// Removes a note, if there is one.
    pub(crate) fn delete_note(&mut self, transaction: &mut Transaction, task: &str, name: &str) {
        let was_open = self.notes.is_open(task);
        if self.notes.take(task, name).is_some() {
            transaction.batch().delete(key(task, name));
            self.publish_notes(transaction, task, was_open);
        }
    }

    /// The notes of a task, by name.
    pub(crate) fn notes_of(&self, task: &str) -> Vec<Note> {
        self.notes.of_task(task)
    }

    /// Tasks about which something is still to be done.
    pub(crate) fn tasks_with_open_notes(&self) -> Vec<String> {
        let tasks = self.notes.by_task.keys();
        tasks.filter(|task| self.notes.is_open(task)).cloned().collect()
    }

    /// A task has changed: who looks after its open notes is told.
    pub(crate) fn on_task_changed(&self, transaction: &mut Transaction, task: &str) {
        self.publish_notes(transaction, task, false);
    }

    /// A task is no more: so are its notes.
    pub(crate) fn forget_notes(&mut self, transaction: &mut Transaction, task: &str) {
        self.notes.forget(task, transaction.batch());
    }

    fn publish_notes(&self, transaction: &mut Transaction, task: &str, was_open: bool) {
        if was_open || self.notes.is_open(task) {
            let task_id = task.to_owned();
            transaction.effect(Effect::NotesChanged { task_id });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use agentanycast_store::memory::MemoryStore;

    fn note(name: u8, owner: u8, length: usize, open: bool) -> Note {
        Note {
            name: format!("n{name}"),
            owner: format!("o{owner}"),
            content: vec![7; length],
            open,
            version: 1,
        }
    }

    proptest! {
        /// The counts are those of what is there, and the store has the same.
        #[test]
        fn what_is_counted_is_what_is_there(
            steps in proptest::collection::vec((0..3_u8, 0..4_u8, 0..3_u8, 0..50_usize, any::<bool>(), 0..4_u8), 0..60),
        ) {
            let store = MemoryStore::default();
            let mut notes = Notes::default();
            let mut model: BTreeMap<(String, String), Note> = BTreeMap::new();
            for (task, name, owner, length, open, what) in steps {
                let task = format!("t{task}");
                let mut batch = Batch::default();
                let note = note(name, owner, length, open);
                match what {
                    0 => {
                        notes.forget(&task, &mut batch);
                        model.retain(|(of, _), _| *of != task);
                    }
                    1 => {
                        if notes.take(&task, &note.name).is_some() {
                            batch.delete(key(&task, &note.name));
                        }
                        model.remove(&(task, note.name));
                    }
                    _ => {
                        batch.put(key(&task, &note.name), schema::encode(&note));
                        notes.take(&task, &note.name);
                        notes.enter(&task, note.clone());
                        model.insert((task, note.name.clone()), note);
                    }
                }
                store.apply(batch).unwrap();
            }
            for notes in [&notes, &Notes::load(&store, |_| true).unwrap()] {
                let there: BTreeMap<(String, String), Note> = notes
                    .by_task
                    .iter()
                    .flat_map(|(task, of)| of.iter().map(move |(name, note)| ((task.clone(), name.clone()), note.clone())))
                    .collect();
                prop_assert_eq!(&there, &model);
                prop_assert_eq!(notes.bytes, model.values().map(|note| note.bytes() + OVERHEAD).sum::<usize>());
                let mut open: HashMap<String, usize> = HashMap::new();
                for note in model.values().filter(|note| note.open) {
                    *open.entry(note.owner.clone()).or_default() += 1;
                }
                prop_assert_eq!(&notes.open, &open);
            }
        }
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut notes = Notes::default();
        for number in 0..MAX_PER_TASK {
            let note = note(number as u8, 0, 0, false);
            assert!(notes.check_room("t", &note).is_ok());
            notes.enter("t", note);
        }
        let more = notes.check_room("t", &note(200, 0, 0, false));
        assert!(
            matches!(&more, Err(EngineError::Invalid(why)) if why.contains("16")),
            "{more:?}"
        );
        assert!(
            notes.check_room("t", &note(0, 0, 9, true)).is_ok(),
            "it is written anew"
        );
        for number in 0..MAX_OPEN {
            notes.enter(&number.to_string(), note(0, 1, 0, true));
        }
        let open = notes.check_room("u", &note(0, 1, 0, true));
        assert!(
            matches!(open, Err(EngineError::Exhausted(_))),
            "later there may be room: {open:?}"
        );
        assert!(notes.check_room("u", &note(0, 1, 0, false)).is_ok());
        assert!(notes.check_room("u", &note(0, 2, 0, true)).is_ok());
        assert!(
            notes.check_room("7", &note(0, 1, 5, true)).is_ok(),
            "it is open already"
        );
    }

    #[test]
    fn notes_without_a_task_are_not_loaded() {
        let store = MemoryStore::default();
        let mut batch = Batch::default();
        for task in ["here", "gone"] {
            batch.put(key(task, "n0"), schema::encode(&note(0, 0, 1, true)));
        }
        store.apply(batch).unwrap();
        let notes = Notes::load(&store, |task| task == "here").unwrap();
        assert!(notes.is_open("here") && !notes.is_open("gone"));
    }
}
