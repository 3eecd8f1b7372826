//! `anycast retry`: sends a task that has ended once more, as a new task in the same conversation.

use std::collections::BTreeMap;

use agentanycast::{Message, Node, PeerId, Role, Target, Task, TaskHandle, TaskSide};
use clap::{Args, builder::NonEmptyStringValueParser};

use super::{follow::FollowArgs, follow::Follower, task};
use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    interrupt::Interrupt,
    output,
};

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// The id of a task that was sent from here and has ended
    #[arg(value_name = "TASK_ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) follow: FollowArgs,
}

/// What begins labels that belong to one task alone: how it was sealed, and which gateway it came by.
const OWN_LABELS: [&str; 3] = ["agentanycast-sealed-", "a2a.", "gateway."];

/// Other labels that belong to one task alone: its deadline has passed, or was meant for it.
const OWN_KEYS: [&str; 4] = ["deadline", "context_id", "task_id", "idempotency_key"];

pub(crate) async fn run(context: &Context, args: RetryArgs) -> Result<(), CommandFailure> {
    let mut interrupt = Interrupt::new()?;
    let node = interrupt.or(context.connect_or_start()).await?;
    let (_, task) = interrupt.or(task::find(&node, &args.task)).await?;
    let again = Resend::from_task(&node, task).await?;
    if again.further > 0 {
        output::warn(&format!(
            "anycast: the first message is sent again; the {} that followed are not",
            again.further
        ));
    }
    let mut follower = Follower::new(context, &node, &args.follow, false);
    follower.send(&mut interrupt, again.send(&node)).await
}

/// What is sent once more.
struct Resend {
    target: Target,
    sealed_for: Option<PeerId>,
    message: Message,
    context_id: String,
    labels: BTreeMap<String, String>,
    /// Messages of the originator after the first.
    further: usize,
}

impl Resend {
    async fn from_task(node: &Node, task: Task) -> Result<Self, CommandFailure> {
        let conflict =
            |text: String| CommandFailure::new(FailureCode::General, "Conflict", text).with_task(&task.id);
        let id = &task.id;
        if !task.status.is_terminal() {
            let advice = format!(
                "wait for its end with `anycast task {id} --wait`, or cancel it with `anycast cancel {id}`"
            );
            return Err(conflict(format!(
                "task {id} has not ended: it is {}; {advice}",
                task.status
            )));
        }
        let trace = node.trace(id).await?;
        let target = match (trace.side, task.skill.as_str(), &task.assignee) {
            (TaskSide::Assignee, ..) => {
                return Err(conflict(format!(
                    "task {id} was not sent from here; its sender can send it again"
                )));
            }
            (TaskSide::External, ..) => Target::url(&trace.url),
            (_, "", Some(peer)) => Target::Peer(peer.clone()),
            (_, skill, _) if !skill.is_empty() => Target::skill(skill),
            _ => return Err(conflict(format!("task {id} does not say whom it was sent to"))),
        };
        let mut said = task.messages.iter().filter(|message| message.role == Role::User);
        let Some(message) = said.next() else {
            return Err(conflict(format!("task {id} has no message any more")));
        };
        // A message of its own, with the same parts.
        let message = Message::new(message.parts.iter().cloned());
        let further = said.count();
        let (sealed_for, labels) = (task.sealed_for(), labels(&task));
        Ok(Self {
            target,
            sealed_for,
            message,
            context_id: task.context_id,
            labels,
            further,
        })
    }

    async fn send(self, node: &Node) -> Result<TaskHandle, CommandFailure> {
        let mut task = node
            .task(self.target, self.message)
            .metadata_from(self.labels)
            .context_id(self.context_id);
        if let Some(reader) = &self.sealed_for {
            task = task.sealed_for(reader);
        }
        Ok(task.send().await?)
    }
}

/// The labels that go with it again.
fn labels(task: &Task) -> BTreeMap<String, String> {
    let labels = task.metadata.iter();
    let kept = labels.filter(|(key, _)| {
        !OWN_KEYS.contains(&key.as_str()) && !OWN_LABELS.iter().any(|start| key.starts_with(start))
    });
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}
