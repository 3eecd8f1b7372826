//! The runner, or the daemon, ends while programs run.

use agentanycast::{ArtifactEvent, EndReason, TaskStatus};
use futures::StreamExt as _;

use super::{Duration, Host, Instant, RunningCommand, all_gone, ended, fs, processes, until};
use crate::homes::run as command_output;

/// Writes its process id and that of a child, and works until there is a file `go`.
fn working_script(host: &Host) -> String {
    format!(
        "echo $$ >> {0}; sh -c 'echo $$ >> {0}; sleep 300; true' & \
         while [ ! -e {1} ]; do sleep 0.05; done; echo attempt $ANYCAST_ATTEMPT",
        host.path("pids").display(),
        host.path("go").display()
    )
}

#[test]
fn a_killed_runner_takes_its_programs_along_and_the_task_fails() {
    let host = Host::start();
    let script = working_script(&host);
    let first = host.script(&[], &script);
    let handle = host.send("x");
    let started = processes(&host.path("pids"), 2);
    first.kill();
    until("all processes are gone", || all_gone(&started));
    assert_eq!(host.now(&handle).status, TaskStatus::Working);
    let _second = host.script(&[], &script);
    let (status, reason) = ended(&host.halted(&handle));
    assert_eq!(status, TaskStatus::Failed);
    assert!(
        reason.starts_with("the runner ended while the program ran (started ") && reason.ends_with(')'),
        "{reason}"
    );
    assert_eq!(
        processes(&host.path("pids"), 2),
        started,
        "it was not started again"
    );
    // The files of the first one are gone with it.
    let left = || fs::read_dir(host.path("home/run/worker")).unwrap().count();
    assert_eq!(left(), 1);
}

#[test]
fn with_retry_a_task_is_given_again() {
    let host = Host::start();
    let script = working_script(&host);
    let options = ["--retry", "2"];
    let handle = {
        let first = host.script(&options, &script);
        let handle = host.send("x");
        let started = processes(&host.path("pids"), 2);
        first.kill();
        until("all processes are gone", || all_gone(&started));
        handle
    };
    // A runner that is told to end leaves the task to the next one, too.
    let second = host.script(&["--retry", "2", "--drain", "0"], &script);
    let started = processes(&host.path("pids"), 4);
    second.end();
    assert!(all_gone(&started));
    let third = host.script(&options, &script);
    processes(&host.path("pids"), 6);
    fs::write(host.path("go"), "").unwrap();
    assert_eq!(
        ended(&host.halted(&handle)),
        (TaskStatus::Completed, "attempt 3\n".to_owned())
    );
    third.end();
    assert_eq!(fs::read_dir(host.path("home/run/worker")).unwrap().count(), 0);
}

#[test]
fn a_question_outlives_its_runner() {
    let host = Host::start();
    let script = "text=$(cat); [ \"$text\" = ask ] && { echo which?; exit 75; }; echo $text";
    let asked = |kill: bool| {
        let first = host.script(&[], script);
        let handle = host.send("ask");
        assert_eq!(host.halted(&handle).status, TaskStatus::InputRequired);
        if kill {
            first.kill();
        } else {
            drop(first);
        }
        handle
    };
    // Answered while no runner was there, and afterwards.
    let (early, late) = (asked(true), asked(true));
    host.answer(&early, "blue");
    let _second = host.script(&[], script);
    assert_eq!(
        ended(&host.halted(&early)),
        (TaskStatus::Completed, "blue\n".to_owned())
    );
    host.answer(&late, "red");
    until("the other one ends", || host.now(&late).status.is_terminal());
    assert_eq!(
        ended(&host.now(&late)),
        (TaskStatus::Completed, "red\n".to_owned())
    );
}

/// A task that only waits for an answer is left to the next runner at once.
#[test]
fn a_runner_that_is_told_to_end_does_not_wait_for_answers() {
    let host = Host::start();
    let script = "text=$(cat); [ \"$text\" = ask ] && { echo which?; exit 75; }; echo $text";
    let first = host.script(&[], script);
    let handle = host.send("ask");
    assert_eq!(host.halted(&handle).status, TaskStatus::InputRequired);
    let begun = Instant::now();
    first.end();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let _second = host.script(&[], script);
    host.answer(&handle, "green");
    assert_eq!(
        ended(&host.halted(&handle)),
        (TaskStatus::Completed, "green\n".to_owned())
    );
}

#[test]
fn a_result_waits_for_the_daemon() {
    let mut host = Host::start();
    let script = working_script(&host);
    let _agent = host.script(&[], &script);
    let handle = host.send("x");
    let started = processes(&host.path("pids"), 2);
    let mut daemon = host.daemon.take().unwrap();
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    fs::write(host.path("go"), "").unwrap();
    until("the program has ended", || all_gone(&started));
    host.daemon = Some(RunningCommand::daemon(host.root.path()));
    assert_eq!(
        ended(&host.halted(&handle)),
        (TaskStatus::Completed, "attempt 1\n".to_owned())
    );
}

/// What a program left is sent again when the daemon is killed while it is sent.
#[test]
fn a_large_result_is_sent_again_after_the_daemon_was_killed() {
    const SIZE: usize = 64 << 20;
    let mut host = Host::start();
    let script = format!("head -c {SIZE} /dev/zero > \"$ANYCAST_OUTPUT_DIR/zeros.bin\"");
    let _agent = host.script(&["--max-output", "1GiB"], &script);
    let handle = host.send("x");
    let begun = host.runtime.block_on(async {
        let mut events = handle.artifacts();
        events.next().await.unwrap().unwrap();
        events.next().await.unwrap().unwrap()
    });
    assert!(matches!(begun, ArtifactEvent::Chunk { .. }), "{begun:?}");
    let mut daemon = host.daemon.take().unwrap();
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    host.daemon = Some(RunningCommand::daemon(host.root.path()));
    let task = host.halted(&handle);
    assert_eq!(ended(&task).0, TaskStatus::Completed, "{task:?}");
    let whole = task
        .artifacts
        .iter()
        .filter(|artifact| artifact.break_reason().is_none());
    let [result] = whole.collect::<Vec<_>>()[..] else {
        panic!("{:?}", task.artifacts)
    };
    assert!(
        task.artifacts.len() > 1,
        "the daemon was killed after the result was sent"
    );
    let bytes = host.runtime.block_on(async {
        let mut events = handle.artifact(result.id.clone());
        let mut bytes = 0;
        while let Some(event) = events.next().await {
            match event.unwrap() {
                ArtifactEvent::Chunk { data, .. } => bytes += data.len(),
                ArtifactEvent::End { reason, .. } => assert_eq!(reason, EndReason::Complete),
                _ => {}
            }
        }
        bytes
    });
    assert_eq!(bytes, SIZE);
    let directory = host.path("results");
    let arguments = ["task", handle.id(), "--output", directory.to_str().unwrap()];
    let (text, code) = command_output(host.root.path(), &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("zeros.bin broke off: "), "{text}");
    assert_eq!(
        fs::metadata(directory.join("zeros.bin")).unwrap().len(),
        SIZE as u64
    );
}
