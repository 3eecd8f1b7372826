//! Private agents: who is let in by what, what is shown to whom, and what ends when a right is taken back.

use std::time::Duration;

use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{AgentsPage, SendTaskPayload, a2a_envelope::Payload};

use super::{
    cluster::{A, B, C, TestCluster},
    harness::{limits, peer, text},
    node_agents::process,
};
use crate::{
    AgentAccess, NewInvite, RegistrationAccess, SendTask, TrustScope, coordinator::Coordinator,
    policy::PeerAttributes, task::Status,
};

const PRIVATE: RegistrationAccess = RegistrationAccess::Default(AgentAccess::Private);

const SECRET: [u8; 16] = [7; 16];

/// B has a private agent `vault` (skills `read`, `write`), and an open one, `painter` (skill `paint`).
fn lab() -> TestCluster {
    let mut lab = TestCluster::with_nodes(3, &limits());
    lab.register_as("painter", &["paint"], RegistrationAccess::AsBefore);
    lab.register_as("vault", &["read", "write"], PRIVATE);
    let b = lab.id(B);
    for node in [A, C] {
        let id = lab.id(node);
        lab.join(node, b);
        lab.join(B, id);
    }
    lab
}

/// What becomes of a task of this node for an agent and a skill of B.
fn asks(lab: &mut TestCluster, from: usize, agent: &str, skill: &str) -> (Status, String) {
    let request = SendTask {
        target_agent: agent.to_owned(),
        skill: skill.to_owned(),
        ..SendTask::default()
    };
    let to = lab.id(B);
    let id = lab.send(from, to, request).unwrap().id;
    (lab.status(from, &id), lab.reason(from, &id))
}

fn is_let_in(lab: &mut TestCluster, from: usize, agent: &str, skill: &str) -> bool {
    asks(lab, from, agent, skill).0 != Status::Rejected
}

fn scope(agent: &str, skill: &str) -> TrustScope {
    TrustScope {
        agent: agent.to_owned(),
        skill: skill.to_owned(),
    }
}

fn trust(lab: &mut TestCluster, node: usize, agent: &str, skill: &str) {
    let id = lab.id(node);
    lab.call(B, |core, now| core.trust_peer(now, id, scope(agent, skill)))
        .unwrap();
}

/// The agents, with their skills, on the card that B shows to a node.
fn shown(lab: &mut TestCluster, node: usize) -> Vec<(String, Vec<String>)> {
    let id = lab.id(node);
    let page = lab.nodes[B].core.agents_page(&AgentsPage::default(), Some(id));
    let agents = page.agents.into_iter().map(|agent| {
        let skills = agent.skills.into_iter().map(|skill| skill.id);
        (agent.agent, skills.collect())
    });
    let by_page: Vec<(String, Vec<String>)> = agents.collect();
    let card = lab.nodes[B].core.card_for(id);
    let on_card: Vec<String> = card
        .iter()
        .flat_map(|card| card.skills.iter().map(|skill| skill.id.clone()))
        .collect();
    let mut paged: Vec<String> = by_page.iter().flat_map(|(_, skills)| skills.clone()).collect();
    let mut carded = on_card;
    paged.sort();
    carded.sort();
    assert_eq!(paged, carded);
    by_page
}

#[test]
fn a_stranger_is_refused_and_shown_nothing() {
    let mut lab = lab();
    let (status, reason) = asks(&mut lab, A, "vault", "read");
    assert_eq!(status, Status::Rejected);
    assert_eq!(reason, "agent vault is private; ask its owner for an invite");
    let (status, reason) = asks(&mut lab, A, "", "read");
    assert_eq!(status, Status::Rejected);
    assert!(
        reason.contains("ask its owner for an invite") && !reason.contains("vault"),
        "{reason}"
    );
    assert!(is_let_in(&mut lab, A, "", "paint") && is_let_in(&mut lab, A, "painter", ""));
    let (_, unknown) = asks(&mut lab, A, "nobody", "");
    assert!(
        unknown.contains("there are: painter") && !unknown.contains("vault"),
        "{unknown}"
    );
    assert_eq!(
        shown(&mut lab, A),
        [("painter".to_owned(), vec!["paint".to_owned()])]
    );
    let public = lab.nodes[B].core.shown_card().public.unwrap();
    assert!(public.agents.is_empty() && public.skills.len() == 1 && public.name == "painter");
    // The node itself sees and uses all.
    let own = lab.nodes[B].core.shown_card().own.unwrap();
    assert_eq!((own.agents.len(), own.skills.len()), (2, 3));
    let me = lab.id(B);
    let request = SendTask {
        target_agent: "vault".to_owned(),
        ..SendTask::default()
    };
    lab.send(B, me, request).unwrap();
}

