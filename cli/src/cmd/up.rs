//! `anycast up`: starts the home's daemon in the background, and shows who and where it is.

use clap::Args;
use serde_json::json;

use crate::{
    background_daemon::{BackgroundDaemon, DaemonProcess},
    columns,
    context::Context,
    failure::CommandFailure,
    hints,
    interrupt::Interrupt,
    output,
    settings_file::SettingsFile,
};

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Keep in the home's settings where the daemon listens: multiaddrs such as /ip4/0.0.0.0/tcp/4002; a comma list, or
    /// repeated
    #[arg(long, value_name = "ADDRS", value_delimiter = ',')]
    pub(crate) listen: Vec<String>,
}

pub(crate) async fn run(context: &Context, args: &UpArgs) -> Result<(), CommandFailure> {
    context.refuse_address()?;
    let mut is_changed = context.keep_relays()?;
    if !args.listen.is_empty() {
        is_changed |= SettingsFile::from_home(&context.home)?.set("listen_addrs", &args.listen.join(","))?;
    }
    let daemon = BackgroundDaemon::new(&context.home)?;
    let running = Interrupt::new()?.or(daemon.start()).await?;
    if is_changed && !running.is_new {
        context.say_restart_is_needed()?;
    }
    show(context, &daemon, running).await
}

/// Who the daemon is and where, once it answers.
pub(super) async fn show(
    context: &Context,
    daemon: &BackgroundDaemon,
    running: DaemonProcess,
) -> Result<(), CommandFailure> {
    let info = context.first_answer().await?.info().await?;
    let peer = info.peer_id.ok_or_else(CommandFailure::unnamed_daemon)?;
    let pid = running.pid.as_raw_nonzero();
    let addresses: Vec<String> = info
        .listen_addresses
        .iter()
        .map(|address| format!("{address}/p2p/{peer}"))
        .collect();
    let log = daemon.log().display().to_string();
    if context.json {
        return Ok(output::json(&json!({
            "pid": pid, "started": running.is_new, "peer_id": peer.as_str(), "addresses": addresses, "log": log,
        }))?);
    }
    let state = if running.is_new { "started" } else { "runs already" };
    output::fields(&[
        (
            "daemon",
            format!("{state}, pid {pid}; {} stops it", hints::command("down")),
        ),
        ("peer id", peer.to_string()),
        ("log", log),
    ])?;
    let steps = next_steps();
    let widest = steps.iter().map(|(command, _)| columns::width(command)).max();
    for (number, (command, what)) in steps.iter().enumerate() {
        let head = if number == 0 { "next" } else { "" };
        let command = columns::padded(command, widest.unwrap_or_default());
        output::line(&format!("{head:<7}  {command}  {what}"))?;
    }
    Ok(())
}

/// What is done with a daemon that runs: commands that work as they are, one after the other, and what they do.
fn next_steps() -> [(String, &'static str); 5] {
    [
        (
            hints::command("run --name echo -- cat"),
            "makes an agent of a program, until Ctrl-C",
        ),
        (hints::command("send self/echo hello"), "sends it a task"),
        (hints::command("invite"), "lets another machine send to it"),
        (hints::command("agents"), "lists who is known"),
        (hints::command("status"), "shows where it listens, and how it is"),
    ]
}
