//! One process per task.

use std::os::unix::fs::PermissionsExt as _;

use agentanycast::{Content, Message, TaskStatus};
use serde_json::{Value, json};

use super::{Host, all_gone, ended, fs, processes, until, with_file};
use crate::homes::run;

#[test]
fn a_script_reads_a_text_and_prints_the_result() {
    let host = Host::start();
    let _agent = host.script(
        &["--skill", "shout=Says it louder", "--description", "A test", "--env", "EXTRA=yes"],
        r#"case "$(cat)" in
            env) echo "$ANYCAST_TASK_ID $ANYCAST_CONTEXT_ID $ANYCAST_SENDER $ANYCAST_ATTEMPT $EXTRA [$ANYCAST_DEADLINE]";;
            json) echo '{"sum": 3}';;
            bytes) printf '\377\376';;
            nothing) ;;
            *) echo HELLO;;
        esac"#,
    );
    let card = host.runtime.block_on(async {
        let peer = host.node.info().await.unwrap().peer_id.unwrap();
        host.node.card_of(&peer).await.unwrap()
    });
    assert_eq!(
        (card.name.as_str(), card.skills[0].id.as_str()),
        ("worker", "shout")
    );
    assert_eq!(
        ended(&host.does("hello")),
        (TaskStatus::Completed, "HELLO\n".to_owned())
    );
    let task = host.does("env");
    let sender = task.originator.as_ref().unwrap().to_string();
    let expected = format!("{} {} {sender} 1 yes []\n", task.id, task.context_id);
    assert_eq!(ended(&task).1, expected);
    let task = host.does("json");
    let data = task.artifacts[0].parts[0].as_data().unwrap();
    assert_eq!(Value::Object(data.clone()), json!({"sum": 3}));
    let task = host.does("bytes");
    let Content::Raw { data, .. } = &task.artifacts[0].parts[0].content else {
        panic!("{task:?}")
    };
    assert_eq!(data, &[255, 254]);
    assert_eq!(host.does("nothing").artifacts, []);
}

#[test]
fn files_go_in_and_come_out() {
    let host = Host::start();
    let _agent = host.script(
        &[],
        r#"cd "$ANYCAST_OUTPUT_DIR" || exit 1
        ls "$ANYCAST_INPUT_DIR" | sort | tr '\n' ' '
        mkdir sub && tr a-z A-Z < "$ANYCAST_INPUT_DIR/in.txt" > sub/out.txt
        ln -s /etc/passwd link
        head -c 3000000 /dev/zero > large.bin"#,
    );
    let handle = host.send(with_file("read it", "../in.txt", b"quiet"));
    let task = host.halted(&handle);
    assert_eq!(task.status, TaskStatus::Completed, "{}", task.reason());
    let by_name = |name: &str| {
        let found = task.artifacts.iter().find(|artifact| artifact.name == name);
        found.unwrap_or_else(|| panic!("{name} is not in {:?}", task.artifacts))
    };
    assert_eq!(by_name("result").text_content(), "in.txt messages.json ");
    let Content::Raw { data, .. } = &by_name("sub/out.txt").parts[0].content else {
        panic!("{task:?}")
    };
    assert_eq!(data, b"QUIET");
    assert_eq!(by_name("sub/out.txt").parts[0].media_type, "text/plain");
    let large = by_name("large.bin").id.clone();
    let read = host.runtime.block_on(handle.read_artifact(large)).unwrap();
    assert_eq!(read.len(), 3_000_000);
    assert_eq!(task.artifacts.len(), 3);
    // Nothing of it stays on the disk.
    let run = host.path("home/run/worker");
    let left = || {
        walk(&run)
            .into_iter()
            .filter(|path| path.contains("large"))
            .count()
    };
    until("the task's files are removed", || left() == 0);
}

fn walk(top: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        found.push(entry.path().display().to_string());
        found.extend(walk(&entry.path()));
    }
    found
}

