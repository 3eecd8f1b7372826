//! What the nodes and the ends have used: processor time and memory. Processor time comes in ticks of 10 ms, so it
//! says little about less than a second.

use std::time::Duration;

use agentanycast_tests::proc_stats;
use rustix::process::Pid;
use serde_json::{Value, json};

/// Processor time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

impl Cpu {
    /// Of a process and its threads, since it started.
    fn from_pid(pid: Pid) -> Self {
        let (user, system) = proc_stats::cpu_times(pid);
        Self { user, system }
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
pub(crate) struct CpuTimes {
    pub(crate) nodes: Cpu,
    pub(crate) ends: Cpu,
}

impl CpuTimes {
    pub(crate) fn now(nodes: &[Pid]) -> Self {
        let mut times = Self {
            nodes: Cpu::default(),
            ends: Cpu::from_pid(rustix::process::getpid()),
        };
        for pid in nodes {
            times.nodes.add(Cpu::from_pid(*pid));
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
pub(crate) struct NodeMemory([Rss; 2]);

impl NodeMemory {
    pub(crate) fn from_pids(pids: &[Pid]) -> Self {
        Self([Rss::from_pid(pids[0]), Rss::from_pid(pids[1])])
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
    fn from_pid(pid: Pid) -> Self {
        Self {
            now: proc_stats::rss_bytes(pid),
            peak: proc_stats::peak_rss_bytes(pid),
        }
    }
}
