//! Which of a node's agents a task is for. PURE.
//!
//! First the agent that the task names. Else an agent with the skill that it asks for: of those that listen the one with the
//! fewest tasks, then with the fewest failures since its last success; if none of them listens, the one that listened last.
//! Else, by the same order, an agent that had the skill a short time ago. Else no agent, where one was registered by name; a node
//! whose agents came by cards alone gives the task to the primary agent, else to the only one, as it does with a task for no
//! skill. Agents that the sender may use come before those that it may not. Chosen once: the choice is written with the task.
//!
//! The engine chooses by this rule, and `anycast policy check` says by it what the engine would choose.

use std::collections::HashSet;

/// Most names in a refusal.
const MAX_NAMES: usize = 20;

/// The agents of a node, as the rule asks about them.
pub trait AgentList {
    /// All names, in order.
    fn names(&self) -> impl Iterator<Item = &str>;
    /// The name, if an agent has it.
    fn registered(&self, name: &str) -> Option<&str>;
    /// The primary agent.
    fn primary(&self) -> Option<&str>;
    /// Whether the agent of this name is private.
    fn is_private(&self, name: &str) -> bool;
    /// Whether an agent was registered by name, not by a card alone.
    fn has_service(&self) -> bool;
    /// The agents with a skill.
    fn with_skill(&self, skill: &str) -> Vec<AgentLoad<'_>>;
    /// The agents that had a skill a short time ago and do not have it now.
    fn lost_skill(&self, skill: &str) -> Vec<AgentLoad<'_>>;
}

/// What is known of an agent that could be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentLoad<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it listens.
    pub is_attached: bool,
    /// Tasks that it has and that have not ended.
    pub open_tasks: usize,
    /// Tasks that failed of late.
    pub failures: u32,
    /// When it began to listen last, in Unix milliseconds.
    pub last_attached: u64,
}

impl AgentLoad<'_> {
    /// The least comes first.
    fn rank(&self) -> (bool, usize, u32, u64) {
        if self.is_attached {
            (false, self.open_tasks, self.failures, 0)
        } else {
            (true, 0, 0, u64::MAX - self.last_attached)
        }
    }
}

/// What a task says of its agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTarget<'a> {
    /// The agent that it names; may be empty.
    pub agent: &'a str,
    /// The skill that it is for; may be empty.
    pub skill: &'a str,
    /// The agent of this node that sends it: never chosen for a skill.
    pub sender: Option<&'a str>,
}

/// The agent that a task is for; `None`: no agent is registered. `usable` says which of some agents the sender may use, and is
/// asked once at most. Where it may use none, the agent is as if it could use all, and refuses the task.
///
/// # Errors
/// Why it is for none of them, with their names.
pub fn choose<'a>(
    agents: &'a impl AgentList,
    task: TaskTarget<'_>,
    usable: impl FnOnce(&[&'a str]) -> Vec<&'a str>,
) -> Result<Option<&'a str>, String> {
    if !task.agent.is_empty() {
        let named = agents.registered(task.agent);
        return named
            .map(Some)
            .ok_or_else(|| no_such_agent(task.agent, agents.names()));
    }
    let mut names = agents.names();
    let (first, second) = (names.next(), names.next());
    if first.is_none() {
        return Ok(None);
    }
    let only = first.filter(|_| second.is_none());
    // The only agent gets every task if it came by a card, as with deployed daemons.
    let takes_all = only.is_some() && !agents.has_service();
    if !task.skill.is_empty() && !takes_all {
        let is_other = |agent: &AgentLoad<'_>| Some(agent.name) != task.sender;
        let mut with = agents.with_skill(task.skill);
        let mut former = agents.lost_skill(task.skill);
        with.retain(is_other);
        former.retain(is_other);
        let all: Vec<&str> = with.iter().chain(&former).map(|agent| agent.name).collect();
        if !all.is_empty() {
            let usable = usable(&all);
            if !usable.is_empty() && usable.len() < all.len() {
                let usable: HashSet<&str> = usable.into_iter().collect();
                with.retain(|agent| usable.contains(agent.name));
                former.retain(|agent| usable.contains(agent.name));
            }
            return Ok(least_busy(&with).or_else(|| least_busy(&former)));
        }
        if agents.has_service() {
            return Err(no_agent_with_skill(task.skill, agents.names()));
        }
    }
    let default = agents.primary().or(only);
    let is_closed = match default {
        Some(name) => agents.is_private(name),
        None => task.skill.is_empty() && agents.names().any(|name| agents.is_private(name)),
    };
    let none = || why_none("", task.skill, agents.names());
    if !is_closed {
        return default.map(Some).ok_or_else(none);
    }
    let all: Vec<&str> = agents.names().collect();
    match (default, usable(&all).as_slice()) {
        (Some(name), []) => Ok(Some(name)),
        (None, []) => Err(none()),
        (Some(name), usable) if usable.contains(&name) => Ok(Some(name)),
        (_, [only]) => Ok(Some(only)),
        (_, several) => Err(agent_not_named(several.iter().copied())),
    }
}

