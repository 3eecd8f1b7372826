//! Whether this node can be reached: relays hold a slot for it, or it needs none.

use agentanycast::{Nat, Relay, ReservationState};

use super::{facts::DoctorFacts, finding::Finding};
use crate::output;

const CHECK: &str = "relays";

const NAT: &str = "NAT";

pub(super) fn check(facts: &DoctorFacts) -> Vec<Finding> {
    let Some(told) = facts.daemon_report() else {
        return Vec::new();
    };
    let network = &told.network;
    let held = network
        .relays
        .iter()
        .filter(|relay| relay.state == ReservationState::Held)
        .count();
    let mut findings = vec![of_nat(network.nat, held)];
    if network.relays.is_empty() {
        findings.push(Finding::note(
            CHECK,
            "none is set; behind a NAT, nodes of other networks reach this one through a relay only",
        ));
    }
    findings.extend(network.relays.iter().filter_map(of_relay));
    if held > 0 {
        findings.push(Finding::good(
            CHECK,
            format!("{held} of {} hold a slot for this node", network.relays.len()),
        ));
    }
    findings
}

fn of_nat(nat: Nat, held: usize) -> Finding {
    let behind = match nat {
        Nat::Public => return Finding::good(NAT, "none: this node can be reached from outside"),
        Nat::Private => "this node is behind a NAT or a firewall",
        Nat::Symmetric => {
            "this node is behind a NAT that shows each remote another port, through which direct ways are seldom found"
        }
        _ => return Finding::note(NAT, "not known: nobody outside has said yet"),
    };
    if held > 0 {
        return Finding::good(NAT, format!("{behind}; it is reached through a relay"));
    }
    Finding::problem(
        NAT,
        format!("{behind}, and no relay holds a slot for it: nobody outside reaches it"),
        "give it a relay: its multiaddr in bootstrap_peers",
    )
}

/// What is wrong with a relay; None: nothing, or it is only a moment.
fn of_relay(relay: &Relay) -> Option<Finding> {
    let who = relay
        .id
        .as_ref()
        .map_or_else(|| output::flat(&relay.address), ToString::to_string);
    let why = match relay.last_error.as_str() {
        "" => String::new(),
        error => format!(": {error}"),
    };
    match relay.state {
        ReservationState::Away => Some(Finding::problem(
            CHECK,
            format!("the relay {who} is away{why}"),
            "is it running, and reachable from here? Its multiaddr in bootstrap_peers may be an old one",
        )),
        ReservationState::Waiting => Some(Finding::problem(
            CHECK,
            format!("the relay {who} gives this node no slot{why}"),
            "it is asked again by itself; ask its operator whether it is full, or add another relay to bootstrap_peers",
        )),
        ReservationState::Asking => Some(Finding::note(
            CHECK,
            format!("the relay {who} is being asked for a slot"),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::doctor::finding::State;

    #[test]
    fn behind_a_nat_a_relay_is_needed() {
        assert_eq!(of_nat(Nat::Public, 0).state, State::Good);
        assert_eq!(of_nat(Nat::Unknown, 0).state, State::Note);
        for nat in [Nat::Private, Nat::Symmetric] {
            assert_eq!(of_nat(nat, 0).state, State::Problem);
            assert_eq!(of_nat(nat, 1).state, State::Good);
        }
    }
}
