//! Several agents on one node: whose a task is, who is handed it, and what becomes of it when agents come, go, are renamed or
//! removed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_proto::v1::{AgentCard, Skill};
use proptest::{collection::vec, prelude::*};

use super::{
    cluster::{A, B, TestCluster},
    harness::artifact,
};
use crate::{
    SendTask,
    coordinator::{CardUse, ListenRequest},
    task::Status,
    transaction::{EngineError, ListenerId},
    types::CallerKey,
};

fn card(name: &str, skills: &[&str]) -> AgentCard {
    let skill = |id: &&str| Skill {
        id: (*id).to_owned(),
        ..Skill::default()
    };
    AgentCard {
        name: name.to_owned(),
        skills: skills.iter().map(skill).collect(),
        ..AgentCard::default()
    }
}

fn process(name: &str) -> CallerKey {
    CallerKey::Process(Arc::from(name))
}

impl TestCluster {
    fn register(&mut self, name: &str, skills: &[&str]) -> Arc<str> {
        self.call(B, |core, _| core.register_agent(name, card(name, skills)))
            .unwrap()
    }

    /// Listener and connection `id` listens for this agent.
    fn listen_for(&mut self, id: u64, agent: &str) -> Result<(), EngineError> {
        let request = ListenRequest {
            agent: agent.to_owned(),
            ..ListenRequest::on_connection(id)
        };
        self.call(B, |core, now| core.listen(now, id, &request)).map(drop)
    }

    /// A deployed SDK's program: it sets a card and listens, on this connection.
    fn serve_card(&mut self, id: u64, caller: &CallerKey, name: &str, skills: &[&str]) {
        let card = card(name, skills);
        let caller = caller.clone();
        let request = ListenRequest {
            connection: Some(id),
            caller: caller.clone(),
            agent: String::new(),
            wants_ends: false,
        };
        self.call(B, |core, now| core.set_card_of(now, caller, id, card))
            .unwrap();
        self.call(B, |core, now| core.listen(now, id, &request)).unwrap();
    }

    fn close(&mut self, id: ListenerId) {
        self.call(B, |core, now| {
            core.on_connection_closed(now, id);
            core.agent_ended(now, id, 0)
        })
        .unwrap();
    }

    fn ask(&mut self, target: &str, skill: &str) -> String {
        let request = SendTask {
            target_agent: target.to_owned(),
            skill: skill.to_owned(),
            ..SendTask::default()
        };
        let to = self.id(B);
        self.send(A, to, request).unwrap().id
    }

    /// Which listeners were handed a task.
    fn handed_to(&self, task: &str) -> Vec<ListenerId> {
        let of_task = self
            .incoming
            .iter()
            .filter(|(at, _, handed)| *at == B && handed.id == task);
        of_task.map(|(_, listener, _)| *listener).collect()
    }

    fn names(&mut self) -> Vec<String> {
        let agents = self.nodes[B].core.list_agents();
        agents.iter().map(|agent| agent.name.to_string()).collect()
    }
}

#[test]
fn each_agent_is_handed_its_own_tasks_only() {
    let mut lab = TestCluster::pair();
    lab.register("translator", &["translate"]);
    lab.register("painter", &["paint", "translate"]);
    lab.listen_for(1, "translator").unwrap();
    lab.listen_for(2, "painter").unwrap();
    let (named, by_skill, other) = (lab.ask("painter", ""), lab.ask("", "paint"), lab.ask("", "sing"));
    assert_eq!(lab.handed_to(&named), [2]);
    assert_eq!(lab.handed_to(&by_skill), [2]);
    // Nobody sings: it is the primary agent's, which was registered first.
    assert_eq!(lab.handed_to(&other), [1]);
    // The painter has two tasks already.
    let balanced = lab.ask("", "translate");
    assert_eq!(lab.handed_to(&balanced), [1]);
    assert_eq!(lab.view(B, &named).agent.as_deref(), Some("painter"));
    assert_eq!(lab.view(A, &named).agent.as_deref(), Some("painter"));
    // A caller that listens for one agent reports on its tasks only; everybody else on all.
    let foreign = lab.call(B, |core, now| core.update(now, &named, Status::Working, None, 1));
    assert!(matches!(&foreign, Err(EngineError::Denied(_))), "{foreign:?}");
    assert!(foreign.unwrap_err().to_string().contains("painter"));
    lab.call(B, |core, now| core.update(now, &named, Status::Working, None, 9))
        .unwrap();
    lab.complete(B, &named, "painted").unwrap();
    assert_eq!(lab.status(A, &named), Status::Completed);
}

