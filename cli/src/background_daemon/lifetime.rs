//! What a process that is started here ends with: a unit of systemd takes all its processes along, and so
//! does a job of CI. Used where a command starts the daemon, which gets a scope of its own where systemd
//! gives one, and by `anycast doctor`.

use std::{ffi::OsString, process::Stdio, time::Duration};

use rustix::process::Pid;
use tokio::process::Command;

use super::MARKER;
use crate::hints;

/// How long systemd may take to give a scope.
const SCOPE_LIMIT: Duration = Duration::from_secs(5);

/// Variables that services of CI set in each job.
const CI_VARIABLES: [&str; 6] = [
    "CI",
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "JENKINS_URL",
    "TF_BUILD",
    "BUILDKITE",
];

/// What ends a process that is started here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Nothing but a command, or the end of the system or of the session.
    Lasting,
    /// The end of this unit of systemd.
    Unit(String),
    /// The end of a job, as this variable tells.
    Job(&'static str),
}

impl Lifetime {
    /// That of what this process starts.
    pub(super) fn here() -> Self {
        let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let is_set =
            |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
        Self::from_facts(&cgroups, CI_VARIABLES.into_iter().find(|name| is_set(name)))
    }

    /// PURE. `job`: a variable of CI that is set.
    fn from_facts(cgroups: &str, job: Option<&'static str>) -> Self {
        match (unit_in(cgroups), job) {
            (Some(unit), _) => Self::Unit(unit.to_owned()),
            (None, Some(variable)) => Self::Job(variable),
            (None, None) => Self::Lasting,
        }
    }

    /// What is to be known of a daemon that was started with this lifetime; None: it stays.
    pub(super) fn caution(&self) -> Option<String> {
        let install = hints::command("service install");
        match self {
            Self::Lasting => None,
            Self::Unit(unit) => Some(format!(
                "the daemon ends with {unit}, the unit that this command runs in: systemd gave it no scope of its own; `{install}` makes \
                 the daemon a service of its own"
            )),
            Self::Job(variable) => Some(format!(
                "{variable} is set: the daemon may end with this step or job of CI; a step that needs it runs `{}` \
                 again",
                hints::command("up")
            )),
        }
    }
}

/// The words before a command that have it run in a scope of its own, which outlives the unit; None: systemd
/// gives none here.
pub(super) async fn scope() -> Option<Vec<OsString>> {
    let is_root = rustix::process::geteuid().is_root();
    let manager = if is_root { "--system" } else { "--user" };
    let words = ["systemd-run", manager, "--scope", "--quiet", "--collect", "--"];
    let mut trial = Command::new(words[0]);
    trial
        .args(&words[1..])
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(SCOPE_LIMIT, trial.status()).await;
    matches!(ended, Ok(Ok(status)) if status.success()).then(|| words.map(OsString::from).to_vec())
}

/// The unit that a daemon ends with which a command has started in it; None: it is a service itself, or in no
/// unit, or that is not known.
pub(crate) fn unit_of_daemon(pid: Pid) -> Option<String> {
    let number = pid.as_raw_nonzero();
    let environment = std::fs::read(format!("/proc/{number}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let marked = format!("{MARKER}=1");
    variables.find(|variable| *variable == marked.as_bytes())?;
    let cgroups = std::fs::read_to_string(format!("/proc/{number}/cgroup")).ok()?;
    unit_in(&cgroups).map(str::to_owned)
}

/// PURE: the service that a process is in, of what /proc/PID/cgroup says. A scope in it outlives it, and a
/// manager of users' services is none that a command is run by.
fn unit_in(cgroups: &str) -> Option<&str> {
    let path = cgroups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        matches!(controllers, "" | "name=systemd").then_some(path)
    })?;
    let unit = path
        .rsplit('/')
        .find(|part| [".service", ".scope"].iter().any(|kind| part.ends_with(kind)))?;
    (unit.ends_with(".service") && !unit.starts_with("user@")).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_around_a_process_is_known() {
        for (cgroups, unit) in [
            ("0::/system.slice/build.service\n", Some("build.service")),
            ("0::/system.slice/build.service/inner\n", Some("build.service")),
            (
                "12:pids:/x.service\n1:name=systemd:/system.slice/runner@1.service\n",
                Some("runner@1.service"),
            ),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/emacs.service\n",
                Some("emacs.service"),
            ),
            ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope\n",
                None,
            ),
            ("0::/user.slice/user-1000.slice/user@1000.service\n", None),
            ("0::/system.slice/docker-0123.scope\n", None),
            ("0::/\n", None),
            ("", None),
            ("what this is\n", None),
        ] {
            assert_eq!(unit_in(cgroups), unit, "{cgroups}");
        }
    }

    #[test]
    fn what_ends_a_daemon_is_said() {
        let of = |cgroups, job| Lifetime::from_facts(cgroups, job).caution();
        assert_eq!(of("0::/user.slice/session-3.scope", None), None);
        assert!(of("0::/a.service", None).unwrap().contains("ends with a.service"));
        assert!(
            of("0::/", Some("GITLAB_CI"))
                .unwrap()
                .starts_with("GITLAB_CI is set")
        );
    }
}
