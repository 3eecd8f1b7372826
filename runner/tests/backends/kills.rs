//! Programs end when their runner, their helper or both are killed, at whatever moment: each round is a runner in a process of
//! its own, which this test program is again.

use std::{
    fs,
    io::Read as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use agentanycast_runner::process::{ProgramCommand, Supervisor};
use rustix::process::{Pid, Signal, kill_process};

use crate::fake_task::{PATIENCE, command, helper};

/// The variable that all processes of a round have, with a value of its own for each.
const ROUND: &str = "ANYCAST_TEST_ROUND";

/// The variable with the script of a round.
const SCRIPT: &str = "ANYCAST_TEST_SCRIPT";

/// A program with a child in its group.
const WITH_CHILD: &str = "sleep 600 & wait";

/// One process.
const ALONE: &str = "exec sleep 600";

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Runner,
    Helper,
    /// The runner first, the helper at once after it.
    Both,
}

/// Not a test: the runner of a round.
#[test]
#[ignore = "it is a process of the other tests"]
fn the_runner_of_a_round() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let end = runtime.block_on(async {
        let supervisor = Supervisor::new(Some(helper())).unwrap();
        let mut process = supervisor.start(&command("sh", &["-c", &script])).unwrap();
        process.wait().await
    });
    println!("end: {end}");
}

fn start_round(round: &str, script: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kills::the_runner_of_a_round",
            "--include-ignored",
            "--nocapture",
        ])
        .env(ROUND, round)
        .env(SCRIPT, script)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The living processes of a round besides its runner, with their command lines.
