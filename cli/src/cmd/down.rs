//! `anycast down`: stops the home's daemon. It fails where none runs, so that a script knows. The settings need not be right.

use std::time::Duration;

use serde_json::json;

use crate::{background_daemon::HomeProcess, context::Context, failure::CommandFailure, output};

/// How long the daemon may take to say how many tasks are open; it is stopped in any case.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

pub(crate) async fn run(context: &Context) -> Result<(), CommandFailure> {
    context.refuse_address()?;
    let open = tokio::time::timeout(ANSWER_LIMIT, open_tasks(context)).await;
    let stopped = HomeProcess::from_home(&context.home)?.stop().await?;
    let Some(pid) = stopped else {
        return Err(context.no_daemon_failure());
    };
    let pid = pid.as_raw_nonzero();
    if context.json {
        return Ok(output::json(&json!({"pid": pid}))?);
    }
    output::line(&format!("stopped the daemon (pid {pid})"))?;
    if let Some(told) = open.ok().flatten().and_then(what_stays) {
        output::warn(&told);
    }
    Ok(())
}

/// How many tasks have not ended; `None` where the daemon does not say it.
async fn open_tasks(context: &Context) -> Option<u64> {
    let node = context.connect().await.ok()?;
    let activity = node.activity(0).await.ok()?;
    node.shutdown().await;
    let open = activity.tasks.iter().filter(|count| !count.status.is_terminal());
    Some(open.map(|count| count.now).sum())
}

fn what_stays(open: u64) -> Option<String> {
    match open {
        0 => None,
        1 => {
            Some("1 task has not ended; it is kept, and goes on when the daemon is started again".to_owned())
        }
        _ => Some(format!(
            "{open} tasks have not ended; they are kept, and go on when the daemon is started again"
        )),
    }
}
