//! `anycast retry`: sends a task that has ended once more, as a new task in the same conversation.

use agentanycast::{Node, Role, Task, TaskBuilder};
use clap::{Args, builder::NonEmptyStringValueParser};

use super::{follow::FollowArgs, follow::Follower, task};
use crate::{context::Context, failure::CommandFailure, hints, interrupt::Interrupt, output};

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// The id of a task that was sent from here and has ended
    #[arg(value_name = "TASK_ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) follow: FollowArgs,
}

pub(crate) async fn run(context: &Context, args: RetryArgs) -> Result<(), CommandFailure> {
    let mut interrupt = Interrupt::new()?;
    let node = interrupt.or(context.connect_or_start()).await?;
    let (_, task) = interrupt.or(task::find(&node, &args.task)).await?;
    let again = interrupt.or(again(&node, &task)).await?;
    let further = task.messages.iter().filter(|message| message.role == Role::User);
    let further = further.count().saturating_sub(1);
    if further > 0 {
        output::warn(&format!(
            "anycast: the first message is sent again; the {further} that followed are not"
        ));
    }
    let mut follower = Follower::new(context, &node, &args.follow, false);
    let sending = async { Ok(again.send().await?) };
    follower.send(&mut interrupt, sending).await
}

/// The new task; of one that has not ended, what can be done instead.
async fn again(node: &Node, task: &Task) -> Result<TaskBuilder, CommandFailure> {
    let id = &task.id;
    let advice = if task.status.is_terminal() {
        String::new()
    } else {
        format!(
            "; wait for its end with `{}`, or cancel it with `{}`",
            hints::command(&format!("task {id} --wait")),
            hints::command(&format!("cancel {id}"))
        )
    };
    node.task_again(task).await.map_err(|error| {
        let code = CommandFailure::from(error.clone()).code;
        CommandFailure::new(code, &format!("{:?}", error.kind()), format!("{error}{advice}")).with_task(id)
    })
}