/// Of some agents, the one that gets the next task. Equal ones: the first by name.
fn least_busy<'a>(agents: &[AgentLoad<'a>]) -> Option<&'a str> {
    let least = agents.iter().min_by_key(|agent| (agent.rank(), agent.name));
    least.map(|agent| agent.name)
}

/// Why a task for this agent (empty: for none by name) and skill is for none of these.
pub(crate) fn why_none<'a>(target: &str, skill: &str, names: impl Iterator<Item = &'a str>) -> String {
    match (target, skill) {
        ("", "") => agent_not_named(names),
        ("", _) => no_agent_with_skill(skill, names),
        _ => no_such_agent(target, names),
    }
}

/// Says that there is no such agent; `names` are those that there are.
pub(crate) fn no_such_agent<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let shown = &name[..name.floor_char_boundary(64)];
    format!("no agent {shown:?} here; {}", there_are(names))
}

/// Says that no agent here has the skill of a task; `names` are those that there are.
fn no_agent_with_skill<'a>(skill: &str, names: impl Iterator<Item = &'a str>) -> String {
    let shown = &skill[..skill.floor_char_boundary(64)];
    format!("no agent here has the skill {shown:?}; {}", there_are(names))
}

/// Says that a task has to name its agent.
fn agent_not_named<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!(
        "the task names no agent, and this node has no primary one; {}",
        there_are(names)
    )
}