#[test]
fn a_question_is_answered_by_a_new_process() {
    let host = Host::start();
    let _agent = host.script(
        &[],
        r#"text=$(cat)
        if [ "$text" = paint ]; then echo "Which colour?"; exit 75; fi
        echo "$text"; cat "$ANYCAST_INPUT_DIR/messages.json""#,
    );
    let handle = host.send("paint");
    let task = host.halted(&handle);
    assert_eq!(
        (task.status, task.reason().as_str()),
        (TaskStatus::InputRequired, "Which colour?")
    );
    host.answer(&handle, "blue");
    let task = host.halted(&handle);
    let (status, text) = ended(&task);
    assert_eq!(status, TaskStatus::Completed, "{text}");
    let (first, messages) = text.split_once('\n').unwrap();
    assert_eq!(first, "blue");
    let messages: Value = serde_json::from_str(messages).unwrap();
    let said: Vec<(&str, &str)> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            (
                message["role"].as_str().unwrap(),
                message["parts"][0]["text"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [("user", "paint"), ("agent", "Which colour?"), ("user", "blue")]
    );
}

#[test]
fn a_program_that_fails_says_why() {
    let host = Host::start();
    {
        let _agent = host.script(
            &["--progress", "--timeout", "1s"],
            r#"case "$(cat)" in
                slow) trap '' TERM; sleep 60;;
                silent) exit 4;;
                killed) kill -9 $$;;
                *) for n in $(seq 100); do echo "line $n" >&2; done; exit 3;;
            esac"#,
        );
        let (status, reason) = ended(&host.does("x"));
        assert_eq!(status, TaskStatus::Failed);
        assert!(
            reason.starts_with("exit code 3: line 81\n") && reason.ends_with("\nline 100"),
            "{reason}"
        );
        let (_, reason) = ended(&host.does("silent"));
        assert_eq!(reason, "exit code 4, without a word on standard error");
        let (_, reason) = ended(&host.does("killed"));
        assert!(reason.starts_with("killed (signal 9)"), "{reason}");
        let (_, reason) = ended(&host.does("slow"));
        assert_eq!(reason, "the program ran for longer than 1s (--timeout)");
    }
    let program = host.path("gone.sh");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let _agent = host.run(&[], &[program.to_str().unwrap(), "--key=hunter22"]);
    fs::remove_file(&program).unwrap();
    let (status, reason) = ended(&host.does("x"));
    assert_eq!(status, TaskStatus::Failed);
    // The sender hears its name alone.
    let expected = "the program cannot be started: No such file or directory (os error 2): gone.sh";
    assert_eq!(reason, expected);
}

#[test]
fn a_program_that_is_not_there_is_said_at_the_start() {
    let home = tempfile::tempdir().unwrap();
    for protocol in ["process", "jsonl"] {
        let arguments = [
            "run",
            "--name",
            "x",
            "--protocol",
            protocol,
            "--",
            "./nosuch",
            "hunter22",
        ];
        let (said, code) = run(home.path(), &arguments);
        assert_eq!((said.lines().count(), code), (1, Some(1)), "{said}");
        assert!(
            said.contains("No such file") && said.contains("nosuch") && !said.contains("hunter22"),
            "{said}"
        );
    }
    // No daemon was started for it.
    assert!(!home.path().join("home/daemon.sock").exists());
}

#[test]
fn what_the_task_brings_does_not_count_as_output() {
    let host = Host::start();
    let _agent = host.script(
        &["--max-output", "64KiB"],
        "wc -c < \"$ANYCAST_INPUT_DIR/in.bin\"",
    );
    let task = host.send(with_file("count", "in.bin", &vec![b'x'; 200 << 10]));
    assert_eq!(
        ended(&host.halted(&task)),
        (TaskStatus::Completed, "204800\n".to_owned())
    );
}

#[test]
fn progress_is_reported() {
    let host = Host::start();
    let _agent = host.script(&["--progress"], "echo half >&2; sleep 1; echo done");
    let task = host.does("x");
    let said: Vec<String> = task.messages.iter().map(Message::text_content).collect();
    assert!(said.contains(&"half".to_owned()), "{said:?}");
}