#[test]
fn trust_and_invites_let_in_to_what_they_cover() {
    let mut lab = lab();
    trust(&mut lab, A, "vault", "read");
    assert!(is_let_in(&mut lab, A, "vault", "read") && is_let_in(&mut lab, A, "", "read"));
    assert!(!is_let_in(&mut lab, A, "vault", "write") && !is_let_in(&mut lab, A, "vault", ""));
    assert!(!is_let_in(&mut lab, C, "vault", "read"));
    assert_eq!(
        shown(&mut lab, A)[1],
        ("vault".to_owned(), vec!["read".to_owned()])
    );
    assert_eq!(shown(&mut lab, C).len(), 1);

    let invite = NewInvite {
        id: "i".to_owned(),
        uses: 1,
        secret: SECRET,
        ..NewInvite::default()
    };
    let made = lab.call(B, |core, now| core.create_invite(now, invite)).unwrap();
    assert_eq!(made.agents, ["painter", "vault"]);
    lab.register_as("later", &["late"], PRIVATE);
    let b = lab.id(B);
    lab.call(C, |core, _| core.accept_invite(b, Some(SECRET)))
        .unwrap();
    assert!(is_let_in(&mut lab, C, "vault", "write"));
    assert!(
        !is_let_in(&mut lab, C, "later", ""),
        "it was not there when the invite was made"
    );
    assert_eq!(shown(&mut lab, C).len(), 2);
    trust(&mut lab, C, "", "");
    assert!(is_let_in(&mut lab, C, "later", ""));

    // All of it is there after a restart.
    lab.restart(B);
    for node in [A, C] {
        let id = lab.id(node);
        lab.join(B, id);
        lab.join(node, b);
    }
    assert!(is_let_in(&mut lab, A, "vault", "read") && !is_let_in(&mut lab, A, "vault", "write"));
    assert!(is_let_in(&mut lab, C, "later", ""));
}

#[test]
fn of_agents_with_a_skill_one_is_chosen_that_the_asker_may_use() {
    let mut lab = lab();
    lab.register_as("scribe", &["read"], RegistrationAccess::AsBefore);
    // The private one listens and has nothing to do: it would be chosen.
    lab.listen_for(1, "vault").unwrap();
    let request = || SendTask {
        skill: "read".to_owned(),
        ..SendTask::default()
    };
    let to = lab.id(B);
    let id = lab.send(A, to, request()).unwrap().id;
    let written = lab.nodes[B].core.task(&id).unwrap().agent.clone();
    assert_eq!(written.as_deref(), Some("scribe"));
    trust(&mut lab, A, "vault", "");
    let id = lab.send(A, to, request()).unwrap().id;
    let written = lab.nodes[B].core.task(&id).unwrap().agent.clone();
    assert_eq!(written.as_deref(), Some("vault"));
}

#[test]
fn what_nobody_has_begun_ends_when_the_right_is_taken_back() {
    let mut lab = lab();
    trust(&mut lab, A, "vault", "");
    lab.listen_for(1, "vault").unwrap();
    let to = lab.id(B);
    let request = |agent: &str| SendTask {
        target_agent: agent.to_owned(),
        ..SendTask::default()
    };
    let ids: Vec<String> = ["vault", "vault", "painter"]
        .map(|agent| lab.send(A, to, request(agent)).unwrap().id)
        .into();
    lab.update(B, &ids[0], Status::Working).unwrap();
    lab.advance(Duration::from_millis(200));
    let peer = lab.id(A);
    let (gone, ended) = lab
        .call(B, |core, now| core.untrust_peer(now, peer, &scope("", "")))
        .unwrap();
    assert_eq!((gone.len(), ended), (1, 1));
    assert_eq!(lab.status(A, &ids[0]), Status::Working, "an agent works on it");
    assert_eq!(lab.status(A, &ids[1]), Status::Rejected);
    assert!(
        lab.reason(A, &ids[1]).contains("not let in"),
        "{}",
        lab.reason(A, &ids[1])
    );
    assert_eq!(lab.status(A, &ids[2]), Status::Submitted, "an open agent has it");
    assert!(!is_let_in(&mut lab, A, "vault", ""));
    assert!(
        lab.call(B, |core, now| core.untrust_peer(now, peer, &scope("", "")))
            .is_err()
    );
}

