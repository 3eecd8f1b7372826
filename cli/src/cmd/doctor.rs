//! `anycast doctor`: looks for what keeps a daemon from working, and says what to do about it; also where none runs. One
//! file for each thing that is checked.

mod access;
mod clock;
mod daemon;
mod disk;
mod dns;
pub(super) mod facts;
pub(super) mod finding;
mod key;
mod lifetime;
mod program_link;
mod registries;
mod relays;
mod settings;
mod udp;
mod version;

use serde_json::json;

use self::{
    facts::DoctorFacts,
    finding::{Finding, State},
};
use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    output::{self, Paint},
};

pub(crate) async fn run(context: &Context) -> Result<(), CommandFailure> {
    let facts = DoctorFacts::gather(context, 0).await?;
    let findings = check(&facts).await;
    let problems = findings
        .iter()
        .filter(|finding| finding.state == State::Problem)
        .count();
    if context.json {
        let checks: Vec<_> = findings.iter().map(Finding::document).collect();
        output::json(&json!({"is_well": problems == 0, "checks": checks}))?;
    } else {
        for finding in &findings {
            show(finding)?;
        }
        output::line(&match problems {
            0 => "all is well".to_owned(),
            1 => "1 problem".to_owned(),
            many => format!("{many} problems"),
        })?;
    }
    if problems == 0 {
        return Ok(());
    }
    Err(
        CommandFailure::new(FailureCode::General, "Unhealthy", format!("{problems} problems"))
            .already_reported(),
    )
}

/// All that is found, in an order in which a cause stands before what it may have caused.
pub(super) async fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let mut findings = settings::check(facts);
    findings.extend(daemon::check(facts));
    findings.extend(lifetime::check(facts).await);
    findings.extend(version::check(facts));
    findings.extend(key::check(facts));
    findings.extend(disk::check(facts));
    findings.extend(clock::check(facts));
    let (names, datagrams) = tokio::join!(dns::check(facts), udp::check(facts));
    findings.extend(names);
    findings.extend(datagrams);
    findings.extend(relays::check(facts));
    findings.extend(registries::check(facts));
    findings.extend(program_link::check(facts));
    findings.extend(access::check(facts));
    findings
}

fn show(finding: &Finding) -> Result<(), CommandFailure> {
    let (mark, paint) = match finding.state {
        State::Good => ("ok", Paint::Good),
        State::Note => ("note", Paint::Faint),
        State::Problem => ("PROBLEM", Paint::Busy),
    };
    let name = format!("  {:<10}  ", finding.check);
    output::pieces(&[
        (&format!("{mark:<7}"), paint),
        (&name, Paint::Plain),
        (&output::flat(&finding.says), Paint::Plain),
    ])?;
    if let Some(advice) = &finding.advice {
        output::line(&format!("{:<7}  {:<10}  do: {}", "", "", output::flat(advice)))?;
    }
    Ok(())
}
