//! A deployed 0.7 daemon with its client and its agent, as the wire contract describes it: no place in a
//! queue, one stream per envelope, an ACK for everything but duplicates (also for what it refuses), no
//! questions and no streams, a strict state machine. It sends to a peer one envelope after the other, again
//! what is not acknowledged, and now and then what is.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use agentanycast_proto::v1::{
    A2aEnvelope, AckOutcome, AckPayload, Message, SendTaskPayload, TaskCancelPayload, TaskCompletePayload,
    TaskFailPayload, TaskStatusUpdatePayload, a2a_envelope::Payload,
};
use bytes::Bytes;
use prost::Message as _;

use super::{
    history::{CallFate, CallId, ORIGIN, ReportedEnd, TARGET},
    rng::SimRng,
    simulator::Simulator,
    text_in,
};
use crate::{
    delivery::inbox,
    task::Status,
    tests::harness::{artifact, text},
};

/// Waits before an envelope is sent again; then it is parked until the next connection.
const RETRIES: [u64; 3] = [2, 4, 8];

struct UnackedEnvelope {
    to: usize,
    id: String,
    frame: Bytes,
    tries: usize,
    again_at: Option<Duration>,
    /// What the ledger knows it as.
    call: CallId,
}

pub(super) struct LegacyTask {
    peer: usize,
    mine: bool,
    pub(super) status: Status,
    pub(super) messages: Vec<String>,
    pub(super) results: Vec<(String, String)>,
    steps: usize,
    /// It canceled the task itself.
    pub(super) canceled: bool,
}

pub(super) struct LegacyDaemon {
    seen: BTreeSet<String>,
    outbox: Vec<UnackedEnvelope>,
    /// Acknowledged ones that may be sent once more.
    old: Vec<(usize, Bytes)>,
    pub(super) tasks: BTreeMap<String, LegacyTask>,
    wanted: usize,
    linked: BTreeSet<usize>,
}

impl LegacyDaemon {
    pub(super) fn new(dice: &mut SimRng, _nodes: usize) -> Self {
        Self {
            seen: BTreeSet::new(),
            outbox: Vec::new(),
            old: Vec::new(),
            tasks: BTreeMap::new(),
            wanted: dice.below(5),
            linked: BTreeSet::new(),
        }
    }

    /// `untold`: of these tasks of its own it may never have been told the end.
    pub(super) fn is_done(&self, untold: impl Fn(&str) -> bool) -> bool {
        let is_over =
            |(id, task): (&String, &LegacyTask)| task.status.is_terminal() || (task.mine && untold(id));
        self.wanted == 0 && self.outbox.is_empty() && self.tasks.iter().all(is_over)
    }

    pub(super) fn what_is_open(&self) -> String {
        let open: Vec<String> = self
            .tasks
            .iter()
            .filter(|(_, task)| !task.status.is_terminal())
            .map(|(id, task)| format!("{id} is {}", task.status))
            .collect();
        format!(
            "{} to send, {} unacknowledged, open {open:?}",
            self.wanted,
            self.outbox.len()
        )
    }
}

impl Simulator {
    fn deployed_host(&self) -> usize {
        self.plan.nodes
    }

    pub(super) fn deployed_acts(&mut self) {
        self.deployed_sends_again();
        let Some(deployed) = &mut self.deployed else {
            return;
        };
        match self.rng.below(10) {
            0..2 if deployed.wanted > 0 => self.deployed_sends_task(),
            2 if !self.healing && !deployed.old.is_empty() => {
                let which = self.rng.below(deployed.old.len());
                let (to, frame) = deployed.old[which].clone();
                self.net.send_one(self.deployed_host(), to, frame);
            }
            3 if !self.healing => self.deployed_cancels(),
            _ => self.deployed_works(),
        }
    }

