//! What a daemon asks of the operating system for its process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// File descriptors a daemon asks for: connections, streams and files take one each.
const DESCRIPTORS: u64 = 65_536;

/// Raises the limit of open files to 65 536, or as far as the system lets it; a warning if not at all.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    if limit.current.is_some_and(|now| now < wanted) {
        limit.current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
}
