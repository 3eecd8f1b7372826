//! `anycast tasks`: the daemon's tasks, sent and received, newest change first.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use agentanycast::{Node, Task, TaskFilter, TaskStatus};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::{
    context::Context,
    failure::CommandFailure,
    interrupt::Interrupt,
    json, output,
    peer_lookup::{self, PeerNames},
    peer_target, short_id, table,
};

#[derive(Debug, Args)]
pub(crate) struct TasksArgs {
    /// Only tasks in this state; can be repeated
    #[arg(long = "status", value_enum, value_name = "STATE")]
    pub(crate) statuses: Vec<State>,
    /// Go on, and show each task again when it changes (with --json: one JSON object per line)
    #[arg(long)]
    pub(crate) watch: bool,
    /// Show ids whole
    #[arg(long)]
    pub(crate) full: bool,
    /// At most this many; 0 = all
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
}

/// A state that tasks can be listed by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    Submitted,
    Working,
    InputRequired,
    Completed,
    Failed,
    Canceled,
    Rejected,
}

const HEAD: [&str; 6] = ["TASK", "STATE", "CHANGED", "WITH", "SKILL", "ASKED"];

/// Time between two looks for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How far back it is looked: changes of the same moment may come to be seen one after the other.
const OVERLAP: Duration = Duration::from_secs(2);

pub(crate) async fn run(context: &Context, args: TasksArgs) -> Result<(), CommandFailure> {
    let node = context.connect_or_start().await?;
    let statuses = args.statuses.into_iter().map(TaskStatus::from).collect();
    let filter = TaskFilter {
        statuses,
        limit: args.limit,
        ..TaskFilter::default()
    };
    if args.watch {
        return watch(context, &node, filter, args.full).await;
    }
    let tasks = node.tasks(&filter).await?;
    if context.json {
        let documents = tasks.iter().map(document);
        return Ok(output::json(&Value::Array(documents.collect()))?);
    }
    if tasks.is_empty() {
        output::warn("no tasks");
        return Ok(());
    }
    let own = node.info().await?.peer_id;
    let names = peer_target::names(context, &node).await?;
    let rows = tasks
        .into_iter()
        .map(|task| row(task, own.as_ref(), &names, args.full));
    let rows: Vec<_> = rows.collect();
    Ok(table::print(HEAD, &rows, args.full)?)
}

/// Shows tasks, oldest change first, and each again when it changes, until somebody interrupts.
async fn watch(
    context: &Context,
    node: &Node,
    mut filter: TaskFilter,
    full: bool,
) -> Result<(), CommandFailure> {
    let mut interrupt = Interrupt::new()?;
    let own = node.info().await?.peer_id;
    let mut table = table::Table::new(HEAD, full);
    let mut shown: HashMap<String, (TaskStatus, Option<SystemTime>)> = HashMap::new();
    loop {
        let mut tasks = node.tasks(&filter).await?;
        tasks.retain(|task| shown.get(&task.id) != Some(&(task.status, task.updated_at)));
        tasks.reverse();
        for task in &tasks {
            shown.insert(task.id.clone(), (task.status, task.updated_at));
            if context.json {
                output::json(&document(task))?;
            }
        }
        let latest = tasks.iter().filter_map(|task| task.updated_at).max();
        if let Some(from) = latest.and_then(|latest| latest.checked_sub(OVERLAP)) {
            filter.changed_after = filter.changed_after.max(Some(from));
            // What has not changed since then is not asked for again.
            shown.retain(|_, (_, changed)| changed.is_none_or(|changed| changed >= from));
        }
        // All changes after the first look.
        filter.limit = 0;
        if !context.json {
            // Agents come and go meanwhile.
            let names = if tasks.is_empty() {
                PeerNames::default()
            } else {
                peer_target::names(context, node).await?
            };
            let rows = tasks
                .into_iter()
                .map(|task| row(task, own.as_ref(), &names, full));
            let rows: Vec<_> = rows.collect();
            table.print(&rows)?;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            wish = interrupt.stop_signal() => return Err(wish.failure("interrupted")),
        }
    }
}

fn document(task: &Task) -> Value {
    let mut document = json::summary(task);
    document.insert("asked".to_owned(), task.asked.clone().into());
    document.into()
}

fn row(task: Task, own: Option<&agentanycast::PeerId>, names: &PeerNames, full: bool) -> [String; 6] {
    let sent = task.originator.as_ref() == own;
    let (arrow, other) = if sent {
        ("to", task.assignee)
    } else {
        ("from", task.originator)
    };
    let (there, here) = if sent {
        (task.agent.as_str(), "")
    } else {
        ("", task.agent.as_str())
    };
    let other = other.map(|peer| {
        let other = peer_lookup::display_agent(names, own, &peer, there, full);
        match here {
            "" => format!("{arrow} {other}"),
            here => format!("{arrow} {other} for {}", output::brief(here)),
        }
    });
    let status = task.status.to_string();
    [
        output::brief(if full { &task.id } else { short_id::task(&task.id) }),
        status,
        output::ago(task.updated_at),
        other.unwrap_or_default(),
        output::brief(&task.skill),
        output::brief(&task.asked),
    ]
}

impl From<State> for TaskStatus {
    fn from(state: State) -> Self {
        match state {
            State::Submitted => Self::Submitted,
            State::Working => Self::Working,
            State::InputRequired => Self::InputRequired,
            State::Completed => Self::Completed,
            State::Failed => Self::Failed,
            State::Canceled => Self::Canceled,
            State::Rejected => Self::Rejected,
        }
    }
}