fn there_are<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.take(MAX_NAMES + 1).collect();
    if names.is_empty() {
        return "none is registered".to_owned();
    }
    let has_more = names.len() > MAX_NAMES;
    names.truncate(MAX_NAMES);
    let more = if has_more { ", and more" } else { "" };
    format!("there are: {}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// An agent in a list: by its place its name is `a`, `b` and so on.
    #[derive(Clone, Debug)]
    struct ListedAgent {
        has_skill: bool,
        had_skill: bool,
        by_card: bool,
        is_private: bool,
        is_usable: bool,
        is_attached: bool,
        open_tasks: usize,
        last_attached: u64,
    }

    #[derive(Clone, Debug)]
    struct List {
        agents: Vec<ListedAgent>,
        primary: Option<usize>,
    }

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];

    impl List {
        fn place(&self, name: &str) -> Option<usize> {
            (0..self.agents.len()).find(|at| NAMES[*at] == name)
        }

        fn loads(&self, fits: impl Fn(&ListedAgent) -> bool) -> Vec<AgentLoad<'_>> {
            let all = self.agents.iter().enumerate().filter(|(_, agent)| fits(agent));
            let load = |(at, agent): (usize, &ListedAgent)| AgentLoad {
                name: NAMES[at],
                is_attached: agent.is_attached,
                open_tasks: agent.open_tasks,
                failures: 0,
                last_attached: agent.last_attached,
            };
            all.map(load).collect()
        }

        /// The places in order of preference: those that listen by their tasks, then the others by when they listened.
        fn in_order(&self) -> Vec<usize> {
            let mut order: Vec<usize> = (0..self.agents.len()).collect();
            order.sort_by_key(|at| {
                let agent = &self.agents[*at];
                let busy = if agent.is_attached { agent.open_tasks } else { 0 };
                let since = if agent.is_attached { 0 } else { agent.last_attached };
                (!agent.is_attached, busy, std::cmp::Reverse(since))
            });
            order
        }

        /// The rule, said once more without regard to what it costs.
        fn model(
            &self,
            target: Option<usize>,
            by_skill: bool,
            sender: Option<usize>,
        ) -> Result<Option<usize>, ()> {
            let (agents, count) = (&self.agents, self.agents.len());
            if let Some(target) = target {
                return if target < count { Ok(Some(target)) } else { Err(()) };
            }
            if count == 0 {
                return Ok(None);
            }
            let has_service = agents.iter().any(|agent| !agent.by_card);
            if by_skill && (count > 1 || has_service) {
                let order = self.in_order();
                let others = || order.iter().copied().filter(|at| Some(*at) != sender);
                let able = || {
                    let with = others().filter(|at| agents[*at].has_skill);
                    with.chain(others().filter(|at| !agents[*at].has_skill && agents[*at].had_skill))
                };
                let chosen = able().find(|at| agents[*at].is_usable).or_else(|| able().next());
                match chosen {
                    Some(chosen) => return Ok(Some(chosen)),
                    None if has_service => return Err(()),
                    None => {}
                }
            }
            let default = self.primary.or((count == 1).then_some(0));
            let is_closed = default.map_or_else(
                || !by_skill && agents.iter().any(|agent| agent.is_private),
                |default| agents[default].is_private,
            );
            let usable: Vec<usize> = (0..count).filter(|at| agents[*at].is_usable).collect();
            match usable[..] {
                _ if !is_closed => default.map(Some).ok_or(()),
                [] => default.map(Some).ok_or(()),
                _ if default.is_some_and(|default| usable.contains(&default)) => Ok(default),
                [only] => Ok(Some(only)),
                _ => Err(()),
            }
        }
    }

    impl AgentList for List {
        fn names(&self) -> impl Iterator<Item = &str> {
            NAMES[..self.agents.len()].iter().copied()
        }

        fn registered(&self, name: &str) -> Option<&str> {
            self.place(name).map(|at| NAMES[at])
        }

        fn primary(&self) -> Option<&str> {
            self.primary.map(|at| NAMES[at])
        }

        fn is_private(&self, name: &str) -> bool {
            self.place(name).is_some_and(|at| self.agents[at].is_private)
        }

        fn has_service(&self) -> bool {
            self.agents.iter().any(|agent| !agent.by_card)
        }

        fn with_skill(&self, _: &str) -> Vec<AgentLoad<'_>> {
            self.loads(|agent| agent.has_skill)
        }

        fn lost_skill(&self, _: &str) -> Vec<AgentLoad<'_>> {
            self.loads(|agent| !agent.has_skill && agent.had_skill)
        }
    }

    fn agent() -> impl Strategy<Value = ListedAgent> {
        let flags = any::<[bool; 6]>();
        (flags, 0..3_usize, 0..3_u64).prop_map(|(flags, open_tasks, last_attached)| ListedAgent {
            has_skill: flags[0],
            had_skill: flags[1],
            by_card: flags[2],
            is_private: flags[3],
            is_usable: flags[4],
            is_attached: flags[5],
            open_tasks,
            last_attached,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn an_agent_is_chosen_as_the_model_says(
            agents in vec(agent(), 0..=4),
            primary in prop::option::of(0..4_usize),
            target in prop::option::weighted(0.1, 0..4_usize),
            by_skill in any::<bool>(),
            sender in prop::option::weighted(0.2, 0..4_usize),
        ) {
            let primary = primary.filter(|at| *at < agents.len());
            let list = List { agents, primary };
            let task = TaskTarget {
                agent: target.map_or("", |at| NAMES[at]),
                skill: if by_skill { "dig" } else { "" },
                sender: sender.map(|at| NAMES[at]),
            };
            let is_usable = |name: &&str| list.place(name).is_some_and(|at| list.agents[at].is_usable);
            let chosen = choose(&list, task, |names| names.iter().copied().filter(is_usable).collect());
            let chosen = chosen.map(|name| name.and_then(|name| list.place(name))).map_err(drop);
            prop_assert_eq!(chosen, list.model(target, by_skill, sender));
        }
    }
}