#[test]
fn a_task_for_an_agent_that_is_not_there_is_rejected_with_the_names() {
    let mut lab = TestCluster::pair();
    let to = lab.id(B);
    lab.register("one", &[]);
    lab.register("two", &[]);
    let lost = lab.ask("three", "");
    assert_eq!(lab.status(A, &lost), Status::Rejected);
    assert_eq!(
        lab.reason(A, &lost),
        "no agent \"three\" here; there are: one, two"
    );
    // Without a primary agent a task has to name one of several.
    lab.call(B, |core, now| core.remove_agent(now, "one")).unwrap();
    lab.register("four", &[]);
    let unnamed = lab.ask("", "");
    assert!(
        lab.reason(A, &unnamed).contains("names no agent"),
        "{}",
        lab.reason(A, &unnamed)
    );
    // The only one is meant.
    lab.call(B, |core, now| core.remove_agent(now, "four")).unwrap();
    let only = lab.ask("", "");
    assert_eq!(lab.view(B, &only).agent.as_deref(), Some("two"));
    // To the own node the caller is told at once.
    let own = SendTask {
        target_agent: "none".to_owned(),
        ..SendTask::default()
    };
    let refused = lab.send(B, to, own).unwrap_err();
    assert!(matches!(refused, EngineError::NotRegistered(_)), "{refused:?}");
}

#[test]
fn tasks_wait_for_their_agent_over_restarts_and_fail_when_it_is_removed() {
    let mut lab = TestCluster::pair();
    lab.register("primary", &[]);
    lab.register("away", &["dig"]);
    lab.listen_for(1, "primary").unwrap();
    let (waiting, other) = (lab.ask("away", ""), lab.ask("", ""));
    assert!(lab.handed_to(&waiting).is_empty());
    lab.restart(B);
    assert_eq!(lab.names(), ["primary", "away"]);
    lab.listen_for(3, "primary").unwrap();
    assert!(lab.handed_to(&waiting).is_empty(), "it is not the primary's");
    assert!(lab.handed_to(&other).contains(&3));
    lab.listen_for(4, "away").unwrap();
    assert_eq!(lab.handed_to(&waiting), [4]);
    let busy = lab.call(B, |core, now| core.remove_agent(now, "away"));
    assert!(matches!(busy, Err(EngineError::Precondition(_))), "{busy:?}");
    lab.close(4);
    lab.connect();
    assert_eq!(
        lab.call(B, |core, now| core.remove_agent(now, "away")).unwrap(),
        1
    );
    assert_eq!(lab.status(A, &waiting), Status::Failed);
    assert_eq!(lab.reason(A, &waiting), "agent away was removed");
    assert_eq!(lab.status(A, &other), Status::Submitted);
    let gone = lab
        .call(B, |core, now| core.remove_agent(now, "away"))
        .unwrap_err();
    assert_eq!(gone.to_string(), "no agent \"away\" here; there are: primary");
}

#[test]
fn programs_of_deployed_sdks_are_agents_when_they_listen() {
    let mut lab = TestCluster::pair();
    // One that only asks is none, and its card is the node's while there is no agent.
    let asked = lab
        .call(B, |core, now| {
            core.set_card_of(now, process("cli"), 9, card("CLI Client", &[]))
        })
        .unwrap();
    assert_eq!(asked, CardUse::Pending);
    assert!(lab.names().is_empty());
    assert_eq!(lab.nodes[B].core.card().unwrap().name, "CLI Client");
    lab.serve_card(1, &process("p1"), "Translator", &["translate"]);
    lab.serve_card(2, &process("p2"), "Painter", &["paint"]);
    assert_eq!(lab.names(), ["translator", "painter"]);
    // Another asker beside them changes nothing.
    lab.call(B, |core, now| {
        core.set_card_of(now, process("cli2"), 8, card("CLI Status", &[]))
    })
    .unwrap();
    assert_eq!(lab.names(), ["translator", "painter"]);
    let node = lab.nodes[B].core.card().unwrap();
    assert_eq!(node.name, "Translator");
    let skills: Vec<&str> = node.skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(skills, ["translate", "paint"]);
    assert_eq!(node.agents.len(), 2);
    let task = lab.ask("", "paint");
    assert_eq!(lab.handed_to(&task), [2]);
    // It reconnects and does not set its card again, also after a restart of the daemon.
    lab.restart(B);
    let again = |id| ListenRequest {
        connection: Some(id),
        caller: process("p2"),
        agent: String::new(),
        wants_ends: false,
    };
    lab.call(B, |core, now| core.listen(now, 12, &again(12))).unwrap();
    assert_eq!(lab.handed_to(&task), [2, 12]);
    // A worker process without a card completes it.
    lab.call(B, |core, now| {
        core.complete(now, &task, vec![artifact("a", "x")], None)
    })
    .unwrap();
    lab.connect();
    assert_eq!(lab.status(A, &task), Status::Completed);
}

