//! Whether the daemon ends with a unit of systemd that only a command of it was run in.

use super::{facts::DoctorFacts, finding::Finding};
use crate::{
    background_daemon::{HomeProcess, lifetime::unit_of_daemon},
    hints,
    home::Home,
};

const CHECK: &str = "lifetime";

pub(super) async fn check(facts: &DoctorFacts) -> Option<Finding> {
    let home = Home::new(Some(facts.home.clone()?));
    let pid = HomeProcess::from_home(&home).ok()?.pid().await.ok()??;
    let unit = unit_of_daemon(pid)?;
    Some(Finding::problem(
        CHECK,
        format!("a command in {unit} has started the daemon, which ends with that unit"),
        format!(
            "`{}`, then `{}`, or `{}` outside of the unit",
            hints::command("down"),
            hints::command("service install"),
            hints::command("up")
        ),
    ))
}
