//! `anycast bugreport`: an archive of what somebody who looks for a fault asks for. What is in the key file, in tokens and
//! in tasks is never read for it, and what looks like a secret in a log is left out.

mod archive;
mod redact;
mod shown_settings;
mod store_sizes;

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::SystemTime,
};

use agentanycast::Activity;
use agentanycast_daemon_kit::VERSION;
use agentanycast_node::load_config::{self, LoadedConfig};
use clap::Args;
use serde_json::{Value, json};

use self::archive::Archive;
use super::doctor::{
    self,
    facts::{self, DoctorFacts},
    finding::Finding,
};
use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    json, output,
};

#[derive(Debug, Args)]
pub(crate) struct BugreportArgs {
    /// Where it is written; a file that is there is not replaced [default: anycast-bugreport-TIME.tar.gz here]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Lines of its log that a daemon keeps.
const LOG_LINES: usize = 256;

/// How much of the end of a log file is taken, in bytes.
const LOG_FILE: u64 = 1 << 20;

/// The names of the log files in the archive, the newest first; daemons in the background log so inside a home too.
const LOG_FILES: [&str; 2] = ["logs/daemon.log", "logs/daemon.log.1"];

const README: &str = "For a report of a fault in AgentAnycast, made by `anycast bugreport`.

report.json    versions, what `anycast doctor` found, and what the daemon said of itself: peers, relays, counts of tasks
settings.txt   the daemon's settings, each with where it comes from; *** in the place of values that are not on a list of
               harmless ones: variables and arguments of programs, keys, rules
log.txt        what the daemon logged last; logs/ has the ends of the log files; without what programs say
store.json     how many files and bytes the store has, and how much room its disk

No keys, no tokens and nothing of what tasks say is in it. Peer ids, addresses and paths are: look through it before you
give it to others.
";

pub(crate) async fn run(context: &Context, args: BugreportArgs) -> Result<(), CommandFailure> {
    let path = args.output.unwrap_or_else(default_name);
    let facts = DoctorFacts::gather(context, LOG_LINES).await?;
    let findings = doctor::check(&facts).await;
    let mut archive = Archive::create(&path).map_err(|error| wrong(&path, &error))?;
    let added = add_all(&mut archive, context, &facts, &findings);
    added
        .and_then(|()| archive.finish())
        .map_err(|error| wrong(&path, &error))?;
    if context.json {
        return Ok(output::json(&json!({"path": path}))?);
    }
    output::line(&format!("wrote {}", path.display()))?;
    output::warn("it has peer ids, addresses and paths: look through it before you give it to others");
    Ok(())
}

fn default_name() -> PathBuf {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    format!("anycast-bugreport-{now}.tar.gz").into()
}

fn wrong(path: &Path, error: &io::Error) -> CommandFailure {
    let advice = match error.kind() {
        io::ErrorKind::AlreadyExists => "; remove it, or name another one with --output",
        _ => "",
    };
    CommandFailure::new(
        FailureCode::General,
        "Io",
        format!("cannot write {}: {error}{advice}", path.display()),
    )
}

fn add_all(
    archive: &mut Archive,
    context: &Context,
    facts: &DoctorFacts,
    findings: &[Finding],
) -> io::Result<()> {
    archive.add("README.txt", README)?;
    let report = redact::text(&format!("{:#}\n", report(facts, findings)));
    archive.add("report.json", &report)?;
    let settings = shown_settings::text(&settings(context, facts));
    archive.add("settings.txt", &redact::text(&settings))?;
    let log = facts.daemon_report().map(|told| told.activity.log.as_slice());
    let lines: Vec<String> = log
        .unwrap_or_default()
        .iter()
        .map(|line| redact::text(line))
        .collect();
    archive.add("log.txt", &(lines.join("\n") + "\n"))?;
    for (name, path) in log_files(facts) {
        if let Some(text) = end_of(&path)? {
            let lines: Vec<_> = text.split('\n').map(redact::log_line).collect();
            archive.add(name, &redact::text(&lines.join("\n")))?;
        }
    }
    if let Some(config) = facts.config() {
        let figures = store_sizes::document(&config.store_path);
        archive.add("store.json", &format!("{figures:#}\n"))?;
    }
    Ok(())
}

/// What is known without the daemon, and what it says.
fn report(facts: &DoctorFacts, findings: &[Finding]) -> Value {
    let told = facts.daemon_report();
    json!({
        "made_at": json::time(Some(SystemTime::now())),
        "program": VERSION,
        "system": {
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
            "processors": std::thread::available_parallelism().map_or(0, usize::from),
        },
        "doctor": findings.iter().map(Finding::document).collect::<Vec<_>>(),
        "daemon_error": facts.daemon.as_ref().err(),
        "daemon": told.map(|told| json!({
            "address": told.address,
            "version": told.info.version,
            "peer_id": told.info.peer_id.as_ref().map(ToString::to_string),
            "started_at": json::time(told.info.started_at),
            "addresses": told.info.listen_addresses,
            "agent_listening": told.info.agent_listening,
        })),
        "network": told.map(|told| json::network(&told.network)),
        "activity": told.map(|told| activity(&told.activity)),
    })
}

/// The log files of the home's daemon, each with its name in the archive: where the settings say, or else where a daemon in
/// the background logs.
fn log_files(facts: &DoctorFacts) -> Vec<(&'static str, PathBuf)> {
    let Some(home) = &facts.home else {
        return Vec::new();
    };
    let set = facts.config().and_then(|config| config.log_file.clone());
    let newest = set.unwrap_or_else(|| home.join(LOG_FILES[0]));
    let mut before = newest.clone().into_os_string();
    before.push(".1");
    LOG_FILES.into_iter().zip([newest, before.into()]).collect()
}

/// Counts, without what the log and refusals say of tasks.
fn activity(activity: &Activity) -> Value {
    let tasks = activity.tasks.iter().map(|count| {
        json!({
            "status": count.status.as_str(),
            "now": count.now,
            "outbound_total": count.outbound_total,
            "inbound_total": count.inbound_total,
        })
    });
    json!({
        "now": json::time(activity.now),
        "store_failure": activity.store_failure,
        "problems": activity.problems,
        "tasks": tasks.collect::<Vec<_>>(),
        "queued": activity.queued,
        "sent": activity.sent,
        "parked": activity.parked,
        "refusals": activity.refusals.iter().map(|refusal| refusal.count).sum::<u64>(),
    })
}

/// The settings as the daemon would print them, which leaves secrets out; or why it cannot.
fn settings(context: &Context, facts: &DoctorFacts) -> String {
    let Ok(mut arguments) = facts::arguments(context, facts.home.as_deref()) else {
        return String::new();
    };
    arguments.push("--print-config".into());
    match load_config::reload(&arguments).1 {
        Ok(LoadedConfig::PrintConfig { text, refused }) => {
            let refused = refused.map(|error| format!("\n# refused: {error}\n"));
            text + &refused.unwrap_or_default()
        }
        Ok(_) => String::new(),
        Err(error) => format!("# {error}\n"),
    }
}

/// The end of a log file, from the begin of a line; None: it is not there.
fn end_of(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(LOG_FILE)))?;
    let mut end = Vec::new();
    file.take(LOG_FILE).read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end).into_owned();
    Ok(Some(match text.split_once('\n') {
        Some((_, whole)) if size > LOG_FILE => whole.to_owned(),
        _ => text,
    }))
}