    pub(super) fn deployed_acts_on_all(&mut self) {
        while self.deployed.as_ref().is_some_and(|deployed| deployed.wanted > 0) {
            self.deployed_sends_task();
        }
        self.deployed_sends_again();
        for _ in 0..4 {
            self.deployed_works();
        }
    }

    fn deployed_sends_task(&mut self) {
        let to = self.rng.below(self.plan.nodes);
        let message = self.history.message_id('C');
        let id = format!("deployed-{message}");
        let call = self.history.settled(CallFate::Unknown);
        let host = self.deployed_host();
        let hours = [host, to].map(|host| self.hour_at(host));
        self.history.tell(&id, [host, to], hours, &message, call);
        let Some(deployed) = &mut self.deployed else {
            return;
        };
        deployed.wanted -= 1;
        let known = LegacyTask {
            peer: to,
            mine: true,
            status: Status::Submitted,
            messages: vec![message.clone()],
            results: Vec::new(),
            steps: 0,
            canceled: false,
        };
        deployed.tasks.insert(id.clone(), known);
        self.deployed_sends(to, call, first_payload(&id, &message));
    }

    /// Puts an envelope into its queue, and sends it.
    fn deployed_sends(&mut self, to: usize, call: CallId, payload: Payload) {
        let id = format!("envelope-{}", self.number());
        let frame: Bytes = enclose(&id, payload).into();
        if let Some(deployed) = &mut self.deployed {
            deployed.outbox.push(UnackedEnvelope {
                to,
                id,
                frame,
                tries: 0,
                again_at: Some(self.time),
                call,
            });
        }
        self.deployed_sends_again();
    }

    fn deployed_sends_again(&mut self) {
        let host = self.deployed_host();
        let (time, healing) = (self.time, self.healing);
        let Some(deployed) = &mut self.deployed else {
            return;
        };
        let mut served = BTreeSet::new();
        for waiting in &mut deployed.outbox {
            // One after the other: what it sends to a peer is never reordered.
            if !served.insert(waiting.to) {
                continue;
            }
            let linked = self.net.is_linked(host, waiting.to);
            let fresh = linked && !deployed.linked.contains(&waiting.to);
            if !linked || (!fresh && waiting.again_at.is_none_or(|at| at > time)) {
                continue;
            }
            let parked = healing.then_some(30).or((fresh).then_some(2));
            let delay = RETRIES.get(waiting.tries).copied().or(parked);
            waiting.tries += 1;
            waiting.again_at = delay.map(|delay| time + Duration::from_secs(delay));
            self.net.send_one(host, waiting.to, waiting.frame.clone());
        }
        let net = &self.net;
        deployed.linked = (0..host).filter(|node| net.is_linked(host, *node)).collect();
        if healing {
            for waiting in &mut deployed.outbox {
                waiting.again_at.get_or_insert(time);
            }
        }
    }

    /// Its agent goes on with one of its tasks, or its client answers a question.
    fn deployed_works(&mut self) {
        let Some(deployed) = &self.deployed else { return };
        let open: Vec<&String> = deployed
            .tasks
            .iter()
            .filter(|(_, task)| {
                if task.mine {
                    task.status == Status::InputRequired
                } else {
                    !task.status.is_terminal() && task.status != Status::InputRequired
                }
            })
            .map(|(id, _)| id)
            .collect();
        if open.is_empty() {
            return;
        }
        let id = open[self.rng.below(open.len())].clone();
        if self
            .deployed
            .as_ref()
            .is_some_and(|deployed| deployed.tasks[&id].mine)
        {
            self.deployed_answers(&id);
        } else {
            self.deployed_steps(&id);
        }
    }

    fn deployed_answers(&mut self, id: &str) {
        let message = self.history.message_id('C');
        let call = self.history.settled(CallFate::Unknown);
        self.history.say(id, ORIGIN, &message, call);
        let Some(task) = self
            .deployed
            .as_mut()
            .and_then(|deployed| deployed.tasks.get_mut(id))
        else {
            return;
        };
        task.messages.push(message.clone());
        task.status = Status::Working;
        let to = task.peer;
        self.deployed_sends(to, call, first_payload(id, &message));
    }

