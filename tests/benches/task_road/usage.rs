//! What a process has used: processor time and memory, as the kernel counts them in /proc. Processor time
//! comes in ticks of 10 ms, so it says little about less than a second.

use std::{fs, time::Duration};

use rustix::process::Pid;

/// The kernel counts processor time for programs in hundredths of a second, on every architecture.
const TICK: Duration = Duration::from_millis(10);

/// Processor time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

impl Cpu {
    /// Of this process and its threads, since it started.
    pub(crate) fn of(pid: Pid) -> Self {
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

    /// Of all of them.
    pub(crate) fn of_all(pids: &[Pid]) -> Self {
        let mut sum = Self::default();
        for pid in pids {
            sum.add(Self::of(*pid));
        }
        sum
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }

    pub(crate) fn total(self) -> Duration {
        self.user + self.system
    }
}

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rss {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

impl Rss {
    /// Of this process.
    pub(crate) fn of(pid: Pid) -> Self {
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
