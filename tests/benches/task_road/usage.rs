//! What a process has used: processor time and memory, as the kernel counts them in /proc. Processor time
//! comes in ticks of 10 ms, so it says little about less than a second.

use std::{fs, time::Duration};

use rustix::process::Pid;
use serde_json::{Value, json};

/// The kernel counts processor time for programs in hundredths of a second, on every architecture.
const TICK: Duration = Duration::from_millis(10);

/// Processor time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

impl Cpu {
    /// Of a process and its threads, since it started.
    fn of(pid: Pid) -> Self {
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let stat = fs::read_to_string(path).expect("the process runs");
        // The name in parentheses may hold anything; the state is the first field behind it.
        let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
        let ticks = |field: usize| -> u64 {
            let text = fields.split(' ').nth(field).expect("a field");
            text.parse().expect("a number")
        };
        let time = |ticks: u64| TICK * u32::try_from(ticks).expect("less than a year");
        Self {
            user: time(ticks(11)),
            system: time(ticks(12)),
        }
    }

    fn add(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
    }

    fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }

    pub(crate) fn total(self) -> Duration {
        self.user + self.system
    }
}

/// Processor time of two nodes, and of the ends (this process).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) nodes: Cpu,
    pub(crate) ends: Cpu,
}

impl Times {
    pub(crate) fn now(nodes: &[Pid]) -> Self {
        let mut times = Self {
            nodes: Cpu::default(),
            ends: Cpu::of(rustix::process::getpid()),
        };
        for pid in nodes {
            times.nodes.add(Cpu::of(*pid));
        }
        times
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.nodes.add(other.nodes);
        self.ends.add(other.ends);
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            nodes: self.nodes.since(before.nodes),
            ends: self.ends.since(before.ends),
        }
    }
}

/// Memory of the sender's daemon and of the agent's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory([Rss; 2]);

impl Memory {
    pub(crate) fn of(pids: &[Pid]) -> Self {
        Self([Rss::of(pids[0]), Rss::of(pids[1])])
    }

    /// In MiB.
    pub(crate) fn now(self) -> String {
        format!("{}+{}", self.0[0].now >> 20, self.0[1].now >> 20)
    }

    /// The most that it ever was, in MiB.
    pub(crate) fn peak(self) -> String {
        format!("{}+{}", self.0[0].peak >> 20, self.0[1].peak >> 20)
    }

    pub(crate) fn json(self) -> Value {
        let [sender, agent] = self.0.map(|rss| json!({"rss": rss.now, "peak": rss.peak}));
        json!({"sender": sender, "agent": agent})
    }
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
struct Rss {
    now: u64,
    peak: u64,
}

impl Rss {
    fn of(pid: Pid) -> Self {
        let path = format!("/proc/{}/status", pid.as_raw_nonzero());
        let status = fs::read_to_string(path).expect("the process runs");
        let bytes = |key: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let text = line.and_then(|line| line.split_whitespace().next());
            text.and_then(|text| text.parse::<u64>().ok()).expect("kB") << 10
        };
        Self {
            now: bytes("VmRSS:"),
            peak: bytes("VmHWM:"),
        }
    }
}
