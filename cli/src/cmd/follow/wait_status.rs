//! PURE: what a task that has not ended waits for, in a few words for a line that changes.

use std::time::Duration;

use agentanycast::{PeerId, PeerReach, Task, TaskSide, TaskStatus, Trace};

use crate::{
    cmd::trace::{verdict, wording},
    output,
};

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitStatus {
    /// In words.
    pub(super) says: String,
    /// The agent's node has it.
    pub(super) arrived: bool,
    /// An agent works on it.
    pub(super) worked_on: bool,
}

impl WaitStatus {
    /// `whom`: what the user calls who was asked. None: the trace does not show it.
    pub(super) fn from_trace(trace: &Trace, whom: Option<&str>) -> Option<Self> {
        let task = trace.task.as_ref()?;
        let carrier = trace.queued.iter().find(|queued| queued.carries_task);
        let whom = whom.map_or_else(|| short(task.assignee.as_ref()), output::flat);
        let worked_on = task.status != TaskStatus::Submitted;
        let says = match (trace.side, carrier, &trace.peer) {
            (TaskSide::Originator, Some(_), Some(peer)) if !peer.connected => {
                format!("{whom} is not connected{}", reason(peer))
            }
            (TaskSide::Originator, Some(carrier), _) => {
                format!("{whom} is connected: {}", wording::queue_stage(carrier))
            }
            (TaskSide::Originator, None, Some(peer)) if !peer.connected => {
                format!("{whom} has it, and is not connected now{}", reason(peer))
            }
            (TaskSide::Originator, None, _) => with_the_agent(task, &whom),
            _ => verdict::explain(trace).says,
        };
        let arrived = worked_on || (trace.side == TaskSide::Originator && carrier.is_none());
        Some(Self {
            says,
            arrived,
            worked_on,
        })
    }
}

fn with_the_agent(task: &Task, whom: &str) -> String {
    match task.status {
        TaskStatus::Working => format!("an agent at {whom} works on it"),
        TaskStatus::InputRequired => format!("the agent at {whom} waits for an answer"),
        _ => format!("{whom} has it, and no agent there has begun yet"),
    }
}

/// Why a peer is not connected, and when it is tried again.
fn reason(peer: &PeerReach) -> String {
    let why = match (peer.addresses.is_empty(), peer.last_error.as_str()) {
        (true, _) => ": no address known",
        (false, "") => "",
        (false, error) => &format!(": {}", output::brief(error)),
    };
    let next = match peer.next_attempt_in {
        Some(wait) => format!("; next try in {}", seconds(wait)),
        None => String::new(),
    };
    format!("{why}{next}")
}

/// At least one second: what is due now is not there yet.
fn seconds(wait: Duration) -> String {
    wording::span(wait.max(Duration::from_secs(1)))
}

/// The end of a peer id: the part in which they differ.
fn short(peer: Option<&PeerId>) -> String {
    let Some(peer) = peer else {
        return "the agent".to_owned();
    };
    let start = peer.as_str().len().saturating_sub(8);
    format!("…{}", &peer.as_str()[start..])
}

#[cfg(test)]
mod tests {
    use agentanycast::{PathKind, QueueState, QueuedEnvelope};

    use super::*;
    use crate::cmd::trace::tests::{envelope, reach, task, trace};

    fn sent(status: TaskStatus) -> Trace {
        trace(TaskSide::Originator, Some(task(status, "")))
    }

    #[test]
    fn a_peer_that_is_away_is_told_with_the_reason() {
        let mut trace = sent(TaskStatus::Submitted);
        trace.queued = vec![envelope(true, QueueState::Queued)];
        trace.peer = Some(PeerReach {
            addresses: Vec::new(),
            next_attempt_in: Some(Duration::from_secs(8)),
            ..reach(false)
        });
        let waiting = WaitStatus::from_trace(&trace, Some("bob")).unwrap();
        assert_eq!(
            waiting.says,
            "bob is not connected: no address known; next try in 8 s"
        );
        assert!(!waiting.arrived && !waiting.worked_on);
        let peer = trace.peer.as_mut().unwrap();
        peer.addresses = vec!["/ip4/192.0.2.1/tcp/4001".to_owned()];
        peer.last_error = "connection refused".to_owned();
        peer.next_attempt_in = Some(Duration::from_millis(5));
        let waiting = WaitStatus::from_trace(&trace, Some("bob")).unwrap();
        assert_eq!(
            waiting.says,
            "bob is not connected: connection refused; next try in 1 s"
        );
        trace.queued.clear();
        let waiting = WaitStatus::from_trace(&trace, Some("bob")).unwrap();
        assert!(
            waiting.says.starts_with("bob has it, and is not connected now: "),
            "{waiting:?}"
        );
        assert!(waiting.arrived);
    }

    #[test]
    fn a_connected_peer_is_told_by_what_it_does() {
        let mut trace = sent(TaskStatus::Submitted);
        trace.peer = Some(PeerReach {
            via: PathKind::Direct,
            ..reach(true)
        });
        trace.queued = vec![QueuedEnvelope {
            sent: 1,
            ..envelope(true, QueueState::Sent)
        }];
        let says = |trace: &Trace| WaitStatus::from_trace(trace, Some("bob")).unwrap().says;
        assert_eq!(
            says(&trace),
            "bob is connected: sent once and not acknowledged yet"
        );
        trace.queued.clear();
        assert_eq!(says(&trace), "bob has it, and no agent there has begun yet");
        trace.task.as_mut().unwrap().status = TaskStatus::Working;
        let waiting = WaitStatus::from_trace(&trace, Some("bob")).unwrap();
        assert_eq!(waiting.says, "an agent at bob works on it");
        assert!(waiting.arrived && waiting.worked_on);
    }
}
