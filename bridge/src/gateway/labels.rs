//! The labels by which gateways know their tasks again: who asked, and whom. They stay with the task on this node, and
//! are as durable as it, so a gateway keeps nothing of its own. PURE.
//!
//! The one rule: a caller sees tasks that carry its own labels, and no others.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::Group;

/// The label with the name of the caller. The node's policy knows it as `http:NAME`; without it a task is that of whoever
/// uses the daemon itself.
pub(crate) const CALLER: &str = "a2a.caller";

/// The label with whom the caller asked, in the words of its gateway.
pub(crate) const TARGET: &str = "a2a.target";

/// By what the node lists the tasks that carry these labels.
pub(crate) fn group_of(labels: &BTreeMap<String, String>) -> Group {
    let mut hash = Sha256::new();
    for (name, value) in labels {
        for text in [name, value] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
    }
    let digest: [u8; 32] = hash.finalize().into();
    // Half of it is enough to tell callers apart, whatever they call themselves.
    std::array::from_fn(|at| digest[at])
}
