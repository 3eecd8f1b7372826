//! An execution agent that runs shell scripts as tests. Each payload of a session is a script; each script is
//! a step of the report. What it prints goes to the hub line by line as telemetry, and as a whole as an
//! attachment.
//!
//!     cargo run -p agentanycast-uap-hub --example shell_tests -- \
//!         --hub http://127.0.0.1:50061 --name "shell tests"
//!
//! The scripts run as the user who runs this program, with all that this user may do: give it only to a hub
//! whose users are trusted.

use std::{
    env,
    num::NonZeroUsize,
    path::Path,
    process::{ExitCode, ExitStatus, Stdio},
    time::SystemTime,
};

use agentanycast_uap_hub::{
    agent::{AgentSession, BoxError, ExecutionAgent, HubEndpoint, SessionEnd, SessionProgress},
    v1::{Attachment, PayloadRequirement, Severity, StepReport, Summary, Telemetry},
};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::Command,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Longest line that is sent, in bytes; a longer one is sent in pieces.
const MAX_LINE: u64 = 8 << 10;

/// How much of what a script prints is attached to the result, in bytes. The rest is telemetry only.
const MAX_LOG: usize = 1 << 20;

const USAGE: &str = "usage: shell_tests --hub URL [--name NAME] [--slots N]";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shell_tests: {error}");
            ExitCode::from(2)
        }
    }
}

/// Works for the hub until SIGINT or SIGTERM.
async fn run() -> Result<(), BoxError> {
    let arguments = Arguments::parse(env::args().skip(1))?;
    // Says on standard error whether there is a connection, and why not.
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
    let scripts = PayloadRequirement::required("script")
        .repeatable()
        .with_mime_type("text/x-shellscript")
        .with_mime_type("application/x-sh")
        .with_mime_type("text/plain");
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    ExecutionAgent::new(arguments.name)
        .slots(arguments.slots)
        .test("shell", [scripts], run_scripts)
        .run(arguments.hub, stop)
        .await?;
    Ok(())
}

struct Arguments {
    hub: HubEndpoint,
    name: String,
    slots: NonZeroUsize,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, BoxError> {
        let (mut hub, mut name, mut slots) = (None, "shell tests".to_owned(), NonZeroUsize::MIN);
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or(USAGE)?;
            match flag.as_str() {
                "--hub" => hub = Some(HubEndpoint::new(&value)?),
                "--name" => name = value,
                "--slots" => slots = value.parse()?,
                _ => return Err(USAGE.into()),
            }
        }
        let hub = hub.ok_or(USAGE)?;
        Ok(Self { hub, name, slots })
    }
}

/// A session: its scripts, one after another.
async fn run_scripts(session: AgentSession) -> Result<SessionEnd, BoxError> {
    let count = session.payloads.len();
    if count == 0 {
        return Ok(SessionEnd::invalid(
            "there is no script: give payloads of the type \"script\"",
        ));
    }
    let begun = SystemTime::now();
    let mut end = SessionEnd::completed();
    let mut failed = 0;
    for (index, payload) in session.payloads.iter().enumerate() {
        let Some(script) = &payload.attachment else {
            return Ok(SessionEnd::invalid(format!(
                "payload {} has no attachment",
                index + 1
            )));
        };
        let name = if script.name.is_empty() {
            format!("script-{}", index + 1)
        } else {
            script.name.clone()
        };
        session
            .progress
            .running(format!("{name} ({} of {count})", index + 1))
            .await?;
        let run = tokio::select! {
            run = run_script(&name, &script.data, &session.progress) => run?,
            // What is dropped kills its processes.
            () = session.cancelled.cancelled() => return Ok(SessionEnd::failed("cancelled")),
        };
        failed += usize::from(!run.passed);
        end = end.with_report(run.report).with_attachment(run.log);
    }
    end = end.with_summary(summary(begun));
    Ok(match failed {
        0 => end.with_message(format!("{count} passed")),
        _ => SessionEnd {
            reports: end.reports,
            summary: end.summary,
            attachments: end.attachments,
            ..SessionEnd::failed(format!("{failed} of {count} failed"))
        },
    })
}

struct ScriptRun {
    passed: bool,
    report: StepReport,
    log: Attachment,
}

/// Runs one script with `sh`, in a directory of its own and without input.
async fn run_script(name: &str, script: &[u8], progress: &SessionProgress) -> Result<ScriptRun, BoxError> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("script.sh");
    std::fs::write(&file, script)?;
    let begun = SystemTime::now();
    let (status, log) = run_file(&file, folder.path(), name, progress).await?;
    let mut report = if status.success() {
        StepReport::passed(name)
    } else {
        progress
            .telemetry(Telemetry::new(Severity::Error, status.to_string()).with_source(name))
            .await?;
        StepReport::failed(name)
    };
    report.summary = Some(summary(begun));
    Ok(ScriptRun {
        passed: status.success(),
        report,
        log: Attachment::new(format!("{name}.log"), "text/plain", log),
    })
}

/// Runs `file`; gives how it ended and what it printed. What it has left running is killed when it ends.
async fn run_file(
    file: &Path,
    folder: &Path,
    name: &str,
    progress: &SessionProgress,
) -> Result<(ExitStatus, Vec<u8>), BoxError> {
    let mut child = Command::new("sh")
        .arg(file)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let stdout = child.stdout.take().ok_or("no stdout")?;
    let stderr = child.stderr.take().ok_or("no stderr")?;
    let (lines, printed) = mpsc::channel(64);
    let ended = async {
        let status = child.wait().await;
        drop(group);
        Ok(status?)
    };
    let (status, (), (), log) = tokio::try_join!(
        ended,
        read_lines(stdout, Severity::Info, lines.clone()),
        read_lines(stderr, Severity::Warn, lines),
        send_lines(printed, name, progress),
    )?;
    Ok((status, log))
}

async fn read_lines(
    output: impl AsyncRead + Unpin,
    severity: Severity,
    lines: mpsc::Sender<(Severity, Vec<u8>)>,
) -> Result<(), BoxError> {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        (&mut output).take(MAX_LINE).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(());
        }
        lines.send((severity, line)).await?;
    }
}

/// Sends lines to the hub; gives what is attached to the result.
async fn send_lines(
    mut printed: mpsc::Receiver<(Severity, Vec<u8>)>,
    name: &str,
    progress: &SessionProgress,
) -> Result<Vec<u8>, BoxError> {
    let mut log = Vec::new();
    while let Some((severity, line)) = printed.recv().await {
        let room = MAX_LOG.saturating_sub(log.len());
        log.extend_from_slice(&line[..line.len().min(room)]);
        let text = String::from_utf8_lossy(&line);
        let telemetry = Telemetry::new(severity, text.trim_end_matches('\n')).with_source(name);
        progress.telemetry(telemetry).await?;
    }
    Ok(log)
}

/// The processes of a script. They are killed when it is dropped.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Mostly there is none left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

fn summary(begun: SystemTime) -> Summary {
    Summary {
        total_duration: begun.elapsed().unwrap_or_default().try_into().ok(),
        start_time: Some(begun.into()),
        metadata: None,
    }
}
