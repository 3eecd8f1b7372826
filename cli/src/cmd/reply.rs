//! `anycast reply`: answers a task that asks for input, and follows it.

use agentanycast::TaskStatus;
use clap::{Args, builder::NonEmptyStringValueParser};

use super::{follow::FollowArgs, follow::Follower, task};
use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints,
    interrupt::Interrupt,
    message_content::MessageArgs,
};

#[derive(Debug, Args)]
pub(crate) struct ReplyArgs {
    /// The id of a task that was sent from here and asks for input
    #[arg(value_name = "TASK_ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) content: MessageArgs,
    #[command(flatten)]
    pub(crate) follow: FollowArgs,
}

pub(crate) async fn run(context: &Context, args: ReplyArgs) -> Result<(), CommandFailure> {
    let message = args.content.message()?;
    let mut interrupt = Interrupt::new()?;
    let node = interrupt.or(context.connect_or_start()).await?;
    let (_, task) = interrupt.or(task::find(&node, &args.task)).await?;
    if task.status != TaskStatus::InputRequired {
        let message = format!(
            "task {} asks for no input: it is {}; for a new task in its conversation use `{}`",
            task.id,
            task.status,
            hints::command(&format!("send TARGET TEXT --reply-to {}", task.id))
        );
        return Err(CommandFailure::new(FailureCode::General, "Conflict", message).with_task(&task.id));
    }
    // Found by its other id, it is answered by the one that it has here.
    let handle = node.task_handle(&task.id);
    let sending = async {
        handle.reply(message).await?;
        Ok(handle.clone())
    };
    let mut follower = Follower::new(context, &node, &args.follow, args.content.reads_input());
    follower.send(&mut interrupt, sending).await
}