/// An agent is closed: as if everybody's right had been taken back.
#[test]
fn what_strangers_sent_and_nobody_has_begun_ends_when_an_agent_is_closed() {
    for again in [false, true] {
        let mut lab = lab();
        trust(&mut lab, C, "painter", "");
        lab.listen_for(1, "painter").unwrap();
        let to = lab.id(B);
        let request = || SendTask {
            target_agent: "painter".to_owned(),
            ..SendTask::default()
        };
        let [begun, waiting] = [(); 2].map(|()| lab.send(A, to, request()).unwrap().id);
        let trusted = lab.send(C, to, request()).unwrap().id;
        let of_gateway = |mark: &str| SendTask {
            metadata: [("gateway.stranger".to_owned(), mark.to_owned())].into(),
            ..request()
        };
        let [stranger, own] = ["true", "false"].map(|mark| lab.send(B, to, of_gateway(mark)).unwrap().id);
        let of_other = SendTask {
            target_agent: "potter".to_owned(),
            ..SendTask::default()
        };
        lab.register_as("potter", &["turn"], RegistrationAccess::AsBefore);
        let other = lab.send(A, to, of_other).unwrap().id;
        lab.update(B, &begun, Status::Working).unwrap();
        lab.advance(Duration::from_millis(200));
        if again {
            lab.register_as(
                "painter",
                &["paint"],
                RegistrationAccess::Is(AgentAccess::Private),
            );
        } else {
            let close =
                |core: &mut Coordinator, now| core.set_agent_access(now, "painter", AgentAccess::Private);
            assert_eq!(lab.call(B, close).unwrap(), 2);
            assert_eq!(lab.call(B, close).unwrap(), 0);
        }
        assert_eq!(lab.status(A, &begun), Status::Working, "an agent works on it");
        assert_eq!(lab.status(A, &waiting), Status::Rejected);
        assert_eq!(lab.status(C, &trusted), Status::Submitted, "its sender may");
        assert_eq!(
            lab.status(B, &stranger),
            Status::Rejected,
            "of a stranger of a gateway"
        );
        assert_eq!(lab.status(B, &own), Status::Submitted, "of the node itself");
        assert_eq!(lab.status(A, &other), Status::Submitted, "of another agent");
    }
}

/// What came while the node had no agent is for the first one, and strangers have not sent it to a private one.
#[test]
fn the_first_agent_is_private_for_what_came_before_it() {
    let mut lab = TestCluster::with_nodes(3, &limits());
    let to = lab.id(B);
    for node in [A, C] {
        let id = lab.id(node);
        lab.join(node, to);
        lab.join(B, id);
    }
    trust(&mut lab, C, "", "");
    let sent = [A, C].map(|node| lab.send(node, to, SendTask::default()).unwrap().id);
    assert_eq!(lab.status(A, &sent[0]), Status::Submitted);
    lab.register_as("vault", &["read"], PRIVATE);
    assert_eq!(lab.status(A, &sent[0]), Status::Rejected);
    assert_eq!(lab.status(C, &sent[1]), Status::Submitted);
}