#[test]
fn the_only_agent_is_renamed_by_a_program_with_another_card() {
    let mut lab = TestCluster::pair();
    lab.serve_card(1, &process("p1"), "First", &[]);
    lab.close(1);
    let waiting = lab.ask("", "");
    lab.serve_card(2, &process("p2"), "Second", &[]);
    assert_eq!(lab.names(), ["second"]);
    assert_eq!(lab.handed_to(&waiting), [2]);
    // While it listens, another card is another agent.
    lab.serve_card(3, &process("p3"), "Third", &[]);
    assert_eq!(lab.names(), ["second", "third"]);
    let named = lab.ask("third", "");
    // A program that sets another card while it listens renames its agent, with its tasks.
    lab.call(B, |core, now| {
        core.set_card_of(now, process("p3"), 3, card("Fourth", &[]))
    })
    .unwrap();
    assert_eq!(lab.names(), ["second", "fourth"]);
    assert_eq!(lab.view(B, &named).agent.as_deref(), Some("fourth"));
    lab.call(B, |core, now| core.update(now, &named, Status::Working, None, 3))
        .unwrap();
}

#[test]
fn agents_by_card_are_forgotten_when_nobody_listens_for_long() {
    let mut lab = TestCluster::pair();
    lab.serve_card(1, &process("p1"), "First", &[]);
    lab.serve_card(2, &process("p2"), "Second", &[]);
    lab.register("service", &[]);
    lab.close(2);
    let waiting = lab.ask("second", "");
    lab.advance(Duration::from_hours(25));
    assert_eq!(lab.names(), ["first", "second", "service"], "a task waits for it");
    lab.call(A, |core, now| core.cancel(now, &waiting)).unwrap();
    lab.advance(Duration::from_mins(2));
    assert_eq!(
        lab.names(),
        ["first", "service"],
        "one listens, the other was registered by name"
    );
}

#[test]
fn an_agents_own_task_by_skill_goes_to_another_one() {
    let mut lab = TestCluster::pair();
    lab.register("one", &["dig"]);
    lab.register("two", &["dig"]);
    lab.listen_for(1, "one").unwrap();
    lab.listen_for(2, "two").unwrap();
    let to = lab.id(B);
    for _ in 0..3 {
        let request = SendTask {
            skill: "dig".to_owned(),
            sender: Some(1),
            ..SendTask::default()
        };
        let task = lab.send(B, to, request).unwrap();
        assert_eq!(lab.handed_to(&task.id), [2]);
    }
    assert_eq!(lab.nodes[B].core.local_agents_with("dig", Some(1)), Some(true));
    assert_eq!(lab.nodes[B].core.local_agents_with("sing", None), None);
}

