//! `anycast down`: stops the home's daemon. It fails where none runs, so that a script knows. The settings need not be right.

use serde_json::json;

use crate::{background::HomeProcess, context::Context, failure::Failure, output};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    context.refuse_address()?;
    let stopped = HomeProcess::of(context)?.stop().await?;
    let Some(pid) = stopped else {
        return Err(context.nobody_runs());
    };
    let pid = pid.as_raw_nonzero();
    if context.json {
        return Ok(output::json(&json!({"pid": pid}))?);
    }
    Ok(output::line(&format!("stopped the daemon (pid {pid})"))?)
}
