//! `anycast reply`: answers a task that asks for input, and follows it.

use agentanycast::TaskStatus;

use super::{follow::Follower, task};
use crate::{
    args::ReplyArgs,
    context::Context,
    failure::{CommandFailure, FailureCode},
    interrupt::Interrupt,
    message_content,
};

pub(crate) async fn run(context: &Context, args: ReplyArgs) -> Result<(), CommandFailure> {
    let message = message_content::message(&args.parts)?;
    let mut interrupt = Interrupt::new()?;
    let node = interrupt.or(context.connect_or_start()).await?;
    let (_, task) = interrupt.or(task::find(&node, &args.task)).await?;
    if task.status != TaskStatus::InputRequired {
        let message = format!(
            "task {} asks for no input: it is {}; for a new task in its conversation use `anycast send TARGET TEXT --reply-to {}`",
            task.id, task.status, task.id
        );
        return Err(CommandFailure::new(FailureCode::General, "Conflict", message).with_task(&task.id));
    }
    // Found by its other id, it is answered by the one that it has here.
    let handle = node.task_handle(&task.id);
    let sending = async {
        handle.reply(message).await?;
        Ok(handle.clone())
    };
    let mut follower = Follower::new(
        context,
        &node,
        &args.follow,
        message_content::reads_input(&args.parts),
    );
    follower.send(&mut interrupt, sending).await
}