    fn deployed_steps(&mut self, id: &str) {
        // Its letter tells a question from a report.
        let asks = self.rng.chance(15);
        let message = self.history.message_id(if asks { 'Q' } else { 'P' });
        let call = self.history.settled(CallFate::Unknown);
        let chance = self.rng.below(100);
        let Some(task) = self
            .deployed
            .as_mut()
            .and_then(|deployed| deployed.tasks.get_mut(id))
        else {
            return;
        };
        let task_id = id.to_owned();
        task.steps += 1;
        let to = task.peer;
        let said = text(&message, "");
        let mut results = Vec::new();
        let (payload, status) = match (task.status, chance) {
            (Status::Submitted, 0..5) => (
                update(task_id, Status::Rejected, text("rejected", "no")),
                Status::Rejected,
            ),
            (Status::Submitted, _) if !asks => (update(task_id, Status::Working, said), Status::Working),
            (Status::Submitted, _) => return,
            _ if asks => (
                update(task_id, Status::InputRequired, said),
                Status::InputRequired,
            ),
            (_, 0..40) if task.steps < 5 => (update(task_id, Status::Working, said), Status::Working),
            (_, 40..45) => (fail(task_id), Status::Failed),
            _ => {
                results.push(("result".to_owned(), format!("of {message}")));
                (complete(task_id, &results, said), Status::Completed)
            }
        };
        task.status = status;
        task.results.clone_from(&results);
        if !matches!(status, Status::Rejected | Status::Failed) {
            task.messages.push(message.clone());
            self.history.say(id, TARGET, &message, call);
        }
        if let Some(story) = self.history.tasks.get_mut(id).filter(|_| status.is_terminal()) {
            story.endings.push(ReportedEnd {
                by: TARGET,
                status,
                call,
                results,
            });
        }
        self.deployed_sends(to, call, payload);
    }

    fn deployed_cancels(&mut self) {
        let Some(deployed) = &mut self.deployed else {
            return;
        };
        let mine = deployed
            .tasks
            .iter_mut()
            .find(|(_, task)| task.mine && !task.status.is_terminal());
        let Some((id, task)) = mine else { return };
        task.status = Status::Canceled;
        task.canceled = true;
        let (to, task_id) = (task.peer, id.clone());
        let call = self.history.settled(CallFate::Unknown);
        if let Some(story) = self.history.tasks.get_mut(&task_id) {
            story.endings.push(ReportedEnd {
                by: ORIGIN,
                status: Status::Canceled,
                call,
                results: Vec::new(),
            });
        }
        self.deployed_sends(to, call, Payload::TaskCancel(TaskCancelPayload { task_id }));
    }

    pub(super) fn deployed_takes(&mut self, from: usize, frame: &[u8]) {
        let Ok(envelope) = A2aEnvelope::decode(frame) else {
            return;
        };
        let Some(payload) = envelope.payload else { return };
        let Some(deployed) = &mut self.deployed else {
            return;
        };
        match &payload {
            Payload::Ack(ack) => return self.deployed_is_acknowledged(ack),
            Payload::GetTask(_)
            | Payload::GetTaskResponse(_)
            | Payload::StreamStart(_)
            | Payload::StreamChunk(_)
            | Payload::StreamEnd(_) => return,
            _ => {}
        }
        if !deployed.seen.insert(envelope.envelope_id.clone()) {
            return;
        }
        deployed.apply(from, payload);
        let ack = Payload::Ack(AckPayload {
            acknowledged_envelope_id: envelope.envelope_id,
            ..AckPayload::default()
        });
        let id = format!("ack-{}", self.number());
        let host = self.deployed_host();
        self.net.send_one(host, from, enclose(&id, ack).into());
    }

