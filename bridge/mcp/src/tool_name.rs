//! The names of the tools. PURE.

/// What there is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolName {
    /// Find agents by skill.
    DiscoverAgents,
    /// List all agents.
    ListAgents,
    /// List their skills.
    ListSkills,
    /// What an agent says of itself.
    GetAgentCard,
    /// Begin a task.
    AskAgent,
    /// Look at a task.
    GetTask,
    /// Answer a question.
    ReplyToTask,
    /// End a task.
    CancelTask,
    /// The caller's tasks.
    ListTasks,
}

impl ToolName {
    /// All of them, in the order in which clients list them.
    /// New ones come last: what was found by fuzzing names a tool by its place.
    pub(crate) const ALL: [Self; 9] = [
        Self::DiscoverAgents,
        Self::GetAgentCard,
        Self::AskAgent,
        Self::GetTask,
        Self::ReplyToTask,
        Self::CancelTask,
        Self::ListTasks,
        Self::ListAgents,
        Self::ListSkills,
    ];

    /// The tool of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DiscoverAgents => "discover_agents",
            Self::ListAgents => "list_agents",
            Self::ListSkills => "list_skills",
            Self::GetAgentCard => "get_agent_card",
            Self::AskAgent => "ask_agent",
            Self::GetTask => "get_task",
            Self::ReplyToTask => "reply_to_task",
            Self::CancelTask => "cancel_task",
            Self::ListTasks => "list_tasks",
        }
    }

    /// Whether its arguments hold a message, which may be large.
    pub(crate) fn takes_message(self) -> bool {
        matches!(self, Self::AskAgent | Self::ReplyToTask)
    }
}
