//! `anycast cancel`: ends a task that is still open, at both sides.

use clap::{Args, builder::NonEmptyStringValueParser};

use crate::{context::Context, failure::CommandFailure, json, output, tasks_by_id::whole_id};

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The task's id or its beginning, as `anycast tasks` lists it
    #[arg(value_name = "TASK_ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) task: String,
}

pub(crate) async fn run(context: &Context, args: CancelArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    let task = node
        .task_handle(whole_id(&node, &args.task).await?)
        .cancel()
        .await?;
    if context.json {
        return Ok(output::json(&json::summary(&task).into())?);
    }
    Ok(output::line(&format!(
        "task {} {}",
        output::brief(&task.id),
        task.status
    ))?)
}
