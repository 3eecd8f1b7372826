//! Who may use a private agent, against the rule in plain words.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::{
    super::{
        acl::{Acl, Rule},
        glob::Glob,
        grants::{GrantedAgents, PeerGrant, UsableSkills},
    },
    *,
};

/// How the policy trusts peers, and whether the one that asks is among them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TrustCase {
    Open,
    Known { listed: bool, vouched: bool },
    Pinned { listed: bool },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asker {
    Local,
    Caller,
    StrangerCaller,
    Peer,
}

#[derive(Clone, Debug)]
struct AccessCase {
    trust: TrustCase,
    /// Rules for whoever asks: agent, skill, whether it may.
    rules: Vec<(&'static str, &'static str, bool)>,
    /// Rules that are for somebody else.
    others: bool,
    grants: Vec<PeerGrant>,
    asker: Asker,
    agent: &'static str,
    skill: &'static str,
    is_private: bool,
}

fn cases() -> impl Strategy<Value = AccessCase> {
    let trust = prop_oneof![
        Just(TrustCase::Open),
        any::<(bool, bool)>().prop_map(|(listed, vouched)| TrustCase::Known { listed, vouched }),
        any::<bool>().prop_map(|listed| TrustCase::Pinned { listed }),
    ];
    let rule = (
        prop::sample::select(vec!["*", "a", "b"]),
        prop::sample::select(vec!["*", "x", "y"]),
        any::<bool>(),
    );
    let agents = prop_oneof![
        Just(GrantedAgents::All),
        Just(GrantedAgents::OpenAnd(BTreeSet::new())),
        Just(GrantedAgents::OpenAnd(BTreeSet::from(["a".to_owned()]))),
        Just(GrantedAgents::Only("a".to_owned())),
        Just(GrantedAgents::Only("b".to_owned())),
    ];
    let grant = (agents, prop::sample::select(vec!["", "x", "y"]), any::<bool>()).prop_map(
        |(agents, skill, is_invite)| PeerGrant {
            label: is_invite.then(|| "team".to_owned()),
            agents,
            skill: skill.to_owned(),
        },
    );
    let asker = prop::sample::select(vec![
        Asker::Local,
        Asker::Caller,
        Asker::StrangerCaller,
        Asker::Peer,
        Asker::Peer,
    ]);
    (
        trust,
        prop::collection::vec(rule, 0..3),
        any::<bool>(),
        prop::collection::vec(grant, 0..3),
        asker,
        prop::sample::select(vec!["a", "b"]),
        prop::sample::select(vec!["", "x", "y"]),
        any::<bool>(),
    )
        .prop_map(
            |(trust, rules, others, grants, asker, agent, skill, is_private)| AccessCase {
                trust,
                rules,
                others,
                grants,
                asker,
                agent,
                skill,
                is_private,
            },
        )
}

fn glob(text: &str) -> Glob {
    Glob::new(text).unwrap()
}

fn policy_of(case: &AccessCase) -> Policy {
    let me = peer(1);
    let trust = match case.trust {
        TrustCase::Open => Trust::Open,
        TrustCase::Known { listed, .. } => {
            Trust::Known(vec![glob(&peer(if listed { 1 } else { 2 }).to_string())])
        }
        TrustCase::Pinned { listed } => Trust::Pinned(HashSet::from([peer(if listed { 1 } else { 2 })])),
    };
    let source = match case.asker {
        Asker::Local => LOCAL.to_owned(),
        Asker::Caller | Asker::StrangerCaller => "aip:x".to_owned(),
        Asker::Peer => me.to_string(),
    };
    let own = case.rules.iter().map(|(agent, skill, allow)| Rule {
        source: glob(&source),
        skill: glob(skill),
        agent: glob(agent),
        allow: *allow,
    });
    let other = case.others.then(|| Rule {
        source: glob(&peer(9).to_string()),
        skill: glob("*"),
        agent: glob("*"),
        allow: true,
    });
    let mut policy = Policy::new(PolicyRules {
        trust,
        acl: Acl {
            rules: own.chain(other).collect(),
            groups: Vec::new(),
        },
        ..PolicyRules::default()
    });
    policy.set_grants(me, case.grants.clone());
    if let TrustCase::Known { vouched: true, .. } = case.trust {
        let attributes = PeerAttributes {
            vouched: true,
            ..PeerAttributes::default()
        };
        policy.set_attributes(me, attributes);
    }
    policy
}

