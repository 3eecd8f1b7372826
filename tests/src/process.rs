//! What a process takes of the machine: memory, open files, threads, as Linux tells it under /proc. Reads
//! only; the one rule: a process that is gone is a panic, never a zero.

use rustix::process::Pid;

/// Resident memory now, in bytes.
///
/// # Panics
/// When the process is gone.
pub fn rss_bytes(pid: Pid) -> u64 {
    status_kib(pid, "VmRSS:") << 10
}

/// The most resident memory that it ever had, in bytes.
///
/// # Panics
/// When the process is gone.
pub fn peak_rss_bytes(pid: Pid) -> u64 {
    status_kib(pid, "VmHWM:") << 10
}

/// Open file descriptors.
///
/// # Panics
/// When the process is gone.
pub fn open_files(pid: Pid) -> usize {
    let path = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let entries = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    entries.count()
}

/// Threads.
///
/// # Panics
/// When the process is gone.
pub fn threads(pid: Pid) -> usize {
    status_kib(pid, "Threads:") as usize
}

/// The number behind a name in the status file; sizes are in KiB there.
fn status_kib(pid: Pid, name: &str) -> u64 {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {path}"))
}
