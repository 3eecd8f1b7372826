//! `anycast task`: one task, with what was said and what came out; on demand after its end.

use std::{path::PathBuf, time::Duration};

use agentanycast::{ErrorKind, Message, Node, Role, Task, TaskHandle, Trace};
use clap::{Args, builder::NonEmptyStringValueParser};

use super::follow::final_output;
use crate::{
    arg_values::parse_duration,
    context::Context,
    failure::{CommandFailure, FailureCode},
    interrupt::Interrupt,
    json, output,
    tasks_by_id::whole_id,
};

#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The task's id or its beginning, as `anycast tasks` lists it
    #[arg(value_name = "TASK_ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) task: String,
    /// Wait for its end first, and end as `anycast send` does
    #[arg(long)]
    pub(crate) wait: bool,
    /// Give up waiting after this long, such as 30s, 1h30m or 2d; 0 waits for ever
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "TIME", requires = "wait")]
    pub(crate) timeout: Duration,
    /// Write what comes back into files in this directory, texts too
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) async fn run(context: &Context, args: TaskArgs) -> Result<(), CommandFailure> {
    let mut interrupt = Interrupt::new()?;
    let node = interrupt.or(context.connect_or_start()).await?;
    let (handle, mut task) = interrupt.or(find(&node, &args.task)).await?;
    if args.wait {
        tokio::select! {
            ended = until_ended(&handle, &args) => ended?,
            wish = interrupt.stop_signal() => {
                let message = format!("interrupted; task {} goes on", args.task);
                return Err(wish.failure(message));
            }
        }
        task = handle.snapshot().await?;
    }
    // An artifact that is still being sent is shown as it comes.
    interrupt.or(print(context, &handle, &task, &args)).await?;
    if args.wait {
        task.into_result()
            .map_err(|error| CommandFailure::from(error).already_reported())?;
    }
    Ok(())
}

/// Prints the task and what came out of it.
async fn print(
    context: &Context,
    handle: &TaskHandle,
    task: &Task,
    args: &TaskArgs,
) -> Result<(), CommandFailure> {
    if context.json {
        let mut saved = Vec::new();
        if let Some(directory) = &args.output {
            for artifact in task
                .artifacts
                .iter()
                .filter(|artifact| artifact.break_reason().is_none())
            {
                saved.extend(final_output::save(handle, artifact, directory).await?);
            }
        }
        output::json(&json::task(task, &saved))?;
        return Ok(());
    }
    show(task)?;
    for artifact in &task.artifacts {
        output::line("")?;
        if let Some(reason) = artifact.break_reason() {
            let name = output::brief(&artifact.name);
            output::line(&format!("{name} broke off: {}", output::flat(reason)))?;
            continue;
        }
        final_output::print(handle, artifact, args.output.as_deref()).await?;
    }
    Ok(())
}

/// A task, by the id that it has here; a sealed one also by the one that it has where it was sealed.
pub(super) async fn find(node: &Node, asked: &str) -> Result<(TaskHandle, Task), CommandFailure> {
    let asked = whole_id(node, asked).await?;
    let handle = node.task_handle(&asked);
    let not_found = match handle.snapshot().await {
        Ok(task) => return Ok((handle, task)),
        Err(error) if error.kind() == ErrorKind::TaskNotFound => error,
        Err(error) => return Err(error.into()),
    };
    match node.trace(&asked).await {
        Ok(Trace { task: Some(task), .. }) => {
            let handle = node.task_handle(task.id);
            let task = handle.snapshot().await?;
            Ok((handle, task))
        }
        Err(error) if !matches!(error.kind(), ErrorKind::TaskNotFound | ErrorKind::Unsupported) => {
            Err(error.into())
        }
        _ => Err(not_found.into()),
    }
}

/// Waits for the end; whatever that is, the task is shown.
async fn until_ended(handle: &TaskHandle, args: &TaskArgs) -> Result<(), CommandFailure> {
    let waiting = async {
        match handle.wait().await {
            Err(agentanycast::TaskError::Node(error)) => Err(error.into()),
            _ => Ok(()),
        }
    };
    if args.timeout.is_zero() {
        return waiting.await;
    }
    tokio::time::timeout(args.timeout, waiting)
        .await
        .unwrap_or_else(|_| {
            let message = format!("task {} has not ended within {:?}", args.task, args.timeout);
            Err(CommandFailure::new(FailureCode::Timeout, "Timeout", message))
        })
}

fn show(task: &Task) -> Result<(), CommandFailure> {
    let peer =
        |peer: &Option<agentanycast::PeerId>| peer.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut fields = vec![
        ("task", task.id.clone()),
        ("state", task.status.to_string()),
        ("reason", output::brief(&task.reason())),
        ("skill", output::brief(&task.skill)),
        ("from", peer(&task.originator)),
        ("to", peer(&task.assignee)),
        ("came", output::ago(task.created_at)),
        ("changed", output::ago(task.updated_at)),
    ];
    let sealed = [("sealed by", task.sealed_by()), ("sealed for", task.sealed_for())];
    fields.extend(
        sealed
            .into_iter()
            .filter(|(_, peer)| peer.is_some())
            .map(|(name, with)| (name, peer(&with))),
    );
    let labels = task.metadata.iter();
    let labels = labels.filter(|(key, _)| !key.starts_with("agentanycast-sealed-"));
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    fields.extend(labels.map(|label| ("label", output::brief(&label))));
    let before = task
        .attempts
        .iter()
        .map(|attempt| format!("{} {}", peer(&attempt.peer), output::flat(&attempt.reason)));
    fields.extend(before.map(|attempt| ("asked before", attempt)));
    fields.extend(task.messages.iter().map(said));
    Ok(output::fields(&fields)?)
}

fn said(message: &Message) -> (&'static str, String) {
    let role = match message.role {
        Role::User => "user",
        _ => "agent",
    };
    (role, output::brief(&message.text_content()))
}
