//! What a process takes of the machine, as the kernel tells it under `/proc`. Linux only. A process that is
//! not there is a panic: whoever asks has started it.

use std::{fs, time::Duration};

use rustix::process::Pid;

/// Bytes of memory that are resident now (`VmRSS`).
///
/// # Panics
/// When the process is gone.
pub fn rss_bytes(pid: Pid) -> u64 {
    status(pid, "VmRSS:") << 10
}

/// Most bytes of memory that were ever resident (`VmHWM`).
///
/// # Panics
/// When the process is gone.
pub fn peak_rss_bytes(pid: Pid) -> u64 {
    status(pid, "VmHWM:") << 10
}

/// Sets [`peak_rss_bytes`] back to what is resident now.
///
/// # Panics
/// When the process is gone.
pub fn reset_peak_rss(pid: Pid) {
    let path = format!("/proc/{}/clear_refs", pid.as_raw_nonzero());
    fs::write(&path, "5").unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Processor time used so far, in user and system mode together; in steps of 10 ms.
///
/// # Panics
/// When the process is gone.
pub fn cpu_time(pid: Pid) -> Duration {
    let (user, system) = cpu_times(pid);
    user + system
}

/// The same in user and in system mode.
///
/// # Panics
/// When the process is gone.
pub fn cpu_times(pid: Pid) -> (Duration, Duration) {
    /// The unit of times in `stat`: 100 a second on every Linux there is.
    const TICKS_PER_SECOND: u32 = 100;
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let stat = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    // The name, in parentheses, may hold anything; user and system time are the 12th and 13th after it.
    let (_, rest) = stat.rsplit_once(')').expect("a name in parentheses");
    let mut times = rest.split_whitespace().skip(11).map(|field| {
        let ticks = field.parse().expect("ticks");
        Duration::from_secs(ticks) / TICKS_PER_SECOND
    });
    let mut time = || times.next().expect("a time");
    (time(), time())
}

/// Whether it has ended. One that only waits for its parent to ask how it ended has.
pub fn has_ended(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    match state {
        None | Some('X') => true,
        // The first thread is a zombie already while others of the process still hold its files and sockets.
        Some('Z') => {
            fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).is_ok_and(|tasks| tasks.count() <= 1)
        }
        Some(_) => false,
    }
}

/// Number of threads.
///
/// # Panics
/// When the process is gone.
pub fn threads(pid: Pid) -> u64 {
    status(pid, "Threads:")
}

/// Number of open file descriptors.
///
/// # Panics
/// When the process is gone.
pub fn open_files(pid: Pid) -> u64 {
    let path = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    entries.count() as u64
}

/// The first number of a line of `/proc/PID/status`.
fn status(pid: Pid, name: &str) -> u64 {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{path} has no {name}"))
}
