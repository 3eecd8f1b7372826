//! Whether the daemon and this program are of one version.

use super::{facts::DoctorFacts, finding::Finding};

const CHECK: &str = "version";

pub(super) fn check(facts: &DoctorFacts) -> Option<Finding> {
    let daemon = facts.daemon_report()?.info.version.as_str();
    Some(compare(daemon, env!("CARGO_PKG_VERSION")))
}

fn compare(daemon: &str, own: &str) -> Finding {
    if daemon == own {
        return Finding::good(CHECK, own);
    }
    Finding::problem(
        CHECK,
        format!("the daemon is of version {daemon}, this program of {own}"),
        "restart the daemon, so that it is the program that is installed now; or install the older one of the two anew",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::finding::State;

    #[test]
    fn two_versions_are_told() {
        assert_eq!(compare("0.1.0", "0.1.0").state, State::Good);
        let finding = compare("0.0.9", "0.1.0");
        assert_eq!(finding.state, State::Problem);
        assert!(finding.says.contains("0.0.9") && finding.says.contains("0.1.0"));
    }
}