fn processes(round: &str, runner: u32) -> Vec<(i32, String)> {
    let variable = format!("{ROUND}={round}");
    let ids = fs::read_dir("/proc").unwrap().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let of_round = ids.filter(|id| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|one| one == variable.as_bytes())
    });
    of_round
        .filter(|id| id.cast_unsigned() != runner)
        .map(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            (id, String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + 2 * PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn all_gone(round: &str, runner: u32, what: &str) {
    let mut left = Vec::new();
    until(what, || {
        left = processes(round, runner);
        left.is_empty().then_some(())
    });
}

fn kill(process: i32) {
    // It may be gone already.
    let _ = Pid::from_raw(process).map(|process| kill_process(process, Signal::KILL));
}

fn find_helper(round: &str, runner: u32) -> Option<i32> {
    let all = processes(round, runner);
    let helper = all.iter().find(|(_, line)| line.contains("run-helper watch"));
    helper.map(|(id, _)| *id)
}

/// Numbers that look random (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

fn play(rounds: u32) {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    let mut dice = Dice(seed);
    for number in 0..rounds {
        let killed = [Killed::Runner, Killed::Helper, Killed::Both][dice.below(3) as usize];
        // Without a cgroup nothing is left that could end the child of a program when both are killed.
        let script = if killed == Killed::Both { ALONE } else { WITH_CHILD };
        let round = format!("{}-{seed}-{number}", std::process::id());
        let mut runner = start_round(&round, script);
        let moment = Duration::from_micros(dice.below(60_000));
        let what = format!("round {number} of seed {seed}: {killed:?} after {moment:?}");
        let helper = match killed {
            // At any moment, also before there is a helper.
            Killed::Runner => {
                std::thread::sleep(moment);
                None
            }
            Killed::Helper | Killed::Both => {
                let helper = until(&what, || find_helper(&round, runner.id()));
                std::thread::sleep(moment / 2);
                Some(helper)
            }
        };
        if killed != Killed::Helper {
            runner.kill().unwrap();
        }
        if let Some(helper) = helper {
            kill(helper);
        }
        all_gone(&round, runner.id(), &what);
        let mut said = String::new();
        runner.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let status = runner.wait().unwrap();
        if killed == Killed::Helper {
            assert!(
                status.success() && said.contains("its helper ended without a word"),
                "{what}: {said}"
            );
        }
    }
}

#[test]
fn no_program_outlives_its_runner_or_its_helper() {
    play(12);
}

#[test]
#[ignore = "takes a minute"]
fn no_program_outlives_its_runner_or_its_helper_in_200_rounds() {
    play(200);
}

/// What has left the group of a program whose helper was killed is found by the cgroup.
#[test]
fn what_has_left_the_group_ends_with_the_cgroup() {
    let round = format!("{}-cgroup", std::process::id());
    let runner = start_round(&round, "setsid sleep 600 & wait");
    let mut runner = runner;
    let helper = until("the helper", || find_helper(&round, runner.id()));
    let left = |(_, line): &(i32, String)| line.starts_with("sleep 600");
    until("the process outside of the group", || {
        processes(&round, runner.id()).iter().any(left).then_some(())
    });
    let cgroup = fs::read_to_string(format!("/proc/{helper}/cgroup")).unwrap();
    kill(helper);
    if cgroup.contains("/anycast-run-") {
        all_gone(&round, runner.id(), "all are gone");
    } else {
        eprintln!("SKIPPED: no cgroup can be made here");
        for (process, _) in processes(&round, runner.id()).into_iter().filter(left) {
            kill(process);
        }
    }
    assert!(runner.wait().unwrap().success());
}

/// A program has the descriptors 0 to 2, and the variables that it is given.
#[tokio::test]
async fn a_program_inherits_nothing_but_what_it_is_given() {
    use tokio::io::AsyncReadExt as _;

    // A descriptor that this process has inherited, so to say.
    let open = fs::File::open("/dev/null").unwrap();
    let inherited = rustix::io::dup(&open).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&inherited);
    assert!(rustix::io::fcntl_getfd(&inherited).unwrap().is_empty());
    let script = format!(
        "test -e /proc/self/fd/{number} && echo open; test -e /proc/self/fd/2 && echo three; /usr/bin/env"
    );
    let command = ProgramCommand {
        env: [("SET", "twice"), ("SET", "last")]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
        ..command("/bin/sh", &["-c", &script])
    };
    let mut process = Supervisor::new(Some(helper())).unwrap().start(&command).unwrap();
    let mut said = String::new();
    process
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .await
        .unwrap();
    let mut lines: Vec<&str> = said.lines().collect();
    lines.retain(|line| {
        !["PWD=", "_=", "SHLVL="]
            .iter()
            .any(|of_shell| line.starts_with(of_shell))
    });
    assert_eq!(lines, ["three", "SET=last"]);
    assert_eq!(process.wait().await.to_string(), "exit code 0");
}

/// That a program cannot be started is known by its name alone.
#[tokio::test]
async fn a_program_that_cannot_be_started_says_why() {
    let supervisor = Supervisor::new(Some(helper())).unwrap();
    let missing = command("/no/such/program", &["--key=hunter22"]);
    let mut process = supervisor.start(&missing).unwrap();
    let end = process.wait().await.to_string();
    assert!(end.contains("No such file or directory"), "{end}");
    assert_eq!(process.command(), "program");
    let mut ended = supervisor.start(&command("sleep", &["600"])).unwrap();
    ended.end();
    let end = ended.wait().await.to_string();
    assert!(end.contains("SIGTERM") || end.contains("has ended"), "{end}");
}

/// The lock of a runner is held until its programs have ended, so that no other runner begins their tasks again before.
#[tokio::test]
async fn what_is_held_is_let_go_when_the_program_has_ended() {
    use tokio::io::AsyncReadExt as _;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    let lock = fs::File::create(&path).unwrap();
    lock.try_lock().unwrap();
    let held = ProgramCommand {
        held: Some(lock.into()),
        ..command("sh", &["-c", "trap '' TERM; echo ready; sleep 600 & wait"])
    };
    let mut process = Supervisor::new(Some(helper())).unwrap().start(&held).unwrap();
    drop(held);
    process.stdout.as_mut().unwrap().read_u8().await.unwrap();
    let other = fs::File::open(&path).unwrap();
    assert!(other.try_lock().is_err());
    process.end();
    assert!(other.try_lock().is_err(), "it has not ended yet");
    process.wait().await;
    other.try_lock().unwrap();
}