#[derive(Clone, Debug)]
enum Step {
    Register(usize, u8),
    Remove(usize),
    Listen(usize),
    Leave(usize),
    Send(Option<usize>, Option<u8>),
    Finish(usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let agent = 0..4_usize;
    prop_oneof![
        3 => (agent.clone(), 0..8_u8).prop_map(|(agent, skills)| Step::Register(agent, skills)),
        1 => agent.clone().prop_map(Step::Remove),
        3 => agent.clone().prop_map(Step::Listen),
        1 => agent.clone().prop_map(Step::Leave),
        6 => (prop::option::weighted(0.3, agent), prop::option::weighted(0.7, 0..3_u8)).prop_map(|(agent, skill)| Step::Send(agent, skill)),
        3 => (0..20_usize).prop_map(Step::Finish),
        1 => Just(Step::Restart),
    ]
}

const NAMES: [&str; 4] = ["ada", "bob", "cyd", "dan"];
const SKILLS: [&str; 3] = ["dig", "sing", "cook"];

/// An agent in the model.
#[derive(Clone, Debug, Default)]
struct ModelAgent {
    skills: u8,
    listener: Option<u64>,
    last: u64,
    open: usize,
}

/// The rules as a table.
#[derive(Default)]
struct Model {
    agents: BTreeMap<usize, ModelAgent>,
    primary: Option<usize>,
}

impl Model {
    /// Whose a task is: Err: nobody's; None: the only queue of a node without agents.
    fn choose(&self, target: Option<usize>, skill: Option<u8>) -> Result<Option<usize>, ()> {
        if let Some(target) = target {
            return self
                .agents
                .contains_key(&target)
                .then_some(Some(target))
                .ok_or(());
        }
        if self.agents.is_empty() {
            return Ok(None);
        }
        let has = |agent: &ModelAgent| skill.is_some_and(|skill| agent.skills >> skill & 1 == 1);
        let able: Vec<(usize, &ModelAgent)> = self
            .agents
            .iter()
            .filter(|(_, agent)| has(agent))
            .map(|(at, agent)| (*at, agent))
            .collect();
        let here = able.iter().filter(|(_, agent)| agent.listener.is_some());
        if let Some((at, _)) = here.min_by_key(|(at, agent)| (agent.open, *at)) {
            return Ok(Some(*at));
        }
        let latest = able
            .iter()
            .max_by_key(|(at, agent)| (agent.last, std::cmp::Reverse(*at)));
        if let Some((at, _)) = latest {
            return Ok(Some(*at));
        }
        match (self.primary, self.agents.len()) {
            (Some(primary), _) => Ok(Some(primary)),
            (None, 1) => Ok(self.agents.keys().next().copied()),
            _ => Err(()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tasks_go_by_the_table(steps in vec(step(), 1..60)) {
        let mut lab = TestCluster::pair();
        let mut model = Model::default();
        let mut open: Vec<(String, Option<usize>)> = Vec::new();
        let mut next = 100;
        for step in steps {
            lab.advance(Duration::from_millis(100));
            let now = lab.now.unix;
            match step {
                Step::Register(at, skills) => {
                    let named: Vec<&str> =
                        (0..3).filter(|skill| skills >> skill & 1 == 1).map(|skill| SKILLS[skill]).collect();
                    lab.register(NAMES[at], &named);
                    if model.agents.is_empty() {
                        model.primary = Some(at);
                        // What came before is the primary's.
                        let before = open.iter_mut().filter(|(_, owner)| owner.is_none());
                        let count = before.map(|(_, owner)| *owner = Some(at)).count();
                        model.agents.entry(at).or_default().open = count;
                    }
                    model.agents.entry(at).or_default().skills = skills;
                }
                Step::Remove(at) => {
                    let removed = lab.call(B, |core, now| core.remove_agent(now, NAMES[at]));
                    match model.agents.get(&at) {
                        None => prop_assert!(removed.is_err()),
                        Some(agent) if agent.listener.is_some() => prop_assert!(removed.is_err()),
                        Some(agent) => {
                            prop_assert_eq!(removed.unwrap(), agent.open);
                            model.agents.remove(&at);
                            model.primary = model.primary.filter(|primary| *primary != at);
                            for (task, _) in open.extract_if(.., |(_, owner)| *owner == Some(at)) {
                                prop_assert_eq!(lab.status(A, &task), Status::Failed);
                            }
                        }
                    }
                }
                Step::Listen(at) => {
                    let Some(agent) = model.agents.get_mut(&at).filter(|agent| agent.listener.is_none()) else {
                        continue;
                    };
                    next += 1;
                    lab.listen_for(next, NAMES[at]).unwrap();
                    (agent.listener, agent.last) = (Some(next), now);
                    for (task, _) in open.iter().filter(|(_, owner)| *owner == Some(at)) {
                        prop_assert!(lab.handed_to(task).contains(&next));
                    }
                }
                Step::Leave(at) => {
                    let Some(agent) = model.agents.get_mut(&at) else { continue };
                    let Some(listener) = agent.listener.take() else { continue };
                    agent.last = now;
                    lab.call(B, |core, now| core.detach(now, listener)).unwrap();
                }
                Step::Send(target, skill) => {
                    let chosen = model.choose(target, skill);
                    let skill = skill.map_or("", |skill| SKILLS[usize::from(skill)]);
                    let task = lab.ask(target.map_or("", |target| NAMES[target]), skill);
                    let Ok(owner) = chosen else {
                        prop_assert_eq!(lab.status(A, &task), Status::Rejected);
                        continue;
                    };
                    let written = owner.filter(|owner| model.primary != Some(*owner));
                    let agent = lab.view(B, &task).agent;
                    prop_assert_eq!(agent.as_deref(), written.map(|owner| NAMES[owner]));
                    let listener = owner.and_then(|owner| model.agents[&owner].listener);
                    prop_assert_eq!(lab.handed_to(&task), Vec::from_iter(listener));
                    if let Some(agent) = owner.and_then(|owner| model.agents.get_mut(&owner)) {
                        agent.open += 1;
                    }
                    open.push((task, owner));
                }
                Step::Finish(which) => {
                    if open.is_empty() {
                        continue;
                    }
                    let (task, owner) = open.remove(which % open.len());
                    lab.complete(B, &task, "done").unwrap();
                    if let Some(agent) = owner.and_then(|owner| model.agents.get_mut(&owner)) {
                        agent.open -= 1;
                    }
                }
                Step::Restart => {
                    lab.restart(B);
                    lab.connect();
                    for agent in model.agents.values_mut() {
                        agent.listener = None;
                    }
                }
            }
        }
    }
}
