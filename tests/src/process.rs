//! What the system says of a process: memory, open files, threads, processor time. Linux's `/proc` only.
//!
//! Figures of a process that has ended are a panic: a test that asks for one has lost its subject.

use std::{fs, time::Duration};

use rustix::process::Pid;

/// Bytes of memory that the process has in use (resident set).
///
/// # Panics
/// When the process has ended, here and below.
pub fn rss_bytes(pid: Pid) -> u64 {
    status_kib(pid, "VmRSS:") << 10
}

/// The most bytes of memory that it ever had in use.
pub fn peak_rss_bytes(pid: Pid) -> u64 {
    status_kib(pid, "VmHWM:") << 10
}

/// Sets [`peak_rss_bytes`] back to what is in use now.
pub fn forget_peak_rss(pid: Pid) {
    let path = format!("/proc/{}/clear_refs", pid.as_raw_nonzero());
    fs::write(&path, "5").unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Open file descriptors.
pub fn open_files(pid: Pid) -> usize {
    entries(pid, "fd")
}

/// Threads.
pub fn threads(pid: Pid) -> usize {
    entries(pid, "task")
}

/// Processor time used so far, in user and system mode together; in steps of 10 ms.
pub fn cpu_time(pid: Pid) -> Duration {
    let stat = read(pid, "stat");
    // The name, in parentheses, may hold anything; user and system time are the 12th and 13th after it.
    let (_, rest) = stat.rsplit_once(')').expect("a name in parentheses");
    let ticks = rest.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().expect("ticks")).sum();
    Duration::from_secs(ticks) / TICKS_PER_SECOND
}

/// The unit of times in `/proc/PID/stat`: 100 on every Linux there is.
const TICKS_PER_SECOND: u32 = 100;

fn status_kib(pid: Pid, field: &str) -> u64 {
    let status = read(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|line| line.split_whitespace().next());
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {field} of process {}", pid.as_raw_nonzero()))
}

fn read(pid: Pid, file: &str) -> String {
    let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn entries(pid: Pid, directory: &str) -> usize {
    let path = format!("/proc/{}/{directory}", pid.as_raw_nonzero());
    fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{path}: {error}"))
        .count()
}
