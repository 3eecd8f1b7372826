//! Whether the store can be written, and has room.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{facts::DoctorFacts, finding::Finding};
use crate::hints;

const CHECK: &str = "store";

/// Less than this is no room to work in, in bytes.
const MIN_FREE: u64 = 64 << 20;

/// How the daemon begins to say that it has lost tasks.
const DAMAGED: &str = "a damaged store";

/// What refusals name when open tasks have filled the daemon's own limit.
const QUOTA: &str = "store_quota";

pub(super) fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = facts
        .problems_like(DAMAGED)
        .map(|problem| Finding::problem(CHECK, problem, "it is said again until that directory is removed"))
        .collect();
    if let Some(told) = facts.daemon_report() {
        if !told.activity.store_failure.is_empty() {
            findings.push(Finding::problem(
                CHECK,
                format!("it has failed: {}", told.activity.store_failure),
                "make room on its disk, or mount it for writing again, then restart the daemon; it takes no tasks meanwhile",
            ));
        }
        let full = told
            .activity
            .refusals
            .iter()
            .find(|refusal| !refusal.by_peer && refusal.reason.contains(QUOTA));
        if let Some(refusal) = full {
            findings.push(Finding::problem(
                CHECK,
                format!("tasks were refused because it is full: {}", refusal.reason),
                format!(
                    "cancel tasks that nobody waits for (`{}`), or set a larger store_quota",
                    hints::command("tasks")
                ),
            ));
        }
    }
    if let Some(config) = facts.config() {
        findings.extend(of_directory(&config.store_path));
    }
    if findings.is_empty() {
        findings.push(Finding::good(CHECK, "it works"));
    }
    findings
}

/// What is wrong with the place of the store.
fn of_directory(store: &Path) -> Option<Finding> {
    let place = existing(store)?;
    let shown = place.display();
    if let Err(error) = tempfile::tempfile_in(&place) {
        let advice = match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => {
                "mount its file system for writing, or set another store_path".to_owned()
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room on its disk, or set another store_path".to_owned()
            }
            _ => format!("let the user who runs the daemon write into {shown}, or set another store_path"),
        };
        return Some(Finding::problem(
            CHECK,
            format!("{shown} cannot be written: {error}"),
            advice,
        ));
    }
    let about = rustix::fs::statvfs(&place).ok()?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    (free < MIN_FREE).then(|| {
        Finding::problem(
            CHECK,
            format!("the disk of {shown} is full: {} MiB are free", free >> 20),
            "make room on it, or set another store_path; a store that cannot write takes no tasks",
        )
    })
}

/// The directory, or the nearest above it that is there.
fn existing(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|above| above.is_dir()).map(Path::to_owned)
}
