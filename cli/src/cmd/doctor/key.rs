//! Whether this daemon alone uses its key: on this host by its file, and elsewhere as peers and registries see it.

use std::fs::{File, TryLockError};

use super::{facts::DoctorFacts, finding::Finding};

const CHECK: &str = "key";

/// How the daemon begins to say that others see a second one.
const SEEN_TWICE: &str = "another daemon runs with this node's key";

pub(super) fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let twice: Vec<Finding> = facts
        .problems_like(SEEN_TWICE)
        .map(|problem| {
            Finding::problem(
                CHECK,
                problem,
                "stop one of the two, or give it a key of its own: without its key file it makes a new one at its next start",
            )
        })
        .collect();
    if !twice.is_empty() {
        return twice;
    }
    if facts.daemon_report().is_some() {
        return vec![Finding::good(CHECK, "nobody has seen another daemon with it")];
    }
    facts
        .config()
        .map(|config| in_file(&config.key_path))
        .into_iter()
        .collect()
}

/// No daemon answers here: does another one hold the key?
fn in_file(path: &std::path::Path) -> Finding {
    let shown = path.display();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Finding::note(
                CHECK,
                format!("there is no key {shown} yet; the daemon makes it at its first start"),
            );
        }
        Err(error) => {
            return Finding::problem(
                CHECK,
                format!("the key {shown} cannot be read: {error}"),
                "give it back to the user who runs the daemon, with mode 600",
            );
        }
    };
    // Given back at once; a daemon that starts in this moment tries again at its next start.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Finding::problem(
            CHECK,
            format!("another daemon uses the key file {shown}, and answers at another address"),
            "use that daemon (`--home` or `--daemon` of it), or give this home a key of its own with the setting key_path",
        ),
        _ => Finding::good(CHECK, format!("{shown} can be read, and no daemon uses it")),
    }
}
