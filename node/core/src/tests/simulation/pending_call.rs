//! What a call was about, for when its answer comes; and what has still to be noticed.

/// Who waits for the answer to a call, and for what.
#[derive(Clone, Debug)]
pub(super) enum PendingCall {
    Send {
        errand: usize,
    },
    Look {
        errand: usize,
    },
    Subscribe {
        errand: usize,
    },
    Answer {
        errand: usize,
    },
    Cancel {
        errand: usize,
    },
    Step(super::agent::StepCall),
    Check {
        agent: usize,
        life: u64,
        task: String,
    },
    StreamKept {
        agent: usize,
        life: u64,
        task: String,
    },
    EndKept {
        key: (String, String),
        peer: usize,
        envelope: String,
    },
    Nobody,
}

/// What an agent's connection leaves to be noticed when it goes.
#[derive(Clone, Copy)]
pub(super) enum AgentNotice {
    Gone(u64),
    /// It only stops listening, or is taken to.
    Detach(u64),
    /// It is dead.
    End(u64),
}
