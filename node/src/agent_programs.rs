//! What serves the agents of this node: an entry for each stream of tasks that is open, for each program that takes no tasks for a
//! while and says so, and for each agent of the daemon's own configuration that cannot be served at the moment.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use agentanycast_gateway::composition::{AgentReports, FailureText};
use agentanycast_proto::v1::{AgentProgram, ServingProgram};

/// Longest text of a program that is kept, in bytes.
const MAX_TEXT: usize = 4 << 10;

/// The programs. Clones share one list.
#[derive(Clone, Default)]
pub(crate) struct AgentPrograms {
    state: Arc<Mutex<ProgramList>>,
}

#[derive(Default)]
struct ProgramList {
    next: u64,
    /// By number, so the earliest first.
    listening: BTreeMap<u64, ServingProgram>,
    /// Programs that take no tasks for a while, by number too.
    unready: BTreeMap<u64, ServingProgram>,
    /// Agents of the configuration that are not served at the moment: they are started, or have failed.
    unserved: BTreeMap<String, ServingProgram>,
    /// Why those of them that failed did, without words of their programs.
    reasons: BTreeMap<String, String>,
}

/// An open stream in the list, until it is dropped.
pub(crate) struct ListeningProgram {
    programs: AgentPrograms,
    number: u64,
}

impl Drop for ListeningProgram {
    fn drop(&mut self) {
        self.programs.state().listening.remove(&self.number);
    }
}

/// A program in the list that takes no tasks, until it is dropped.
pub(crate) struct UnreadyProgram {
    programs: AgentPrograms,
    number: u64,
}

impl Drop for UnreadyProgram {
    fn drop(&mut self) {
        self.programs.state().unready.remove(&self.number);
    }
}

impl ProgramList {
    fn next_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }
}

impl AgentPrograms {
    // Each change is one insertion or removal.
    fn state(&self) -> MutexGuard<'_, ProgramList> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream of tasks of this agent is open.
    pub(crate) fn listens(
        &self,
        agent: &str,
        program: Option<AgentProgram>,
        in_daemon: bool,
    ) -> ListeningProgram {
        let mut state = self.state();
        let number = state.next_number();
        let entry = ServingProgram {
            agent: agent.to_owned(),
            program: program.map(bounded),
            in_daemon,
            since: Some(SystemTime::now().into()),
            ..ServingProgram::default()
        };
        state.listening.insert(number, entry);
        ListeningProgram {
            programs: self.clone(),
            number,
        }
    }

    /// A program that serves this agent takes no tasks for this reason.
    pub(crate) fn unready(
        &self,
        agent: String,
        program: Option<AgentProgram>,
        reason: String,
    ) -> UnreadyProgram {
        let mut state = self.state();
        let number = state.next_number();
        let entry = ServingProgram {
            agent: shortened(agent),
            program: program.map(bounded),
            since: Some(SystemTime::now().into()),
            error: shortened(reason),
            unready: true,
            ..ServingProgram::default()
        };
        state.unready.insert(number, entry);
        UnreadyProgram {
            programs: self.clone(),
            number,
        }
    }

    /// What does not work as the configuration says, a line each.
    pub(crate) fn problems(&self) -> Vec<String> {
        let state = self.state();
        let is_unready = |entry: &&ServingProgram| entry.unready;
        let own = state.unserved.values().filter(is_unready);
        let unready = state.unready.values().chain(own).map(|entry| {
            format!(
                "a program of the agent {} takes no tasks for now: {}",
                entry.agent, entry.error
            )
        });
        let failed = state.unserved.values();
        let failed = failed.filter(|entry| !entry.error.is_empty() && !entry.unready);
        let failed = failed
            .map(|entry| {
                let reason = state.reasons.get(&entry.agent).map_or("", String::as_str);
                format!(
                    "the agent {} of the settings cannot be served, and is tried again: {reason}; `anycast ps` shows all of it",
                    entry.agent
                )
            });
        failed.chain(unready).collect()
    }

    /// All of them, by agent.
    pub(crate) fn list(&self) -> Vec<ServingProgram> {
        let state = self.state();
        let mut programs: Vec<_> = state.listening.values().cloned().collect();
        programs.extend(state.unready.values().cloned());
        programs.extend(state.unserved.values().cloned());
        programs.sort_by(|one, other| one.agent.cmp(&other.agent));
        programs
    }
}

