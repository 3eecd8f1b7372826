//! A runner whose host lacks something for a while: descriptors, or room on the disk of its files. None of its tasks fails: another
//! runner of the agent does them, or they wait.

use std::os::unix::process::CommandExt as _;

use agentanycast::{TaskHandle, TaskStatus};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::{AgentRun, BufReader, Command, Duration, Host, Message, Stdio, ended, fs, until, with_file};
use crate::homes::command;
use crate::homes::run as command_output;

/// Tasks of a test.
const TASKS: usize = 60;

/// Does a task in a moment, so that several run at a time.
const PROGRAM: &str = "cat > /dev/null; sleep 0.1; echo done";

/// How many descriptors a process has open.
fn open_descriptors(process: u32) -> u64 {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count() as u64
}

/// Bounds the descriptors of a process.
fn set_most_descriptors(process: u32, most: Option<u64>) {
    // It has that of the test.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = most.or(maximum);
    let pid = Pid::from_raw(process.cast_signed());
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

impl Host {
    fn said_by(&self, arguments: &[&str]) -> String {
        command_output(self.root.path(), arguments).0
    }

    /// Whether `ps` lists a program that takes no tasks.
    fn lists_unready(&self) -> bool {
        self.said_by(&["--json", "ps"]).contains("\"unready\":true")
    }

    /// Whether `ps`, `status` and `doctor` say that a program of the agent takes no tasks.
    fn is_unready(&self) -> [bool; 3] {
        let problem = "a program of the agent worker takes no tasks for now: ";
        [
            self.lists_unready(),
            self.said_by(&["status"]).contains(problem),
            self.said_by(&["doctor"]).contains(problem),
        ]
    }

    fn are_done(&self, sent: &[TaskHandle]) {
        for handle in sent {
            assert_eq!(
                ended(&self.halted(handle)),
                (TaskStatus::Completed, "done\n".to_owned())
            );
        }
    }
}

#[test]
fn without_descriptors_at_one_runner_no_task_fails() {
    let host = Host::start();
    let healthy = host.script(&["--concurrency", "2"], PROGRAM);
    let wanting = host.script(&["--concurrency", "8"], PROGRAM);
    let process = wanting.process.id();
    // Room for what is looked at, and for a program or two: some tasks are taken before the want shows.
    // A look at the host opens some for a moment.
    let idle = (0..10).map(|_| open_descriptors(process)).min().unwrap();
    set_most_descriptors(process, Some(idle + 20));
    let first: Vec<_> = (0..TASKS / 2).map(|_| host.send("x")).collect();
    // And none at all: those that it has are more.
    set_most_descriptors(process, Some(3));
    until("it is told", || host.is_unready() == [true; 3]);
    let ps = host.said_by(&["ps"]);
    assert!(ps.contains("waits") && ps.contains("Too many open files"), "{ps}");
    let second: Vec<_> = (0..TASKS / 2).map(|_| host.send("x")).collect();
    host.are_done(&second);
    assert_eq!(host.is_unready(), [true; 3]);
    set_most_descriptors(process, None);
    // Results of what ran there are read now.
    host.are_done(&first);
    until("it takes tasks again", || host.is_unready() == [false; 3]);
    healthy.end();
    assert_eq!(
        ended(&host.does("x")),
        (TaskStatus::Completed, "done\n".to_owned())
    );
}

/// Every third task finds no room there for its files. The disk is one in a namespace of mounts.
#[test]
fn with_a_full_disk_at_one_runner_no_task_fails() {
    let host = Host::start();
    let files = host.path("home/run");
    fs::create_dir(&files).unwrap();
    let healthy = host.script(&["--concurrency", "2"], PROGRAM);
    let mount = format!(
        "mount -t tmpfs -o size=2m tmpfs '{}' || exit 77; exec \"$0\" \"$@\"",
        files.display()
    );
    let run = command(host.root.path());
    let mut unshared = Command::new("sh");
    unshared
        .args([
            "-c",
            "unshare --mount true || exit 77; exec unshare --mount \"$0\" \"$@\"",
        ])
        .args(["sh", "-c", &mount])
        .arg(run.get_program())
        .args(run.get_args())
        .env_clear()
        .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", std::env::var_os("PATH").unwrap())
        .args(["--no-start", "run", "--name", "worker", "--", "sh", "-c", PROGRAM])
        .stdout(Stdio::piped())
        .process_group(0);
    let mut process = unshared.spawn().unwrap();
    let mut said = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    if line.is_empty() {
        assert_eq!(process.wait().unwrap().code(), Some(77), "it cannot be run");
        eprintln!("no disk of its own can be mounted here; the test is skipped");
        return;
    }
    let wanting = AgentRun { process, _said: said };
    let large = vec![b'x'; 2_200_000];
    let message = |number: usize| -> Message {
        if number.is_multiple_of(3) {
            with_file("x", "large.bin", &large)
        } else {
            "x".into()
        }
    };
    let mut sent: Vec<_> = (0..TASKS / 2).map(|number| host.send(message(number))).collect();
    until("one was taken, and finds no room", || host.lists_unready());
    let ballast = format!("/proc/{}/root{}/ballast", wanting.process.id(), files.display());
    fs::write(&ballast, vec![b'x'; 1_500_000]).unwrap();
    sent.extend((0..TASKS / 2).map(|number| host.send(message(number))));
    until("it is told", || host.is_unready() == [true; 3]);
    let ps = host.said_by(&["ps"]);
    assert!(ps.contains("waits") && ps.contains("No space left"), "{ps}");
    host.are_done(&sent);
    fs::remove_file(&ballast).unwrap();
    until("there is room", || host.is_unready() == [false; 3]);
    // What it alone is there for waits, and goes to the next one that has room.
    healthy.end();
    let waits = host.send(message(0));
    until("it is given back", || {
        host.lists_unready() && host.now(&waits).status == TaskStatus::Submitted
    });
    let _other = host.script(&[], PROGRAM);
    host.are_done(&[waits]);
}

/// What does all tasks of an agent cannot be started: the runner waits, and serves the agent later.
#[test]
fn a_server_that_cannot_be_started_now_is_started_later() {
    let acp = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../runner/tests/backends/acp_agent.py"
    );
    let mcp = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../runner/tests/backends/mcp_server.py"
    );
    for (kind, program) in [("--acp", acp), ("--mcp", mcp)] {
        let host = Host::start();
        let run = command(host.root.path());
        let mut limited = Command::new("sh");
        limited
            .args(["-c", "ulimit -S -n 24; exec \"$0\" \"$@\""])
            .arg(run.get_program())
            .args(run.get_args())
            .env_clear()
            .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("PATH", std::env::var_os("PATH").unwrap())
            .args([
                "--no-start",
                "run",
                "--name",
                "worker",
                kind,
                "--",
                "python3",
                program,
            ])
            .stdout(Stdio::piped())
            .process_group(0);
        let mut process = limited.spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        let mut serving = AgentRun { process, _said: said };
        until("it is told", || host.is_unready() == [true; 3]);
        std::thread::sleep(Duration::from_secs(1));
        assert!(serving.process.try_wait().unwrap().is_none(), "it goes on");
        set_most_descriptors(serving.process.id(), None);
        until("it takes tasks", || host.is_unready() == [false; 3]);
        let ps = host.said_by(&["ps"]);
        assert!(ps.contains("serves"), "{ps}");
    }
}
