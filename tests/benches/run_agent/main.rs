//! What `anycast run` costs, in figures: `cargo bench -p agentanycast-tests --bench run_agent`.
//!
//! A daemon of the release build on the loopback, and agents of `anycast run` beside it. For each of two programs, the time of a
//! task from the sender's call until its end is put beside the time of the same program started by hand with the same input,
//! in turns in one run: medians, and what the target says of them (1.5 times the bare program and 5 ms). Then what agents
//! cost that wait for tasks: memory and processor time of one `anycast run`, and of one agent of the daemon's settings.
//! `-- --check` ends with exit code 1 when a target is missed. Sizes come from the environment: `AGENTANYCAST_TASKS` (200 of each
//! program), `AGENTANYCAST_AGENTS` (20), `AGENTANYCAST_SECONDS` (10).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and ends by a panic"
)]

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use agentanycast::{Node, Target, TaskStatus};
use agentanycast_tests::{Daemon, bench_targets::BenchTargets, cli, proc_stats};
use rustix::process::Pid;

/// How many times the time of the bare program a task may take, and how much more.
const RATIO: f64 = 1.5;
const MORE: Duration = Duration::from_millis(5);

/// What the programs get.
const INPUT: &str = "one two three";

/// Programs, each with its words: one that ends at once, and one that takes a while to start, as most do.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("cat", &["/bin/cat"]),
    (
        "python",
        &[
            "python3",
            "-c",
            "import sys, json; print(len(sys.stdin.read().split()))",
        ],
    ),
];

fn size(name: &str, default: usize) -> usize {
    let text = std::env::var(format!("AGENTANYCAST_{name}"));
    text.map_or(default, |text| text.parse().unwrap())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut targets = BenchTargets::from_args();
    let daemon = Daemon::builder().start().await;
    let node = daemon.node().await;
    for (name, program) in PROGRAMS {
        time_of_tasks(&daemon, &node, (name, program), &mut targets).await;
    }
    idle_runs(&daemon, &mut targets).await;
    idle_configured_agents(&mut targets).await;
    targets.end()
}

/// `anycast run` of this program, when it takes tasks.
fn run(daemon: &Daemon, name: &str, program: &[&str]) -> Child {
    let mut child = Command::new(cli::program())
        .args(["--daemon", daemon.grpc(), "run", "--name", name, "--"])
        .args(program)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains(name), "{line:?}");
    child
}

/// The time of the program, started by hand.
fn by_hand(program: &[&str]) -> Duration {
    let began = Instant::now();
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(INPUT.as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    began.elapsed()
}

async fn by_task(node: &Node, own: &Target, agent: &str) -> Duration {
    let began = Instant::now();
    let task = node.task(own.clone(), INPUT).agent(agent).send().await.unwrap();
    let ended = task.wait().await.unwrap();
    assert_eq!(ended.status, TaskStatus::Completed, "{}", ended.reason());
    began.elapsed()
}

async fn time_of_tasks(
    daemon: &Daemon,
    node: &Node,
    (name, program): (&str, &[&str]),
    targets: &mut BenchTargets,
) {
    let mut agent = run(daemon, name, program);
    let own = Target::Peer(daemon.peer_id().clone());
    let (mut bare, mut tasks) = (Vec::new(), Vec::new());
    // The first ones bring the files into memory.
    for _ in 0..5 {
        by_hand(program);
        by_task(node, &own, name).await;
    }
    for _ in 0..size("TASKS", 200) {
        bare.push(by_hand(program));
        tasks.push(by_task(node, &own, name).await);
    }
    end(&mut agent);
    let (bare, task) = (median(bare), median(tasks));
    let most = bare.mul_f64(RATIO) + MORE;
    println!(
        "{name}: by hand {:.2} ms, as a task {:.2} ms (+{:.2} ms, {:.2} times); at most {:.2} ms",
        millis(bare),
        millis(task),
        millis(task.saturating_sub(bare)),
        task.as_secs_f64() / bare.as_secs_f64(),
        millis(most)
    );
    targets.figure(&format!("{name} by hand, in ms"), millis(bare));
    targets.at_most(&format!("{name} as a task, in ms"), millis(task), millis(most));
}

/// What one `anycast run` costs that waits.
async fn idle_runs(daemon: &Daemon, targets: &mut BenchTargets) {
    let count = size("AGENTS", 20);
    let before = proc_stats::rss_bytes(daemon.pid());
    let mut agents: Vec<Child> = (0..count)
        .map(|number| run(daemon, &format!("idle-{number}"), &["/bin/cat"]))
        .collect();
    let pids: Vec<Pid> = agents.iter().map(pid).collect();
    let cpu = || {
        pids.iter()
            .map(|pid| proc_stats::cpu_time(*pid))
            .sum::<Duration>()
    };
    let (cpu_before, daemon_before) = (cpu(), proc_stats::cpu_time(daemon.pid()));
    let seconds = size("SECONDS", 10) as u64;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let used = cpu().saturating_sub(cpu_before).as_secs_f64() / seconds as f64 / count as f64;
    let used_by_daemon = proc_stats::cpu_time(daemon.pid())
        .saturating_sub(daemon_before)
        .as_secs_f64()
        / seconds as f64;
    let memory: u64 = pids.iter().map(|pid| proc_stats::rss_bytes(*pid)).sum();
    let grown = proc_stats::rss_bytes(daemon.pid()).saturating_sub(before);
    println!(
        "an idle `anycast run`: {:.1} MiB, {:.3} % of a processor; in the daemon {:.0} KiB for each, {:.3} % for all",
        memory as f64 / count as f64 / f64::from(1 << 20),
        used * 100.0,
        grown as f64 / count as f64 / 1024.0,
        used_by_daemon * 100.0
    );
    targets.figure("memory of an idle `anycast run`", memory as f64);
    for agent in &mut agents {
        end(agent);
    }
}

/// What one agent of the daemon's settings costs that waits.
async fn idle_configured_agents(targets: &mut BenchTargets) {
    let count = size("AGENTS", 20);
    let bare = Daemon::builder().start().await;
    let mut settings = String::new();
    for number in 0..count {
        let _ = write!(
            settings,
            "[[agents.run]]\nname = \"idle-{number}\"\ncommand = [\"/bin/cat\"]\n"
        );
    }
    let serving = Daemon::builder().config(&settings).start().await;
    let node = serving.node().await;
    let serves = |program: &&agentanycast::AgentProgram| !program.starting;
    while node.agent_programs().await.unwrap().iter().filter(serves).count() < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seconds = size("SECONDS", 10) as u64;
    let (bare_before, before) = (
        proc_stats::cpu_time(bare.pid()),
        proc_stats::cpu_time(serving.pid()),
    );
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let bare_used = proc_stats::cpu_time(bare.pid()).saturating_sub(bare_before);
    let used = proc_stats::cpu_time(serving.pid()).saturating_sub(before);
    let (bare_memory, memory) = (
        proc_stats::rss_bytes(bare.pid()),
        proc_stats::rss_bytes(serving.pid()),
    );
    println!(
        "an idle agent of the settings: {:.0} KiB; a daemon with {count} of them uses {:.3} % of a processor, one without {:.3} %",
        memory.saturating_sub(bare_memory) as f64 / count as f64 / 1024.0,
        used.as_secs_f64() / seconds as f64 * 100.0,
        bare_used.as_secs_f64() / seconds as f64 * 100.0
    );
    targets.figure("memory of a daemon with agents", memory as f64);
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn end(child: &mut Child) {
    rustix::process::kill_process(pid(child), rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
