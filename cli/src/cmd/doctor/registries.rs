//! Whether the agent is registered where it should be, and why not.

use agentanycast::RegistryState;

use super::{clock::DIFFERS, facts::DoctorFacts, finding::Finding};

const CHECK: &str = "registry";

/// What a daemon says of a relay whose registry other hosts cannot reach.
const LOOPBACK_ONLY: &str = "loopback address only";

pub(super) fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let Some(told) = facts.daemon_report() else {
        return Vec::new();
    };
    let registries = &told.network.registries;
    if registries.is_empty() {
        return vec![Finding::note(
            CHECK,
            "none is asked, or no agent has set a card here: agents are found by their peer ids and on the local network",
        )];
    }
    registries.iter().map(of_registry).collect()
}

fn of_registry(registry: &RegistryState) -> Finding {
    let (address, reason) = (&registry.address, &registry.reason);
    match (registry.registered, reason.as_str()) {
        (true, "") => Finding::good(CHECK, format!("registered at {address}")),
        (true, _) => Finding::problem(
            CHECK,
            format!("registered at {address}, but: {reason}"),
            advice(reason),
        ),
        (false, "") => Finding::note(CHECK, format!("not registered at {address} yet")),
        // The relay's operator may want it so, and peer ids work without a registry.
        (false, _) if reason.contains(LOOPBACK_ONLY) => Finding::note(
            CHECK,
            format!("not registered at {address}: {reason}; agents here are found by their peer ids"),
        ),
        (false, _) => Finding::problem(
            CHECK,
            format!("not registered at {address}: {reason}"),
            advice(reason),
        ),
    }
}

/// What to do about a reason, by what it is about.
fn advice(reason: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if reason.starts_with(DIFFERS) || says(&["set the clock"]) {
        "set the clock that is wrong; the agent is registered by itself then"
    } else if says(&["anycast.registry_addrs"]) {
        "ask the relay's operator for the address of its registry and set anycast.registry_addrs to that HOST:PORT; nodes cannot \
         find this agent by skill until then"
    } else if says(&["announces it wrongly", "says no port"]) {
        "have the relay's operator set what the reason names, or set anycast.registry_addrs to a registry that you can reach"
    } else if says(&["at most", "ResourceExhausted"]) {
        "a limit of the registry is reached: have its operator raise it, register fewer skills, or use another registry"
    } else if says(&[
        "Unavailable",
        "connect",
        "no answer",
        "DeadlineExceeded",
        "dns",
        "refused",
    ]) {
        "is the registry running, and reachable from here? It listens at another port than the relay itself, 50052 as it comes"
    } else {
        "put right what the reason names; the agent is registered by itself then"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::finding::State;

    #[test]
    fn each_reason_has_its_advice() {
        let of = |registered, reason: &str| {
            of_registry(&RegistryState {
                address: "relay:50052".to_owned(),
                id: None,
                registered,
                reason: reason.to_owned(),
            })
        };
        assert_eq!(of(true, "").state, State::Good);
        assert_eq!(of(false, "").state, State::Note);
        let on_loopback =
            "the relay serves it on a loopback address only; have its operator set --registry-listen";
        assert_eq!(of(false, on_loopback).state, State::Note);
        for (reason, part) in [
            (
                "this clock and relay:50052's differ by 600 s, and 300 s at most are taken: set this one",
                "clock",
            ),
            ("ResourceExhausted: entries of one address: 1 at most", "limit"),
            ("Unavailable: tcp connect error", "running"),
            (
                "Unavailable: tcp connect error; the relay does not say where its registry is: set anycast.registry_addrs",
                "ask the relay's operator",
            ),
            ("the relay says no port of it", "or set anycast.registry_addrs"),
            ("InvalidArgument: a skill has no id", "put right"),
        ] {
            let finding = of(false, reason);
            assert_eq!(finding.state, State::Problem);
            let advice = finding.advice.unwrap();
            assert!(advice.contains(part), "{reason}: {advice}");
        }
    }
}
