//! Conversations of callers: a caller's are its own, as its tasks are.
//!
//! What a caller calls a conversation stays with the task, as a label; the mesh, and with it the agent, is given a name
//! that is made of that, of the caller and of its tenant. So two callers that say the same have two conversations, and
//! nothing has to be looked up or remembered. Whoever has not said who it is, and whoever uses the daemon itself, shares
//! the names with all who have not: there they are as they are given. PURE, but for the names of new conversations.

use std::collections::BTreeMap;

use agentanycast_proto::v1;
use uuid::{Builder, Uuid};

use super::labels::{CALLER, TARGET, group_of};
use crate::auth::ANONYMOUS;

/// The label with what the caller calls the conversation, where the mesh calls it otherwise.
pub(crate) const CONTEXT: &str = "a2a.context";

/// What the mesh calls the conversation that the caller of these labels calls so.
pub(crate) fn mesh_context(labels: &BTreeMap<String, String>, name: &str) -> String {
    if !is_own(labels) {
        return name.to_owned();
    }
    let mut owner = labels.clone();
    // It may ask several agents in one conversation.
    owner.remove(TARGET);
    owner.insert(CONTEXT.to_owned(), name.to_owned());
    Builder::from_custom_bytes(group_of(&owner))
        .into_uuid()
        .to_string()
}

/// Notes in a new task's labels what its caller calls the conversation, an empty name being a new one; what the mesh calls
/// it.
pub(crate) fn new_context(labels: &mut BTreeMap<String, String>, name: &str) -> String {
    if !is_own(labels) {
        return name.to_owned();
    }
    let name = if name.is_empty() {
        Uuid::new_v4().to_string()
    } else {
        name.to_owned()
    };
    let named = mesh_context(labels, &name);
    labels.insert(CONTEXT.to_owned(), name);
    named
}

/// What the caller of a task calls its conversation.
pub(crate) fn caller_context(task: &v1::Task) -> &str {
    task.metadata.get(CONTEXT).unwrap_or(&task.context_id)
}

/// Whether names are those of one caller alone.
fn is_own(labels: &BTreeMap<String, String>) -> bool {
    labels.get(CALLER).is_some_and(|name| name != ANONYMOUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(given: &[(&str, &str)]) -> BTreeMap<String, String> {
        let given = given.iter();
        given
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn each_caller_and_tenant_has_its_own() {
        let alice = labels(&[(CALLER, "alice"), (TARGET, "own")]);
        let name = mesh_context(&alice, "c");
        assert_eq!(name.len(), 36, "it is as long as any other");
        assert_eq!(
            name,
            mesh_context(&labels(&[(CALLER, "alice"), (TARGET, "skill:x")]), "c")
        );
        for other in [
            mesh_context(&alice, "d"),
            mesh_context(&labels(&[(CALLER, "bob"), (TARGET, "own")]), "c"),
            mesh_context(&labels(&[(CALLER, "alice"), ("a2a.tenant", "t")]), "c"),
        ] {
            assert_ne!(name, other);
        }
        for everybody in [labels(&[]), labels(&[(CALLER, ANONYMOUS)])] {
            assert_eq!(mesh_context(&everybody, "c"), "c");
        }
    }

    #[test]
    fn a_conversation_goes_on_by_the_name_that_is_shown() {
        let mut first = labels(&[(CALLER, "alice")]);
        let task = v1::Task {
            context_id: new_context(&mut first, ""),
            metadata: first,
            ..v1::Task::default()
        };
        assert_ne!(caller_context(&task), task.context_id);
        let mut second = labels(&[(CALLER, "alice")]);
        assert_eq!(new_context(&mut second, caller_context(&task)), task.context_id);
        let mut nobody = labels(&[(CALLER, ANONYMOUS)]);
        assert_eq!((new_context(&mut nobody, "").as_str(), nobody.len()), ("", 1));
    }
}
