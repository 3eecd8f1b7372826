//! A new task of an old one, for `anycast retry` and programs that send again: the same message to the same
//! addressee, in the same conversation. The invariant: each field of the old task and of the request is named
//! here, so that none that is added is left out unseen.

use std::collections::BTreeMap;

use agentanycast_proto::v1;

use crate::{
    error::{Error, ErrorKind},
    message::{Message, Role},
    node::{
        Node,
        trace::{TaskAddressee, Trace},
    },
    peer_id::PeerId,
    target::Target,
    task::Task,
    task_builder::TaskBuilder,
};

/// What begins labels that belong to one task alone: how it was sealed, and which gateway it came by.
const OWN_LABELS: [&str; 3] = ["agentanycast-sealed-", "a2a.", "gateway."];

/// Other labels that belong to one task alone: its deadline has passed, or was meant for it.
const OWN_KEYS: [&str; 4] = ["deadline", "context_id", "task_id", "idempotency_key"];

impl Node {
    /// A new task of one that was sent from here and has ended: its first message, to whom it was sent, in
    /// its conversation, with its labels, sealed if it was. A `Conflict` otherwise; the text says why.
    pub async fn task_again(&self, task: &Task) -> Result<TaskBuilder, Error> {
        if !task.status.is_terminal() {
            let text = format!("task {} has not ended: it is {}", task.id, task.status);
            return Err(Error::new(ErrorKind::Conflict, text));
        }
        let trace = self.trace(&task.id).await?;
        let addressee = addressee(task, &trace).map_err(|reason| {
            let text = format!("task {} cannot be sent again: {reason}", task.id);
            Error::new(ErrorKind::Conflict, text)
        })?;
        again(self.clone(), task.clone(), addressee).ok_or_else(|| {
            let text = format!("task {} has no message any more", task.id);
            Error::new(ErrorKind::Conflict, text)
        })
    }
}

/// Whom a task was sent to. Of a daemon that does not say it: as far as the task and its trace tell it.
fn addressee(task: &Task, trace: &Trace) -> Result<TaskAddressee, &'static str> {
    if let Some(addressee) = &trace.addressee {
        return Ok(addressee.clone());
    }
    let target = match (&trace.side, task.skill.as_str(), &task.assignee) {
        (crate::TaskSide::Assignee, ..) => {
            return Err("it was not sent from here; its sender can send it again");
        }
        _ if !trace.url.is_empty() => Target::url(&trace.url),
        (_, "", Some(peer)) => Target::Peer(peer.clone()),
        (_, skill, _) if !skill.is_empty() => Target::skill(skill),
        _ => return Err("the daemon does not say whom it was sent to"),
    };
    let agent = match target {
        Target::Peer(_) => task.agent.clone(),
        _ => String::new(),
    };
    Ok(TaskAddressee {
        target,
        skill_of_peer: String::new(),
        allow_private: false,
        agent,
    })
}

/// `None`: the task has no message of its sender.
fn again(node: Node, task: Task, addressee: TaskAddressee) -> Option<TaskBuilder> {
    let sealed_for = task.sealed_for();
    let Task {
        context_id,
        messages,
        metadata,
        // The addressee says for whom it is.
        skill: _,
        assignee: _,
        agent: _,
        // These are the old task's own.
        id: _,
        status: _,
        status_message: _,
        artifacts: _,
        created_at: _,
        updated_at: _,
        originator: _,
        attempts: _,
        asked: _,
    } = task;
    let TaskAddressee {
        target,
        skill_of_peer,
        allow_private,
        agent,
    } = addressee;
    let first = messages.into_iter().find(|message| message.role == Role::User)?;
    // A message of its own, with the same parts.
    let message = Message::new(first.parts);
    let request = v1::SendTaskRequest {
        message: Some(message.into()),
        metadata: labels(metadata),
        context_id,
        sealed_for: sealed_for.as_ref().map(PeerId::to_string).unwrap_or_default(),
        skill_of_peer,
        allow_private,
        target_agent: agent,
        brief: true,
        idempotency_key: uuid::Uuid::new_v4().to_string(),
        // Set with the target.
        target: None,
        // A new task, which no gateway has to do with.
        task_id: String::new(),
        transport_hint: String::new(),
        note: None,
        group: Vec::new(),
    };
    Some(TaskBuilder::of_request(node, target, request))
}

