//! Whether the settings can be read, and are those that the daemon runs with.

use super::{facts::DoctorFacts, finding::Finding};

const CHECK: &str = "settings";

/// How the daemon begins to say that it goes on with older rules.
const OLD_RULES: &str = "the settings cannot be used";

pub(super) fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let Some(_) = facts.home else {
        return vec![Finding::note(
            CHECK,
            "not checked: with --daemon it is not known which file has them",
        )];
    };
    let file = facts
        .settings_file
        .as_ref()
        .map(|file| file.display().to_string());
    let mut findings = vec![match (&facts.settings, &file) {
        (Err(error), _) => Finding::problem(
            CHECK,
            error,
            "put right what is named; a daemon that runs keeps its old settings, and one that is started ends with this error",
        ),
        (Ok(_), Some(file)) => Finding::good(CHECK, format!("{file} can be read")),
        (Ok(_), None) => Finding::good(CHECK, "there is no file of settings: the defaults"),
    }];
    findings.extend(facts.problems_like(OLD_RULES).map(|problem| {
        Finding::problem(
            CHECK,
            problem,
            "put right what is named, then send the daemon SIGHUP, or restart it",
        )
    }));
    findings
}
