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
    types::{CallerKey, RegistrationAccess},
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

pub(super) fn process(name: &str) -> CallerKey {
    CallerKey::Process(Arc::from(name))
}

impl TestCluster {
    fn register(&mut self, name: &str, skills: &[&str]) -> Arc<str> {
        self.register_as(name, skills, RegistrationAccess::AsBefore)
    }

    pub(super) fn register_as(
        &mut self,
        name: &str,
        skills: &[&str],
        access: RegistrationAccess,
    ) -> Arc<str> {
        let registered = self.call(B, |core, now| {
            core.register_agent(now, name, card(name, skills), false, access)
        });
        registered.unwrap().name
    }

    /// Listener and connection `id` listens for this agent.
    pub(super) fn listen_for(&mut self, id: u64, agent: &str) -> Result<(), EngineError> {
        let request = ListenRequest {
            agent: agent.to_owned(),
            ..ListenRequest::on_connection(id)
        };
        self.call(B, |core, now| core.listen(now, id, &request).map(drop))
    }

    /// A deployed SDK's program: it sets a card and listens, on this connection.
    pub(super) fn serve_card(&mut self, id: u64, caller: &CallerKey, name: &str, skills: &[&str]) {
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
        self.call(B, |core, now| core.listen(now, id, &request).map(drop))
            .unwrap();
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
    let (named, by_skill, other) = (lab.ask("painter", ""), lab.ask("", "paint"), lab.ask("", ""));
    assert_eq!(lab.handed_to(&named), [2]);
    assert_eq!(lab.handed_to(&by_skill), [2]);
    // It is for no skill: it is the primary agent's, which was registered first.
    assert_eq!(lab.handed_to(&other), [1]);
    // No agent sings, nor did one before.
    let sung = lab.ask("", "sing");
    assert_eq!(lab.status(A, &sung), Status::Rejected);
    assert_eq!(
        lab.reason(A, &sung),
        "no agent here has the skill \"sing\"; there are: painter, translator"
    );
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

/// A device that has just connected again, and is asked for its tools.
#[test]
fn a_task_for_a_skill_that_an_agent_had_waits_for_that_agent() {
    let mut lab = TestCluster::pair();
    lab.register("other", &["talk"]);
    lab.register("device", &["command", "hello"]);
    lab.listen_for(1, "other").unwrap();
    lab.listen_for(2, "device").unwrap();
    lab.register("device", &["command"]);
    let (early, late, named) = (
        lab.ask("", "hello"),
        lab.ask("", "hello"),
        lab.ask("device", "hello"),
    );
    assert_eq!(lab.view(B, &early).agent.as_deref(), Some("device"));
    assert!(lab.handed_to(&early).is_empty());
    assert_eq!(lab.handed_to(&named), [2], "it names its agent");
    // From its own node too.
    let to = lab.id(B);
    let own = SendTask {
        skill: "hello".to_owned(),
        ..SendTask::default()
    };
    assert_eq!(
        lab.nodes[B].core.local_agents_with("hello", None, false),
        Some(false)
    );
    let own = lab.send(B, to, own).unwrap().id;
    assert!(lab.handed_to(&own).is_empty());
    // It waits over a restart, and may be canceled meanwhile.
    lab.restart(B);
    lab.connect();
    lab.call(A, |core, now| core.cancel(now, &late)).unwrap();
    lab.listen_for(3, "other").unwrap();
    lab.listen_for(4, "device").unwrap();
    lab.call(B, |core, now| core.credit(now, 4, 64)).unwrap();
    lab.advance(Duration::from_mins(2));
    assert!(lab.handed_to(&early).is_empty() && lab.handed_to(&own).is_empty());
    lab.register("device", &["command", "hello"]);
    assert_eq!(lab.handed_to(&early), [4]);
    assert_eq!(lab.handed_to(&own), [4]);
    assert!(lab.handed_to(&late).is_empty());
    lab.complete(B, &early, "done").unwrap();
    assert_eq!(lab.status(A, &early), Status::Completed);
}

#[test]
fn a_task_for_a_skill_that_does_not_come_back_is_refused() {
    let mut lab = TestCluster::pair();
    lab.register("other", &["talk"]);
    lab.register("device", &["hello"]);
    lab.listen_for(1, "other").unwrap();
    lab.listen_for(2, "device").unwrap();
    lab.register("device", &[]);
    lab.advance(Duration::from_mins(1));
    let task = lab.ask("", "hello");
    lab.advance(Duration::from_mins(3));
    assert_eq!(lab.status(A, &task), Status::Submitted);
    lab.advance(Duration::from_mins(2));
    assert_eq!(lab.status(A, &task), Status::Rejected);
    assert_eq!(
        lab.reason(A, &task),
        "agent device had the skill hello and has not listed it again for 300 s"
    );
    assert!(lab.handed_to(&task).is_empty());
    // Now no agent had it a short time ago.
    let later = lab.ask("", "hello");
    assert!(lab.reason(A, &later).contains("no agent here has the skill"));
    assert_eq!(lab.nodes[B].core.local_agents_with("hello", None, false), None);
}

/// Its program sets a card that says less than it can do, as the deployed command does.
#[test]
fn a_lone_agent_by_card_gets_tasks_for_every_skill() {
    let mut lab = TestCluster::pair();
    lab.serve_card(1, &process("p1"), "Only", &["dig"]);
    lab.call(B, |core, now| {
        core.set_card_of(now, process("p1"), 1, card("Only", &[]))
    })
    .unwrap();
    for skill in ["dig", "sing"] {
        let task = lab.ask("", skill);
        assert_eq!(lab.handed_to(&task), [1], "{skill}");
    }
    // Two of them: what one had waits for that one, the rest is the primary's, as with deployed daemons.
    lab.serve_card(2, &process("p2"), "Second", &["cook"]);
    lab.call(B, |core, now| {
        core.set_card_of(now, process("p2"), 2, card("Second", &[]))
    })
    .unwrap();
    let (sung, cooked) = (lab.ask("", "sing"), lab.ask("", "cook"));
    assert_eq!(lab.handed_to(&sung), [1]);
    assert!(lab.handed_to(&cooked).is_empty());
    lab.call(B, |core, now| {
        core.set_card_of(now, process("p2"), 2, card("Second", &["cook"]))
    })
    .unwrap();
    assert_eq!(lab.handed_to(&cooked), [2]);
}

#[test]
fn skills_that_are_not_known_yet_stay_on_the_card() {
    let mut lab = TestCluster::pair();
    lab.register("device", &["command", "hello"]);
    let register = |lab: &mut TestCluster, skills: &[&str], keeps| {
        let card = card("device", skills);
        lab.call(B, |core, now| {
            core.register_agent(now, "device", card, keeps, RegistrationAccess::AsBefore)
        })
        .unwrap();
        let card = lab.nodes[B].core.node_card().unwrap();
        card.skills
            .iter()
            .map(|skill| skill.id.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(register(&mut lab, &["command"], true), ["command", "hello"]);
    lab.restart(B);
    assert_eq!(register(&mut lab, &["more"], true), ["more", "command", "hello"]);
    assert_eq!(register(&mut lab, &["command"], false), ["command"]);
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
    assert_eq!(lab.nodes[B].core.node_card().unwrap().name, "CLI Client");
    lab.serve_card(1, &process("p1"), "Translator", &["translate"]);
    lab.serve_card(2, &process("p2"), "Painter", &["paint"]);
    assert_eq!(lab.names(), ["translator", "painter"]);
    // Another asker beside them changes nothing.
    lab.call(B, |core, now| {
        core.set_card_of(now, process("cli2"), 8, card("CLI Status", &[]))
    })
    .unwrap();
    assert_eq!(lab.names(), ["translator", "painter"]);
    let node = lab.nodes[B].core.node_card().unwrap();
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
    assert_eq!(
        lab.nodes[B].core.local_agents_with("dig", Some(1), false),
        Some(true)
    );
    assert_eq!(lab.nodes[B].core.local_agents_with("sing", None, false), None);
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
    /// Minutes pass.
    Wait(u64),
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
        1 => (1..7_u64).prop_map(Step::Wait),
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
    /// When it lost skills that it does not have.
    lost: BTreeMap<u8, u64>,
}

/// A task in the model.
#[derive(Clone, Debug)]
struct ModelTask {
    id: String,
    owner: Option<usize>,
    /// The skill that its agent had and that it waits for.
    awaits: Option<u8>,
}

/// How long agents that had a skill are waited for, in milliseconds.
const GRACE: u64 = 300_000;

/// The rules as a table.
#[derive(Default)]
struct Model {
    agents: BTreeMap<usize, ModelAgent>,
    primary: Option<usize>,
}

impl Model {
    /// Whose a task is: Err: nobody's; None: the only queue of a node without agents. And whether it waits for its skill.
    fn choose(
        &self,
        target: Option<usize>,
        skill: Option<u8>,
        now: u64,
    ) -> Result<(Option<usize>, bool), ()> {
        let has = |agent: &ModelAgent| skill.is_some_and(|skill| agent.skills >> skill & 1 == 1);
        let had = |agent: &ModelAgent| {
            let lost = skill.and_then(|skill| agent.lost.get(&skill));
            lost.is_some_and(|lost| now - lost <= GRACE)
        };
        if let Some(target) = target {
            let is_there = self.agents.contains_key(&target);
            return is_there.then_some((Some(target), false)).ok_or(());
        }
        if self.agents.is_empty() {
            return Ok((None, false));
        }
        if let Some(able) = self.least_busy(has) {
            return Ok((Some(able), false));
        }
        if let Some(former) = self.least_busy(had) {
            return Ok((Some(former), true));
        }
        match (skill, self.primary, self.agents.len()) {
            (None, Some(primary), _) => Ok((Some(primary), false)),
            (None, None, 1) => Ok((self.agents.keys().next().copied(), false)),
            _ => Err(()),
        }
    }

    /// Of the agents that fit, the one that gets the next task.
    fn least_busy(&self, fits: impl Fn(&ModelAgent) -> bool) -> Option<usize> {
        let able: Vec<(usize, &ModelAgent)> = self
            .agents
            .iter()
            .filter(|(_, agent)| fits(agent))
            .map(|(at, agent)| (*at, agent))
            .collect();
        let here = able.iter().filter(|(_, agent)| agent.listener.is_some());
        if let Some((at, _)) = here.min_by_key(|(at, agent)| (agent.open, *at)) {
            return Some(*at);
        }
        let latest = able.iter();
        let latest = latest.max_by_key(|(at, agent)| (agent.last, std::cmp::Reverse(*at)));
        latest.map(|(at, _)| *at)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tasks_go_by_the_table(steps in vec(step(), 1..60)) {
        let mut lab = TestCluster::pair();
        let mut model = Model::default();
        let mut open: Vec<ModelTask> = Vec::new();
        let mut next = 100;
        for step in steps {
            lab.advance(Duration::from_millis(100));
            for listener in model.agents.values().filter_map(|agent| agent.listener) {
                lab.call(B, |core, now| core.credit(now, listener, 64)).unwrap();
            }
            let now = lab.now.unix;
            match step {
                Step::Register(at, skills) => {
                    let named: Vec<&str> =
                        (0..3).filter(|skill| skills >> skill & 1 == 1).map(|skill| SKILLS[skill]).collect();
                    lab.register(NAMES[at], &named);
                    if model.agents.is_empty() {
                        model.primary = Some(at);
                        // What came before is the primary's.
                        let before = open.iter_mut().filter(|task| task.owner.is_none());
                        let count = before.map(|task| task.owner = Some(at)).count();
                        model.agents.entry(at).or_default().open = count;
                    }
                    let agent = model.agents.entry(at).or_default();
                    for skill in 0..3 {
                        match (agent.skills >> skill & 1, skills >> skill & 1) {
                            (1, 0) => drop(agent.lost.insert(skill, now)),
                            (_, 1) => drop(agent.lost.remove(&skill)),
                            _ => {}
                        }
                    }
                    agent.skills = skills;
                    let listener = agent.listener;
                    for task in open.iter_mut().filter(|task| task.owner == Some(at)) {
                        if task.awaits.is_some_and(|skill| skills >> skill & 1 == 1) {
                            task.awaits = None;
                            prop_assert_eq!(lab.handed_to(&task.id), Vec::from_iter(listener));
                        }
                    }
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
                            for task in open.extract_if(.., |task| task.owner == Some(at)) {
                                prop_assert_eq!(lab.status(A, &task.id), Status::Failed);
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
                    // Until then it has one.
                    lab.advance(Duration::from_millis(100));
                    for task in open.iter().filter(|task| task.owner == Some(at)) {
                        let is_handed = lab.handed_to(&task.id).contains(&next);
                        prop_assert_eq!(is_handed, task.awaits.is_none());
                    }
                }
                Step::Leave(at) => {
                    let Some(agent) = model.agents.get_mut(&at) else { continue };
                    let Some(listener) = agent.listener.take() else { continue };
                    agent.last = now;
                    lab.call(B, |core, now| core.detach(now, listener)).unwrap();
                }
                Step::Send(target, skill) => {
                    let chosen = model.choose(target, skill, now);
                    let id = skill.map_or("", |skill| SKILLS[usize::from(skill)]);
                    let task = lab.ask(target.map_or("", |target| NAMES[target]), id);
                    let Ok((owner, awaits)) = chosen else {
                        prop_assert_eq!(lab.status(A, &task), Status::Rejected);
                        continue;
                    };
                    let written = owner.filter(|owner| model.primary != Some(*owner));
                    let agent = lab.view(B, &task).agent;
                    prop_assert_eq!(agent.as_deref(), written.map(|owner| NAMES[owner]));
                    let listener = owner.and_then(|owner| model.agents[&owner].listener);
                    let listener = listener.filter(|_| !awaits);
                    prop_assert_eq!(lab.handed_to(&task), Vec::from_iter(listener));
                    if let Some(agent) = owner.and_then(|owner| model.agents.get_mut(&owner)) {
                        agent.open += 1;
                    }
                    let awaits = skill.filter(|_| awaits);
                    open.push(ModelTask { id: task, owner, awaits });
                }
                Step::Finish(which) => {
                    if open.is_empty() {
                        continue;
                    }
                    let task = open.remove(which % open.len());
                    lab.complete(B, &task.id, "done").unwrap();
                    if let Some(agent) = task.owner.and_then(|owner| model.agents.get_mut(&owner)) {
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
                // And until the node has looked after that.
                Step::Wait(minutes) => lab.advance(Duration::from_mins(minutes) + Duration::from_secs(2)),
            }
            let now = lab.now.unix;
            let is_overdue = |task: &mut ModelTask| {
                let lost = task.owner.and_then(|owner| model.agents[&owner].lost.get(&task.awaits?));
                lost.is_some_and(|lost| now - lost > GRACE)
            };
            let refused: Vec<ModelTask> = open.extract_if(.., is_overdue).collect();
            for task in refused {
                prop_assert_eq!(lab.status(A, &task.id), Status::Rejected);
                let owner = task.owner.and_then(|owner| model.agents.get_mut(&owner));
                owner.unwrap().open -= 1;
            }
        }
    }
}