/// The labels that go with it again.
fn labels(metadata: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_own = |key: &String| {
        OWN_KEYS.contains(&key.as_str()) || OWN_LABELS.iter().any(|start| key.starts_with(start))
    };
    metadata.into_iter().filter(|(key, _)| !is_own(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TaskStatus, part::Part};

    const PEER: &str = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

    fn old() -> Task {
        let said = Message::new([Part::text("a"), Part::raw(vec![1_u8], "x/y")]);
        Task {
            messages: vec![said, Message::new([Part::text("further")])],
            metadata: [
                ("priority".to_owned(), "low".to_owned()),
                ("deadline".to_owned(), "2020-01-01T00:00:00Z".to_owned()),
                ("agentanycast-sealed-for".to_owned(), PEER.to_owned()),
                ("gateway.x".to_owned(), "y".to_owned()),
            ]
            .into(),
            context_id: "talk".to_owned(),
            ..Task::from(v1::Task::default())
        }
    }

    /// Each field of a request is named: one that is added is decided on here, or this does not compile.
    #[tokio::test]
    async fn every_field_of_a_task_goes_with_it_again() {
        let fake = crate::fake_daemon::FakeDaemon::start(crate::fake_daemon::CallMode::Unary);
        let addressee = TaskAddressee {
            target: Target::url("https://agents.example/a?key=1"),
            skill_of_peer: "s".to_owned(),
            allow_private: true,
            agent: "second".to_owned(),
        };
        let task = old();
        let parts = task.messages[0].parts.clone();
        let builder = again(fake.node().await, task, addressee.clone()).unwrap();
        let (target, request) = builder.into_request();
        assert_eq!(target, Some(addressee.target));
        let v1::SendTaskRequest {
            message,
            metadata,
            context_id,
            sealed_for,
            skill_of_peer,
            allow_private,
            target_agent,
            brief,
            idempotency_key,
            target: _,
            task_id,
            transport_hint,
            note,
            group,
        } = request;
        assert_eq!(Message::from(message.unwrap()).parts, parts);
        assert_eq!(metadata, [("priority".to_owned(), "low".to_owned())].into());
        assert_eq!((context_id.as_str(), sealed_for.as_str()), ("talk", PEER));
        assert_eq!((skill_of_peer.as_str(), target_agent.as_str()), ("s", "second"));
        assert!(allow_private && brief && !idempotency_key.is_empty());
        assert!(task_id.is_empty() && transport_hint.is_empty() && note.is_none() && group.is_empty());
    }

    #[test]
    fn an_older_daemon_is_understood_by_what_it_tells() {
        let mut task = old();
        task.status = TaskStatus::Completed;
        let mut trace = Trace::from(v1::TraceTaskResponse::default());
        assert!(addressee(&task, &trace).is_err(), "nobody");
        task.assignee = Some(PEER.parse().unwrap());
        task.agent = "second".to_owned();
        let peer = addressee(&task, &trace).unwrap();
        assert_eq!(
            (&peer.target, peer.agent.as_str()),
            (&Target::Peer(PEER.parse().unwrap()), "second")
        );
        task.skill = "echo".to_owned();
        let skill = addressee(&task, &trace).unwrap();
        assert_eq!(
            (&skill.target, skill.agent.as_str()),
            (&Target::skill("echo"), "")
        );
        trace.url = "https://agents.example".to_owned();
        assert_eq!(
            addressee(&task, &trace).unwrap().target,
            Target::url("https://agents.example")
        );
        trace.side = crate::TaskSide::Assignee;
        assert!(addressee(&task, &trace).is_err());
    }
}
