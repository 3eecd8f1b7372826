//! What a process takes of the machine, as the kernel tells it under `/proc`. Linux only. A process that is
//! not there is a panic: whoever asks has started it.

use std::fs;

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