fn decided(case: &AccessCase) -> Decision {
    let mut policy = policy_of(case);
    let asked = AskedFor {
        skill: case.skill,
        agent: case.agent,
        is_private: case.is_private,
    };
    let source = match case.asker {
        Asker::Local => TaskSource::Local,
        Asker::Caller => TaskSource::Bridge("aip:x"),
        Asker::StrangerCaller => TaskSource::Stranger("aip:x"),
        Asker::Peer => TaskSource::Peer(peer(1)),
    };
    policy.decide(Duration::from_secs(9), source, asked, SourceUsage::default(), 0)
}

/// The rule in plain words: whether it may, and the word of the audit log.
fn expected(case: &AccessCase) -> (bool, String) {
    let rule = case.rules.iter().position(|(agent, skill, _)| {
        (*agent == "*" || *agent == case.agent) && (*skill == "*" || *skill == case.skill)
    });
    let has_rules = case.others || !case.rules.is_empty();
    let grant = case.grants.iter().find(|grant| {
        let for_agent = match &grant.agents {
            GrantedAgents::All => true,
            GrantedAgents::OpenAnd(agents) => !case.is_private || agents.contains(case.agent),
            GrantedAgents::Only(agent) => agent == case.agent,
        };
        for_agent && (grant.skill.is_empty() || grant.skill == case.skill)
    });
    let grant = grant.filter(|_| case.asker == Asker::Peer);
    let (is_listed, gate) = match case.trust {
        TrustCase::Open => (false, None),
        TrustCase::Known { listed, vouched } => (listed || vouched, Some("trust known")),
        TrustCase::Pinned { listed } => (listed, Some("trust pinned")),
    };
    let is_peer = case.asker == Asker::Peer;
    if let Some(gate) = gate.filter(|_| is_peer && grant.is_none() && !is_listed) {
        return (false, gate.to_owned());
    }
    if let Some(number) = rule {
        return (case.rules[number].2, format!("acl {}", number + 1));
    }
    let by_grant = |grant: &PeerGrant| {
        let word = if grant.label.is_some() { "invite" } else { "trust" };
        (true, word.to_owned())
    };
    let is_outside = matches!(case.asker, Asker::Peer | Asker::StrangerCaller);
    if case.is_private && is_outside {
        return match grant {
            Some(grant) => by_grant(grant),
            None if is_peer && is_listed && !has_rules => (true, "no rules".to_owned()),
            None => (false, "access".to_owned()),
        };
    }
    match grant {
        Some(grant) if has_rules => by_grant(grant),
        _ if has_rules => (false, "acl default".to_owned()),
        _ => (true, "no rules".to_owned()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn as_the_rule_says(case in cases()) {
        let decision = decided(&case);
        let is_allowed = decision.outcome == PolicyOutcome::Allow;
        prop_assert_eq!((is_allowed, decision.reason.to_string()), expected(&case));
    }

    /// Nobody may use a private agent who may not use it while it is open.
    #[test]
    fn private_is_never_looser_than_open(case in cases()) {
        let as_open = AccessCase { is_private: false, ..case.clone() };
        let as_private = AccessCase { is_private: true, ..case };
        if decided(&as_private).outcome == PolicyOutcome::Allow {
            prop_assert_eq!(decided(&as_open).outcome, PolicyOutcome::Allow);
        }
    }

    /// What a peer is shown of an agent is what it may use of it.
    #[test]
    fn what_is_shown_may_be_used(case in cases()) {
        let case = AccessCase { asker: Asker::Peer, is_private: true, ..case };
        let mut these = BTreeSet::new();
        for skill in ["x", "y"] {
            let asked = AccessCase { skill, ..case.clone() };
            if decided(&asked).outcome == PolicyOutcome::Allow {
                these.insert(skill.to_owned());
            }
        }
        let plain = decided(&AccessCase { skill: "", ..case.clone() }).outcome == PolicyOutcome::Allow;
        let expected = match (plain, these.len()) {
            (true, 2) => UsableSkills::All,
            (false, 0) => UsableSkills::None,
            _ => UsableSkills::These(these),
        };
        prop_assert_eq!(shown(&case), expected);
    }
}

fn shown(case: &AccessCase) -> UsableSkills {
    let mut policy = policy_of(case);
    policy.usable_skills(peer(1), case.agent, ["x", "y"].into_iter())
}