#[test]
fn what_is_printed_and_written_is_bounded() {
    let host = Host::start();
    let _agent = host.script(
        &["--max-output", "1MiB"],
        r#"case "$(cat)" in
            print) exec yes;;
            write) exec dd if=/dev/zero of="$ANYCAST_OUTPUT_DIR/big" bs=1M 2>/dev/null;;
            *) head -c 1000000 /dev/zero | tr '\0' x;;
        esac"#,
    );
    let handle = host.send("large");
    let task = host.halted(&handle);
    assert_eq!(task.status, TaskStatus::Completed, "{}", task.reason());
    let read = host
        .runtime
        .block_on(handle.read_artifact(task.artifacts[0].id.clone()));
    assert_eq!(read.unwrap().len(), 1_000_000);
    let (status, reason) = ended(&host.does("print"));
    assert_eq!(
        (status, reason.as_str()),
        (
            TaskStatus::Failed,
            "it printed more than 1048576 bytes (--max-output)"
        )
    );
    let (status, reason) = ended(&host.does("write"));
    assert_eq!(
        (status, reason.as_str()),
        (
            TaskStatus::Failed,
            "its files take more than 1048576 bytes (--max-output)"
        )
    );
}

#[test]
fn a_cancel_ends_all_that_the_program_started() {
    let host = Host::start();
    let file = host.path("pids");
    let script = format!(
        "echo $$ > {0}; sh -c 'echo $$ >> {0}; sleep 300; true' & setsid sh -c 'echo $$ >> {0}; sleep 300; true' & wait",
        file.display()
    );
    let _agent = host.script(&[], &script);
    let handle = host.send("x");
    let started = processes(&file, 3);
    host.cancel(&handle);
    until("all processes are gone", || all_gone(&started));
    assert_eq!(host.now(&handle).status, TaskStatus::Canceled);
}

#[test]
fn what_waits_is_not_claimed_and_goes_to_another_runner() {
    let host = Host::start();
    let file = host.path("runs");
    let go = host.path("go");
    let script = format!(
        "echo run >> {}; while [ ! -e {} ]; do sleep 0.05; done; echo done",
        file.display(),
        go.display()
    );
    let runs = || fs::read_to_string(&file).unwrap_or_default().lines().count();
    let first = host.script(&["--concurrency", "1"], &script);
    let handles: Vec<_> = (0..3).map(|_| host.send("x")).collect();
    until("one runs", || runs() == 1);
    // Long enough for a second one, if there were one.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let states = || {
        handles
            .iter()
            .map(|handle| host.now(handle).status)
            .collect::<Vec<_>>()
    };
    let waiting = |states: &[TaskStatus]| {
        states
            .iter()
            .filter(|state| **state == TaskStatus::Submitted)
            .count()
    };
    assert_eq!((runs(), waiting(&states())), (1, 2), "{:?}", states());
    // Told to end, it takes no further task, and the one that runs ends.
    first.signal("-TERM");
    fs::write(&go, "").unwrap();
    first.end_alone();
    assert_eq!((runs(), waiting(&states())), (1, 2), "{:?}", states());
    let _second = host.script(&["--concurrency", "1"], &script);
    for handle in &handles {
        assert_eq!(
            ended(&host.halted(handle)),
            (TaskStatus::Completed, "done\n".to_owned())
        );
    }
    assert_eq!(runs(), 3);
}

/// What it writes to standard error takes nothing from others: the time-out is kept, and another task goes on.
#[test]
fn a_flood_on_standard_error_is_ended_in_time() {
    let host = Host::start();
    let script = "text=$(cat); [ \"$text\" = flood ] && yes flood >&2; echo $text";
    let _agent = host.script(&["--timeout", "2s", "--concurrency", "2", "--progress"], script);
    let begun = std::time::Instant::now();
    let flood = host.send("flood");
    assert_eq!(
        ended(&host.does("quiet")),
        (TaskStatus::Completed, "quiet\n".to_owned())
    );
    let (status, reason) = ended(&host.halted(&flood));
    assert!(
        status == TaskStatus::Failed && reason.contains("--timeout"),
        "{reason}"
    );
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}
