//! The example `shell_tests`, as it is built, against a hub.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use agentanycast_uap_hub::{
    agent::Domain,
    v1::{
        Attachment, Payload, Severity, StepReport, StepStatus, Telemetry, TestInit, TestResponse, TestResult,
        TestState, test_response,
    },
};
use tokio::process::{Child, Command};
use tonic::Status;

use crate::scripted_hub::{ListeningAgent, ScriptedHub, StreamCall, within};

/// The example, which cargo builds before it runs this test.
fn example() -> PathBuf {
    // target/PROFILE/deps/THIS-TEST
    let test = env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/shell_tests");
    assert!(
        program.exists(),
        "{}: build it with `cargo test -p agentanycast-uap-hub`, or with --example shell_tests besides --test agent",
        program.display()
    );
    program
}

fn start(hub: &ScriptedHub) -> Child {
    Command::new(example())
        .args(["--hub", &hub.url, "--name", "of the test"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn begin(
    hub: &mut ScriptedHub,
    agent: &mut ListeningAgent,
    scripts: &[(&str, &str)],
) -> StreamCall<TestResponse, TestInit> {
    agent.begin("JOB-1", Domain::Test, "shell").await;
    let mut session = hub.execute().await;
    let payloads = scripts.iter().map(|(name, text)| {
        let script = Attachment::new(*name, "text/x-shellscript", (*text).to_owned());
        Payload::of_file("script", script)
    });
    session
        .send(TestInit {
            test_type: "shell".to_owned(),
            payloads: payloads.collect(),
        })
        .await;
    session
}

/// The telemetry, the result and the last state of a session, which ends.
async fn all(
    session: &mut StreamCall<TestResponse, TestInit>,
) -> (Vec<Telemetry>, Option<TestResult>, TestState) {
    let (mut telemetry, mut result, mut state) = (Vec::new(), None, TestState::Unspecified);
    while let Some(message) = session.next().await {
        match message.event.unwrap() {
            test_response::Event::Status(status) => state = status.state(),
            test_response::Event::Telemetry(each) => telemetry.push(each),
            test_response::Event::Result(each) => result = Some(each),
        }
    }
    (telemetry, result, state)
}

#[tokio::test]
async fn scripts_are_steps_of_a_report() {
    let mut hub = ScriptedHub::start();
    let _child = start(&hub);
    let mut agent = hub.agent().await;
    let scripts = [
        ("good.sh", "echo one; echo two >&2; [ \"$(ls)\" = script.sh ]"),
        ("bad.sh", "printf without-end; exit 3"),
        ("", "sleep 1000 & echo left a process behind"),
    ];
    let mut session = begin(&mut hub, &mut agent, &scripts).await;
    let (telemetry, result, state) = all(&mut session).await;
    assert_eq!(state, TestState::Failed);
    let result = result.unwrap();
    let status = result.status.unwrap();
    assert_eq!(
        (status.state(), status.message.as_str()),
        (TestState::Failed, "1 of 3 failed")
    );
    let steps: Vec<_> = (result.reports.iter())
        .map(|step: &StepReport| (step.name.as_str(), step.status()))
        .collect();
    assert_eq!(
        steps,
        [
            ("good.sh", StepStatus::Passed),
            ("bad.sh", StepStatus::Failed),
            ("script-3", StepStatus::Passed)
        ]
    );
    assert!(result.summary.unwrap().total_duration.is_some());
    let said = |source: &str| {
        let mut said: Vec<_> = (telemetry.iter())
            .filter(|each| each.source == source)
            .map(|each| (each.severity(), each.message.as_str()))
            .collect();
        // The two outputs have no order between them.
        said.sort_by_key(|(severity, _)| *severity as i32);
        said
    };
    assert_eq!(
        said("good.sh"),
        [(Severity::Info, "one"), (Severity::Warn, "two")]
    );
    assert_eq!(
        said("bad.sh"),
        [
            (Severity::Info, "without-end"),
            (Severity::Error, "exit status: 3")
        ]
    );
    let logs: Vec<_> = (result.attachments.iter())
        .map(|file| (file.name.as_str(), file.data.clone()))
        .collect();
    assert_eq!(logs[0].0, "good.sh.log");
    assert!(logs[0].1 == "one\ntwo\n" || logs[0].1 == "two\none\n");
    assert_eq!(logs[1], ("bad.sh.log", "without-end".into()));
    assert_eq!(logs[2], ("script-3.log", "left a process behind\n".into()));
}

#[tokio::test]
async fn good_scripts_complete_and_none_is_invalid() {
    let mut hub = ScriptedHub::start();
    let _child = start(&hub);
    let mut agent = hub.agent().await;
    let mut session = begin(&mut hub, &mut agent, &[("a", "true"), ("b", "exit 0")]).await;
    assert_eq!(all(&mut session).await.2, TestState::Completed);
    let mut session = begin(&mut hub, &mut agent, &[]).await;
    assert_eq!(all(&mut session).await.2, TestState::Invalid);
}

#[tokio::test]
async fn a_cancelled_session_kills_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let mut hub = ScriptedHub::start();
    let _child = start(&hub);
    let mut agent = hub.agent().await;
    let script = format!(
        "sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000'",
        pid_file.display()
    );
    let session = begin(&mut hub, &mut agent, &[("long.sh", &script)]).await;
    let pid = wait_for(|| fs::read_to_string(&pid_file).ok()).await;
    let process = Path::new("/proc").join(pid.trim()).join("cmdline");
    assert!(fs::read_to_string(&process).is_ok());
    session.fail(Status::cancelled("not wanted")).await;
    // A zombie has no command line.
    wait_for(|| {
        fs::read_to_string(&process)
            .unwrap_or_default()
            .is_empty()
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn ends_when_it_is_told_to() {
    let mut hub = ScriptedHub::start();
    let mut child = start(&hub);
    let _agent = hub.agent().await;
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(within(child.wait()).await.unwrap().success());
}

#[tokio::test]
async fn wrong_flags_are_refused() {
    for flags in [&[] as &[&str], &["--hub"], &["--hub", "ftp://x"], &["--no", "x"]] {
        let output = within(Command::new(example()).args(flags).output())
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap().lines().count(),
            1,
            "{flags:?}"
        );
    }
}

/// Asks until there is an answer.
async fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}