/// The first agent is for tasks that name none. Where that is private, it is the open one for those who may not use it.
#[test]
fn a_task_that_names_no_agent_is_for_one_that_its_sender_may_use() {
    let mut lab = TestCluster::with_nodes(3, &limits());
    lab.register_as("vault", &["read"], PRIVATE);
    lab.register_as("painter", &["paint"], RegistrationAccess::AsBefore);
    let (a, b) = (lab.id(A), lab.id(B));
    lab.join(A, b);
    lab.join(B, a);
    let agent_of_next = |lab: &mut TestCluster, skill: &str| {
        let request = SendTask {
            skill: skill.to_owned(),
            ..SendTask::default()
        };
        let id = lab.send(A, b, request).unwrap().id;
        let is_in = lab.status(A, &id) != Status::Rejected;
        let task = is_in.then(|| lab.nodes[B].core.task(&id).unwrap());
        task.map(|task| {
            task.agent
                .clone()
                .map_or_else(|| "vault".to_owned(), |name| name.to_string())
        })
        .ok_or_else(|| lab.reason(A, &id))
    };
    assert_eq!(agent_of_next(&mut lab, "").as_deref(), Ok("painter"));
    let refused = agent_of_next(&mut lab, "read").unwrap_err();
    assert!(
        refused.contains("private"),
        "not another one for a skill: {refused}"
    );
    let refused = agent_of_next(&mut lab, "fly").unwrap_err();
    assert!(refused.contains("there are: painter"), "{refused}");
    lab.register_as("potter", &["turn"], RegistrationAccess::AsBefore);
    let refused = agent_of_next(&mut lab, "").unwrap_err();
    assert!(
        refused.contains("there are: painter, potter") && !refused.contains("vault"),
        "{refused}"
    );
    // The first one is gone.
    let mut gone = TestCluster::with_nodes(2, &limits());
    gone.register_as("first", &["go"], RegistrationAccess::AsBefore);
    gone.register_as("vault", &["read"], PRIVATE);
    gone.register_as("painter", &["paint"], RegistrationAccess::AsBefore);
    let (one, there) = (gone.id(A), gone.id(B));
    gone.join(A, there);
    gone.join(B, one);
    gone.call(B, |core, now| core.remove_agent(now, "first")).unwrap();
    let id = gone.send(A, there, SendTask::default()).unwrap().id;
    let agent = gone.nodes[B].core.task(&id).unwrap().agent.clone();
    assert_eq!(agent.as_deref(), Some("painter"));

    trust(&mut lab, A, "vault", "");
    assert_eq!(agent_of_next(&mut lab, "").as_deref(), Ok("vault"));
    // A stranger of a gateway.
    let of_stranger = |lab: &mut TestCluster, agent: &str, skill: &str| {
        let request = SendTask {
            target_agent: agent.to_owned(),
            skill: skill.to_owned(),
            metadata: [("gateway.stranger".to_owned(), "true".to_owned())].into(),
            ..SendTask::default()
        };
        let sent = lab.send(B, b, request).map_err(|error| error.to_string());
        sent.map(|task| {
            task.agent
                .clone()
                .map_or_else(|| "vault".to_owned(), |name| name.to_string())
        })
    };
    for (agent, skill) in [("", ""), ("nobody", ""), ("", "fly")] {
        let refused = of_stranger(&mut lab, agent, skill).unwrap_err();
        assert!(
            refused.contains("there are: painter, potter") && !refused.contains("vault"),
            "{agent} {skill}: {refused}"
        );
    }
    lab.call(B, |core, now| {
        core.set_agent_access(now, "potter", AgentAccess::Private)
    })
    .unwrap();
    assert_eq!(of_stranger(&mut lab, "", "").as_deref(), Ok("painter"));
    lab.call(B, |core, now| {
        core.set_agent_access(now, "painter", AgentAccess::Private)
    })
    .unwrap();
    for (agent, skill) in [("", ""), ("", "read"), ("nobody", ""), ("", "fly")] {
        let refused = of_stranger(&mut lab, agent, skill).unwrap_err();
        assert!(
            !["vault", "painter", "potter"]
                .iter()
                .any(|name| refused.contains(name)),
            "{agent} {skill}: {refused}"
        );
    }
}

#[test]
fn who_was_refused_can_be_let_in_by_a_word() {
    let mut lab = lab();
    for _ in 0..2 {
        asks(&mut lab, A, "vault", "read");
    }
    asks(&mut lab, C, "", "write");
    let now = lab.now;
    let requests = lab.nodes[B].core.admission().access_requests(now);
    let seen: Vec<(PeerId, &str, &str, u32)> = requests
        .iter()
        .map(|one| (one.peer, one.agent.as_str(), one.skill.as_str(), one.tasks))
        .collect();
    let (a, c) = (lab.id(A), lab.id(C));
    assert_eq!(seen.len(), 2);
    assert!(seen.contains(&(a, "vault", "read", 2)) && seen.contains(&(c, "vault", "write", 1)));
    lab.restart(B);
    let b = lab.id(B);
    lab.join(B, a);
    lab.join(A, b);
    let now = lab.now;
    assert_eq!(lab.nodes[B].core.admission().access_requests(now), requests);
    let id = requests.iter().find(|one| one.peer == a).unwrap().id.clone();
    let other = lab.call(B, |core, now| core.trust_request(now, &id, scope("painter", "")));
    assert!(other.is_err());
    let entry = lab
        .call(B, |core, now| core.trust_request(now, &id, scope("", "")))
        .unwrap();
    assert_eq!((entry.peer, entry.agent.as_str()), (a, "vault"));
    assert!(is_let_in(&mut lab, A, "vault", "write"));
    let now = lab.now;
    assert_eq!(lab.nodes[B].core.admission().access_requests(now).len(), 1);
    assert!(
        lab.call(B, |core, now| core.trust_request(now, &id, scope("", "")))
            .is_err()
    );
}