    fn deployed_is_acknowledged(&mut self, ack: &AckPayload) {
        let Some(deployed) = &mut self.deployed else {
            return;
        };
        let known = deployed
            .outbox
            .iter()
            .position(|waiting| waiting.id == ack.acknowledged_envelope_id);
        let Some(known) = known else { return };
        let waiting = deployed.outbox.remove(known);
        deployed.old.push((waiting.to, waiting.frame));
        let fate = match ack.outcome == AckOutcome::Rejected as i32 {
            false => CallFate::Done,
            // The refusal is in memory only; after a restart what was sent again may be taken.
            true if self.plan.restarts => CallFate::Unknown,
            true => CallFate::Refused,
        };
        self.history.settle(waiting.call, fate);
    }
}

impl LegacyDaemon {
    fn apply(&mut self, from: usize, payload: Payload) {
        match payload {
            Payload::SendTask(send) => {
                let message = send.message.map(|message| message.message_id).unwrap_or_default();
                let task = self.tasks.entry(send.task_id).or_insert_with(|| LegacyTask {
                    peer: from,
                    mine: false,
                    status: Status::Submitted,
                    messages: Vec::new(),
                    results: Vec::new(),
                    steps: 0,
                    canceled: false,
                });
                if task.messages.is_empty() || task.status == Status::InputRequired {
                    if !task.messages.is_empty() {
                        task.status = Status::Working;
                    }
                    task.messages.push(message);
                }
            }
            Payload::TaskStatusUpdate(said) => {
                if let Some(status) = Status::from_wire(said.status) {
                    self.report(&said.task_id, status, said.message, Vec::new());
                }
            }
            Payload::TaskComplete(said) => {
                let results = said
                    .artifacts
                    .iter()
                    .map(|artifact| (artifact.artifact_id.clone(), text_in(&artifact.parts)))
                    .collect();
                self.report(&said.task_id, Status::Completed, said.message, results);
            }
            Payload::TaskFail(said) => self.report(&said.task_id, Status::Failed, said.message, Vec::new()),
            Payload::TaskCancel(said) => {
                if let Some(task) = self.tasks.get_mut(&said.task_id)
                    && !task.status.is_terminal()
                {
                    task.status = Status::Canceled;
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, id: &str, status: Status, said: Option<Message>, results: Vec<(String, String)>) {
        let Some(task) = self.tasks.get_mut(id).filter(|task| task.mine) else {
            return;
        };
        if task.status.may_become(status) {
            task.status = status;
            task.messages.extend(said.map(|said| said.message_id));
            task.results = results;
        }
    }
}

fn enclose(id: &str, payload: Payload) -> Vec<u8> {
    A2aEnvelope {
        envelope_id: id.to_owned(),
        r#type: inbox::type_of(&payload) as i32,
        payload: Some(payload),
        ..A2aEnvelope::default()
    }
    .encode_to_vec()
}

fn first_payload(id: &str, message: &str) -> Payload {
    Payload::SendTask(SendTaskPayload {
        task_id: id.to_owned(),
        message: Some(text(message, "do it")),
        ..SendTaskPayload::default()
    })
}

fn update(task_id: String, status: Status, message: Message) -> Payload {
    Payload::TaskStatusUpdate(TaskStatusUpdatePayload {
        task_id,
        status: status.to_wire() as i32,
        message: Some(message),
    })
}

fn fail(task_id: String) -> Payload {
    Payload::TaskFail(TaskFailPayload {
        task_id,
        error_message: "it did not work".into(),
        message: None,
        ..TaskFailPayload::default()
    })
}

fn complete(task_id: String, results: &[(String, String)], message: Message) -> Payload {
    Payload::TaskComplete(TaskCompletePayload {
        task_id,
        artifacts: results
            .iter()
            .map(|(id, content)| artifact(id, content))
            .collect(),
        message: Some(message),
    })
}
