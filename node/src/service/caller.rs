//! Who makes a call, as far as its face knows.

use agentanycast_core::CallerKey;
use agentanycast_proto::v1::AgentProgram;

/// Who makes a call.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its connection, by which the engine tells who claimed a task; 0: none that claims.
    pub(crate) connection: u64,
    /// What it is to the cards of this node.
    pub(crate) key: CallerKey,
    /// Its process id; 0: not known.
    pub(crate) pid: u32,
    /// It is this process.
    pub(crate) is_in_process: bool,
    /// The largest answer that it takes, in bytes. What is larger is listed by reference.
    pub(crate) max_answer: usize,
}

impl Caller {
    /// What it tells of its program, with the process id that the system knows where it tells none.
    pub(super) fn program(&self, told: Option<AgentProgram>) -> Option<AgentProgram> {
        let mut program = told.or_else(|| (self.pid != 0).then(AgentProgram::default))?;
        if program.pid == 0 {
            program.pid = self.pid;
        }
        Some(program)
    }
}
