//! Whether the published SDKs find this daemon's program in its home.

use std::path::Path;

use super::{facts::DoctorFacts, finding::Finding};

const CHECK: &str = "SDKs";

/// Names of programs that are the daemon.
const OURS: [&str; 2] = ["agentanycastd", "anycast"];

pub(super) fn check(facts: &DoctorFacts) -> Option<Finding> {
    let path = facts.home.as_ref()?.join("bin").join("agentanycastd");
    of_link(&path)
}

fn of_link(path: &Path) -> Option<Finding> {
    let about = std::fs::symlink_metadata(path).ok()?;
    let shown = path.display();
    let foreign = |what: String| {
        Finding::problem(
            CHECK,
            format!("the published SDKs start {shown}, which is {what}"),
            "delete it: the daemon puts a link to itself there at its next start",
        )
    };
    if !about.is_symlink() {
        return Some(foreign("a file of another origin".to_owned()));
    }
    let target = std::fs::read_link(path).ok()?;
    let name = target.file_name().and_then(|name| name.to_str());
    if !name.is_some_and(|name| OURS.contains(&name)) {
        return Some(foreign(format!("a link to {}", target.display())));
    }
    if !path.exists() {
        return Some(foreign(format!("a link to {}, which is gone", target.display())));
    }
    Some(Finding::good(
        CHECK,
        format!("{shown} leads to {}", target.display()),
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::cmd::doctor::finding::State;

    #[test]
    fn what_is_not_this_daemon_is_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("agentanycastd");
        assert_eq!(of_link(&path), None);
        std::fs::write(&path, "another").unwrap();
        assert_eq!(of_link(&path).unwrap().state, State::Problem);
        let program = home.path().join("anycast");
        for (target, exists, state) in [
            (&program, true, State::Good),
            (&program, false, State::Problem),
            (&home.path().join("other"), true, State::Problem),
        ] {
            std::fs::remove_file(&path).unwrap();
            symlink(target, &path).unwrap();
            if exists {
                std::fs::write(target, "").unwrap();
            } else {
                std::fs::remove_file(target).unwrap();
            }
            assert_eq!(of_link(&path).unwrap().state, state, "{target:?} {exists}");
        }
    }
}
