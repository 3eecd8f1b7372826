//! `anycast audit`: looks at audit logs, without a daemon.

use std::{fs::File, io::BufReader, path::PathBuf};

use agentanycast_core::policy::audit::verify::{LogSummary, verify};
use clap::Subcommand;
use serde_json::json;

use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    output,
};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no line of a chained audit log was changed, removed or added; exit code 1 if one was
    Verify {
        /// The log; of one that was rotated all its files, oldest first
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// A last hash that was shown before: its line has to be there still, or the files go on behind it
        #[arg(long, value_name = "HASH")]
        before: Option<String>,
        /// It is an error if there is no line, or one without the hash of the one before
        #[arg(long)]
        chained: bool,
    },
}

pub(crate) fn run(context: &Context, command: AuditCommand) -> Result<(), CommandFailure> {
    let AuditCommand::Verify {
        files,
        before: kept,
        chained,
    } = command;
    if let Some(kept) = kept.as_deref().filter(|kept| !is_hash(kept)) {
        let text = format!("--before {kept}: a hash is 64 hex digits in lower case, as a last hash is shown");
        return Err(CommandFailure::usage(text));
    }
    let mut whole: Option<LogSummary> = None;
    for path in &files {
        let read = one(path, whole.as_ref(), kept.as_deref())?;
        whole = Some(whole.unwrap_or_default().then(read));
    }
    let whole = whole.unwrap_or_default();
    if let Some(kept) = kept.filter(|_| !whole.has_kept) {
        let text = format!(
            "no line has the hash {kept}, nor goes on behind it: the log was cut off or emptied, or it is another one"
        );
        return Err(CommandFailure::new(FailureCode::General, "Audit", text));
    }
    if chained && (whole.lines == 0 || whole.chained < whole.lines) {
        let text = format!(
            "{} of {} lines are chained: what was changed in the others cannot be seen",
            whole.chained, whole.lines
        );
        return Err(CommandFailure::new(FailureCode::General, "Audit", text));
    }
    if context.json {
        return Ok(output::json(&json!({
            "lines": whole.lines,
            "chained": whole.chained,
            "first_prev": whole.first_prev,
            "last": whole.last,
        }))?);
    }
    let unchained = whole.lines - whole.chained;
    let begins = match &whole.first_prev {
        _ if whole.lines == 0 => "there is no line".to_owned(),
        _ if whole.chained > 0 && unchained > 0 => {
            format!("behind {unchained} lines of before audit_chain was on, of which changes cannot be seen")
        }
        None => "no line has the hash of the one before it (audit_chain is off): changes cannot be seen"
            .to_owned(),
        Some(prev) if prev.bytes().all(|byte| byte == b'0') => {
            "at the first line that was ever written".to_owned()
        }
        Some(prev) => format!("behind a line with the hash {prev}"),
    };
    Ok(output::fields(&[
        ("lines", whole.lines.to_string()),
        ("chained", whole.chained.to_string()),
        ("begins", begins),
        ("last hash", whole.last.unwrap_or_default()),
    ])?)
}

/// Whether it is written as lines have it.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn one(
    path: &PathBuf,
    before: Option<&LogSummary>,
    kept: Option<&str>,
) -> Result<LogSummary, CommandFailure> {
    let shown = path.display();
    let failed = |why: String| CommandFailure::new(FailureCode::General, "Audit", format!("{shown}: {why}"));
    let is_file = path.metadata().map(|about| about.is_file());
    // A pipe would be waited for, maybe for ever.
    if !is_file.map_err(|error| failed(error.to_string()))? {
        return Err(failed(
            "it is no regular file; give that of an audit log".to_owned(),
        ));
    }
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    verify(BufReader::new(file), before, kept).map_err(|broken| failed(broken.to_string()))
}
