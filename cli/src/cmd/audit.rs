//! `anycast audit`: looks at audit logs, without a daemon.

use std::{fs::File, io::BufReader, path::PathBuf};

use agentanycast_node::policy::audit::verify::{Verified, verify};
use serde_json::json;

use crate::{
    args::AuditCommand,
    context::Context,
    failure::{Code, Failure},
    output,
};

pub(crate) fn run(context: &Context, command: AuditCommand) -> Result<(), Failure> {
    let AuditCommand::Verify {
        files,
        before: kept,
        chained,
    } = command;
    let mut whole: Option<Verified> = None;
    for path in &files {
        let read = one(path, whole.as_ref(), kept.as_deref())?;
        whole = Some(whole.unwrap_or_default().then(read));
    }
    let whole = whole.unwrap_or_default();
    if let Some(kept) = kept.filter(|_| !whole.has_kept) {
        let text = format!(
            "no line has the hash {kept}, nor goes on behind it: the log was cut off or emptied, or it is another one"
        );
        return Err(Failure::new(Code::General, "Audit", text));
    }
    if chained && (whole.lines == 0 || whole.chained < whole.lines) {
        let text = format!(
            "{} of {} lines are chained: what was changed in the others cannot be seen",
            whole.chained, whole.lines
        );
        return Err(Failure::new(Code::General, "Audit", text));
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

fn one(path: &PathBuf, before: Option<&Verified>, kept: Option<&str>) -> Result<Verified, Failure> {
    let shown = path.display();
    let failed = |why: String| Failure::new(Code::General, "Audit", format!("{shown}: {why}"));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    verify(BufReader::new(file), before, kept).map_err(|broken| failed(broken.to_string()))
}
