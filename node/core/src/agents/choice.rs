//! Which of a node's agents a task is for. PURE.
//!
//! First the agent that the task names. Else an agent with the skill that it asks for: of those that listen the one with the
//! fewest tasks, then with the fewest failures since its last success; if none of them listens, the one that listened last.
//! Else, by the same order, an agent that had the skill a short time ago. Else no agent, where one was registered by name; a node
//! whose agents came by cards alone gives the task to the primary agent, else to the only one, as it does with a task for no
//! skill. Chosen once: the choice is written with the task.

/// Most names in a refusal.
const MAX_NAMES: usize = 20;

/// What is known of an agent that could be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AgentLoad<'a> {
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

/// Of agents with a skill, the one that gets the next task for it. Equal ones: the first by name.
pub(super) fn choose_for_skill<'a>(agents: impl Iterator<Item = AgentLoad<'a>>) -> Option<&'a str> {
    let least = agents.min_by(|one, other| (one.rank(), one.name).cmp(&(other.rank(), other.name)));
    least.map(|agent| agent.name)
}

/// Says that there is no such agent; `names` are those that there are.
pub(super) fn no_such_agent<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let shown = &name[..name.floor_char_boundary(64)];
    format!("no agent {shown:?} here; {}", there_are(names))
}

/// Says that no agent here has the skill of a task; `names` are those that there are.
pub(super) fn no_agent_with_skill<'a>(skill: &str, names: impl Iterator<Item = &'a str>) -> String {
    let shown = &skill[..skill.floor_char_boundary(64)];
    format!("no agent here has the skill {shown:?}; {}", there_are(names))
}

/// Says that a task has to name its agent.
pub(super) fn agent_not_named<'a>(names: impl Iterator<Item = &'a str>) -> String {
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