#[test]
fn trust_goes_with_the_key() {
    let mut lab = lab();
    let (old, new) = (peer(71), peer(72));
    lab.call(B, |core, now| core.trust_peer(now, old, scope("vault", "")))
        .unwrap();
    let sends = |lab: &mut TestCluster, from: PeerId, id: &str| {
        lab.join(B, from);
        let payload = Payload::SendTask(SendTaskPayload {
            task_id: id.to_owned(),
            message: Some(text("m", "x")),
            target_agent: "vault".to_owned(),
            ..SendTaskPayload::default()
        });
        lab.receive(B, from, payload);
        lab.nodes[B].core.task(id).is_ok()
    };
    assert!(sends(&mut lab, old, "one") && !sends(&mut lab, new, "two"));
    lab.call(B, |core, now| {
        let attributes = PeerAttributes {
            former: vec![old],
            ..PeerAttributes::default()
        };
        Ok(core.set_peer_attributes(now, new, attributes)?)
    })
    .unwrap();
    assert!(sends(&mut lab, new, "three") && !sends(&mut lab, old, "four"));
    let trusted = lab.nodes[B].core.admission().trusted_peers();
    assert_eq!(trusted.iter().map(|one| one.peer).collect::<Vec<_>>(), [new]);
}

#[test]
fn the_owners_word_stays_and_cards_change_no_access() {
    let mut lab = lab();
    lab.serve_card(5, &process("p"), "vault", &["read"]);
    assert!(!is_let_in(&mut lab, A, "vault", ""), "a card changes no access");
    lab.call(B, |core, now| {
        core.set_agent_access(now, "painter", AgentAccess::Private)
    })
    .unwrap();
    assert!(!is_let_in(&mut lab, A, "painter", ""));
    assert_eq!(shown(&mut lab, A), []);
    assert_eq!(lab.nodes[B].core.shown_card().public, None);
    lab.restart(B);
    lab.register_as("painter", &["paint"], RegistrationAccess::Is(AgentAccess::Open));
    let (a, b) = (lab.id(A), lab.id(B));
    lab.join(B, a);
    lab.join(A, b);
    assert!(!is_let_in(&mut lab, A, "painter", ""), "the owner has said so");
    lab.call(B, |core, now| {
        core.set_agent_access(now, "painter", AgentAccess::Open)
    })
    .unwrap();
    assert!(is_let_in(&mut lab, A, "painter", ""));
    assert!(
        lab.call(B, |core, now| core.set_agent_access(
            now,
            "nobody",
            AgentAccess::Open
        ))
        .is_err()
    );
}

#[test]
fn a_caller_that_nobody_knows_is_a_stranger() {
    let mut lab = lab();
    let me = lab.id(B);
    let request = |mark: Option<&str>| {
        let caller = ("gateway.caller".to_owned(), "a2a:someone".to_owned());
        let mark = mark.map(|mark| ("gateway.stranger".to_owned(), mark.to_owned()));
        SendTask {
            target_agent: "vault".to_owned(),
            metadata: mark.into_iter().chain([caller]).collect(),
            ..SendTask::default()
        }
    };
    lab.send(B, me, request(None)).unwrap();
    for mark in ["true", "yes"] {
        let refused = lab.send(B, me, request(Some(mark))).unwrap_err();
        assert!(
            refused.to_string().contains("agent vault is private"),
            "{refused}"
        );
    }
    let now = lab.now;
    assert!(
        lab.nodes[B].core.admission().access_requests(now).is_empty(),
        "there is nobody to let in"
    );
}
