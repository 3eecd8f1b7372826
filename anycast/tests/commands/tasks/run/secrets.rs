//! What programs get of the environment, and what logs and reports show of programs.

use std::{io::Read as _, os::unix::fs::PermissionsExt as _, path::Path};

use agentanycast::{Target, TaskStatus};

use super::{Host, ended, fs, until};
use crate::homes::{RunningCommand, run};

/// Stands for a key.
const SECRET: &str = "hunter22";

/// All that a bug report has, as one text.
fn bugreport(home: &Path) -> String {
    let path = home.join("report.tar.gz");
    let (said, code) = run(home, &["bugreport", "--output", path.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(fs::File::open(path).unwrap()));
    let mut all = String::new();
    for entry in archive.entries().unwrap() {
        entry.unwrap().read_to_string(&mut all).unwrap();
    }
    all
}

#[test]
fn programs_of_the_daemon_get_what_is_listed_and_nothing_else_is_told() {
    let root = tempfile::tempdir().unwrap();
    let (home, log) = (root.path().join("home"), root.path().join("home/logs/daemon.log"));
    fs::create_dir_all(home.join("logs")).unwrap();
    let script = root.path().join("agent.sh");
    fs::write(
        &script,
        "#!/bin/sh\nread word\n[ \"$word\" = fail ] && { echo \"$word hunter22\" >&2; exit 3; }\nenv | sort\n",
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!(
        r#"
log_file = "{}"

[[agents.run]]
name = "shows"
command = ["{}", "--key", "hunter22"]
env = {{ KEY = "hunter22" }}
pass_env = ["TOLD"]

[[agents.run]]
name = "missing"
command = ["{}/nosuch", "hunter22"]
pass_env = ["TOLD"]
"#,
        log.display(),
        script.display(),
        root.path().display()
    );
    fs::write(home.join("config.toml"), settings).unwrap();
    let variables = [
        ("OTHER_TOKEN", SECRET),
        ("TOLD", "yes"),
        ("LANG", "C"),
        ("PATH", "/usr/bin:/bin"),
    ];
    let daemon = RunningCommand::start_with(
        root.path(),
        &["daemon", "--listen=/ip4/127.0.0.1/tcp/0"],
        &variables,
    );
    let host = Host::with_daemon(root, daemon);
    let ask = |message: &str| {
        let sent = host.runtime.block_on(async {
            let peer = host.node.info().await.unwrap().peer_id.unwrap();
            let task = host.node.task(Target::Peer(peer), message);
            task.agent("shows").send().await.unwrap()
        });
        host.halted(&sent)
    };
    let programs = || host.runtime.block_on(host.node.agent_programs()).unwrap();
    let is_served = |name: &str| {
        programs()
            .iter()
            .any(|program| program.agent == name && program.error.is_empty() && !program.starting)
    };
    until("the agent is served", || is_served("shows"));
    until("the other one cannot be", || {
        programs()
            .iter()
            .any(|program| program.agent == "missing" && !program.error.is_empty())
    });
    let (status, environment) = ended(&ask("show"));
    assert_eq!(status, TaskStatus::Completed, "{environment}");
    for passed in ["TOLD=yes", "LANG=C", "KEY=hunter22", "HOME=", "ANYCAST_TASK_ID="] {
        assert!(environment.contains(passed), "{passed}: {environment}");
    }
    for kept in ["OTHER_TOKEN", "AGENTANYCAST_"] {
        assert!(!environment.contains(kept), "{kept}: {environment}");
    }
    let (status, reason) = ended(&ask("fail"));
    assert_eq!(
        (status, reason.as_str()),
        (TaskStatus::Failed, "exit code 3: fail hunter22")
    );
    let logged = || fs::read_to_string(&log).unwrap_or_default();
    until("the failure is logged", || logged().contains("a task fails"));
    let logged = logged();
    assert_eq!(
        logged.matches("do not get these variables").count(),
        1,
        "{logged}"
    );
    assert!(
        logged.contains("OTHER_TOKEN") && !logged.contains("TOLD"),
        "{logged}"
    );
    let report = bugreport(host.root.path());
    assert!(
        report.contains("agents.run") && report.contains("agent.sh"),
        "{report}"
    );
    for (name, text) in [("the log", logged), ("the report", report)] {
        assert!(!text.contains(SECRET), "{name}: {text}");
    }
}

#[test]
fn programs_of_a_runner_get_its_environment_less_its_own() {
    let host = Host::start();
    // `AGENTANYCAST_ENABLE_MDNS` is set for all commands of the tests.
    for (options, path_only) in [(&[][..], false), (&["--clean-env"][..], true)] {
        let variables = |name: &str| format!("test -n \"${{{name}+x}}\" && echo {name}");
        let script = ["PATH", "CARGO_TEST_SECRET", "AGENTANYCAST_ENABLE_MDNS"]
            .map(variables)
            .join("; ");
        let agent = super::AgentRun::start_with(
            host.root.path(),
            options,
            &["sh", "-c", &format!("{script}; true")],
            &[("CARGO_TEST_SECRET", SECRET)],
        );
        let (_, said) = ended(&host.does("x"));
        let expected = if path_only {
            "PATH\n"
        } else {
            "PATH\nCARGO_TEST_SECRET\n"
        };
        assert_eq!(said, expected, "{options:?}");
        agent.end();
    }
}