impl AgentReports for AgentPrograms {
    fn starting(&self, agent: &str, program: AgentProgram) {
        let entry = ServingProgram {
            starting: true,
            ..unserved(agent, program)
        };
        self.state().unserved.insert(agent.to_owned(), entry);
    }

    fn failed(&self, agent: &str, program: AgentProgram, why: FailureText, pause: Duration) {
        let entry = ServingProgram {
            error: shortened(why.whole),
            next_start: Some((SystemTime::now() + pause).into()),
            ..unserved(agent, program)
        };
        let mut state = self.state();
        state.unserved.insert(agent.to_owned(), entry);
        state.reasons.insert(agent.to_owned(), shortened(why.for_log));
    }

    fn unready(&self, agent: &str, program: AgentProgram, reason: &str) {
        let entry = ServingProgram {
            error: shortened(reason.to_owned()),
            unready: true,
            ..unserved(agent, program)
        };
        self.state().unserved.insert(agent.to_owned(), entry);
    }

    fn serving(&self, agent: &str) {
        let mut state = self.state();
        state.unserved.remove(agent);
        state.reasons.remove(agent);
    }
}

fn unserved(agent: &str, program: AgentProgram) -> ServingProgram {
    ServingProgram {
        agent: agent.to_owned(),
        program: Some(bounded(program)),
        in_daemon: true,
        since: Some(SystemTime::now().into()),
        ..ServingProgram::default()
    }
}

fn bounded(program: AgentProgram) -> AgentProgram {
    AgentProgram {
        kind: shortened(program.kind),
        command: shortened(program.command),
        ..program
    }
}

fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_listed_while_its_stream_is_open() {
        let programs = AgentPrograms::default();
        let program = AgentProgram {
            kind: "program".to_owned(),
            command: "ä".repeat(MAX_TEXT),
            pid: 7,
        };
        let first = programs.listens("b", Some(program), false);
        let second = programs.listens("a", None, false);
        let names = || {
            programs
                .list()
                .into_iter()
                .map(|entry| entry.agent)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(), ["a", "b"]);
        let listed = programs.list().remove(1);
        assert!(listed.program.unwrap().command.len() <= MAX_TEXT && listed.since.is_some());
        drop(first);
        assert_eq!(names(), ["a"]);
        drop(second);
        assert!(names().is_empty());
    }

    #[test]
    fn a_program_that_takes_no_tasks_is_listed_while_it_says_so() {
        let programs = AgentPrograms::default();
        let program = AgentProgram {
            pid: 7,
            ..AgentProgram::default()
        };
        let report = programs.unready("a".to_owned(), Some(program), "no room".to_owned());
        let listed = programs.list().remove(0);
        assert!(listed.unready && listed.error == "no room" && listed.program.unwrap().pid == 7);
        assert_eq!(
            programs.problems(),
            ["a program of the agent a takes no tasks for now: no room"]
        );
        drop(report);
        assert!(programs.list().is_empty() && programs.problems().is_empty());
    }

    #[test]
    fn an_agent_that_is_not_served_is_listed_until_it_is() {
        let programs = AgentPrograms::default();
        programs.starting("a", AgentProgram::default());
        assert!(programs.list()[0].starting && programs.problems().is_empty());
        let pause = Duration::from_secs(1);
        let why = FailureText {
            whole: "exit code 1: hunter22".to_owned(),
            for_log: "exit code 1".to_owned(),
        };
        programs.failed("a", AgentProgram::default(), why, pause);
        let listed = programs.list();
        assert_eq!(
            (listed.len(), listed[0].error.as_str()),
            (1, "exit code 1: hunter22")
        );
        let problem = programs.problems().remove(0);
        assert!(
            problem.contains("exit code 1") && !problem.contains("hunter22"),
            "{problem}"
        );
        AgentReports::unready(&programs, "a", AgentProgram::default(), "no room");
        assert!(programs.list()[0].unready && programs.problems()[0].contains("no room"));
        programs.serving("a");
        assert!(programs.list().is_empty() && programs.problems().is_empty());
    }
}
