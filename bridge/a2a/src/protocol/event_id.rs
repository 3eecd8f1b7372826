//! How far a client has heard of a task, as one number: the `id` of the events of its stream. PURE.
//!
//! A node's record of a task only grows: by messages of the agent, by results, and by the end. The number
//! counts what of these was told, so it is made of the record alone: it is the same before and after a kill
//! of the bridge or the node, and a client that names it is told what the record has beyond it. An event that
//! adds nothing to the record, such as a piece of a result or a state without a message, has no number.

use std::collections::HashSet;

use agentanycast_gateway::{is_reference, is_terminal};
use agentanycast_proto::v1::{self, MessageRole, TaskStatus};

use super::diff::TaskEvent;

/// Bits of the number that count results, beside one for the end; the others count messages. A reader in
/// JavaScript has 53 bits.
const RESULTS: u32 = 20;

/// Most results that are counted. What comes behind is told without a number, and again after a lost
/// connection.
const MOST: u64 = (1 << RESULTS) - 1;

/// What a client has heard of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    messages: u64,
    results: u64,
    ended: bool,
}

impl EventId {
    /// Of the number that a client names.
    pub(crate) fn from_number(number: u64) -> Self {
        Self {
            messages: number >> (RESULTS + 1),
            results: (number >> 1) & MOST,
            ended: number & 1 == 1,
        }
    }

    /// Whether the client has heard the end.
    pub(crate) fn has_end(self) -> bool {
        self.ended
    }

    /// Whether a client of this task can have heard this much.
    pub(crate) fn fits(self, task: &v1::Task) -> bool {
        self.messages <= by_agent(task).count() as u64
            && self.results <= task.artifacts.len() as u64
            && (!self.ended || is_terminal(task.status()))
    }

    /// Whether the result at this place of the record was heard.
    pub(crate) fn has_result(self, place: usize) -> bool {
        (place as u64) < self.results
    }

    /// Its number.
    pub(crate) fn number(self) -> u64 {
        self.messages << (RESULTS + 1) | self.results.min(MOST) << 1 | u64::from(self.ended)
    }
}

/// What an agent said in a task, with the place among all messages.
fn by_agent(task: &v1::Task) -> impl Iterator<Item = (usize, &v1::Message)> {
    let all = task.messages.iter().enumerate();
    all.filter(|(_, message)| message.role() != MessageRole::User)
}

/// What is told of a task to a client that has heard this much of it and comes again: messages and results
/// that are there whole, each with the state that it came with; then the end, if that is missing.
pub(crate) fn missed_events(
    task: &v1::Task,
    heard: EventId,
    sent: bool,
) -> (Vec<TaskEvent>, Option<TaskEvent>) {
    let status = task.status();
    let is_over = is_terminal(status);
    let of_status = task.status_message.as_ref().map(|message| &message.message_id);
    let mut events = Vec::new();
    let mut told_status = false;
    for (place, message) in by_agent(task).skip(usize::try_from(heard.messages).unwrap_or(usize::MAX)) {
        let is_current = Some(&message.message_id) == of_status;
        if is_current && is_over {
            continue;
        }
        let is_answered = task.messages.get(place + 1).map(v1::Message::role) == Some(MessageRole::User);
        told_status |= is_current;
        let status = match (is_current, is_answered) {
            (true, _) => status,
            (false, true) => TaskStatus::InputRequired,
            (false, false) => TaskStatus::Working,
        };
        events.push(TaskEvent::Status {
            status,
            message: Some(message.clone()),
        });
    }
    let results = task.artifacts.iter().enumerate();
    let results = results.filter(|(place, result)| !heard.has_result(*place) && !is_reference(result));
    events.extend(results.map(|(_, artifact)| TaskEvent::Artifact {
        artifact: artifact.clone(),
        append: false,
        last: true,
    }));
    // The stream of a message ends with the question that it asks, also for a client that knows the question.
    let asks = sent && status == TaskStatus::InputRequired && !told_status;
    let last = (is_over && !heard.ended || asks).then(|| TaskEvent::Status {
        status,
        message: task.status_message.clone(),
    });
    (events, last)
}

/// A task as it was when its client said the last of its messages, and what of it a client knows that is shown this:
/// what came since is told by events. It is not known when a result came, so all are told.
pub(crate) fn beginning(task: &v1::Task) -> (v1::Task, EventId) {
    let user = |message: &v1::Message| message.role() == MessageRole::User;
    let told = task.messages.iter().rposition(user).map_or(0, |last| last + 1);
    let heard = EventId {
        messages: by_agent(task).take_while(|(place, _)| *place < told).count() as u64,
        results: 0,
        ended: false,
    };
    let halted = is_terminal(task.status()) || task.status() == TaskStatus::InputRequired;
    let status = match (halted, told) {
        (false, _) => task.status(),
        (true, 0 | 1) => TaskStatus::Submitted,
        (true, _) => TaskStatus::Working,
    };
    let first = v1::Task {
        status: status.into(),
        status_message: None,
        messages: task.messages[..told].to_vec(),
        artifacts: Vec::new(),
        updated_at: if told > 1 {
            task.updated_at
        } else {
            task.created_at
        },
        ..task.clone()
    };
    (first, heard)
}

/// Counts what a client is told.
#[derive(Debug)]
pub(crate) struct EventCounter {
    messages: HashSet<String>,
    /// Ids of results as the record has them, from its beginning on, and whether each was told whole.
    results: Vec<(String, bool)>,
    last_id: EventId,
    /// The last number that was given.
    last: Option<u64>,
}

impl EventCounter {
    /// Of a client that is shown this task: what is to be read apart is not in it.
    pub(crate) fn from_task(task: &v1::Task) -> Self {
        let results = task.artifacts.iter();
        let results = results.map(|result| (result.artifact_id.clone(), !is_reference(result)));
        Self::new(
            task,
            results.collect(),
            usize::MAX,
            is_terminal(task.status()),
            None,
        )
    }

    /// Of a client that has heard this much of it.
    pub(crate) fn resumed(task: &v1::Task, heard: EventId) -> Self {
        let results = task.artifacts.iter().enumerate();
        let results = results.map(|(place, result)| (result.artifact_id.clone(), heard.has_result(place)));
        let messages = usize::try_from(heard.messages).unwrap_or(usize::MAX);
        Self::new(
            task,
            results.collect(),
            messages,
            heard.ended,
            Some(heard.number()),
        )
    }

    fn new(
        task: &v1::Task,
        results: Vec<(String, bool)>,
        messages: usize,
        ended: bool,
        last: Option<u64>,
    ) -> Self {
        let messages = by_agent(task).take(messages);
        Self {
            messages: messages.map(|(_, message)| message.message_id.clone()).collect(),
            results,
            last_id: EventId {
                messages: 0,
                results: 0,
                ended,
            },
            last,
        }
    }

    /// Whether the place of each of these results in the record is known.
    pub(crate) fn knows(&self, results: &[v1::Artifact]) -> bool {
        let known = |id: &str| self.results.iter().any(|(known, _)| known == id);
        results.iter().all(|result| known(&result.artifact_id))
    }

    /// Takes the results of the record, from its beginning on.
    pub(crate) fn order(&mut self, record: &[v1::Artifact]) {
        for result in record.iter().skip(self.results.len()) {
            self.results.push((result.artifact_id.clone(), false));
        }
    }

    /// The number of an event that is told now; `None` if it adds nothing.
    pub(crate) fn count(&mut self, event: &TaskEvent) -> Option<u64> {
        match event {
            TaskEvent::Task(_) => {}
            TaskEvent::Message(_) => return None,
            TaskEvent::Status { status, message } => {
                self.messages
                    .extend(message.iter().map(|message| message.message_id.clone()));
                self.last_id.ended |= is_terminal(*status);
            }
            TaskEvent::Artifact { artifact, last, .. } => {
                let mut all = self.results.iter_mut();
                if let (true, Some((_, told))) = (*last, all.find(|(id, _)| *id == artifact.artifact_id)) {
                    *told = true;
                }
            }
        }
        self.last_id.messages = self.messages.len() as u64;
        self.last_id.results = self.results.iter().take_while(|(_, told)| *told).count() as u64;
        let number = self.last_id.number();
        if self.last.is_some_and(|last| number <= last) {
            return None;
        }
        self.last = Some(number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(id: usize, role: MessageRole) -> v1::Message {
        v1::Message {
            message_id: format!("m{id}"),
            role: role.into(),
            ..v1::Message::default()
        }
    }

    fn result(id: usize) -> v1::Artifact {
        v1::Artifact {
            artifact_id: format!("a{id}"),
            ..v1::Artifact::default()
        }
    }

    fn task(messages: usize, results: usize, status: TaskStatus) -> v1::Task {
        let mut all = vec![said(1000, MessageRole::User)];
        all.extend((0..messages).map(|id| said(id, MessageRole::Agent)));
        v1::Task {
            status: status.into(),
            status_message: all.last().filter(|_| messages > 0).cloned(),
            messages: all,
            artifacts: (0..results).map(result).collect(),
            ..v1::Task::default()
        }
    }

    fn names(events: &[TaskEvent]) -> Vec<String> {
        let name = |event: &TaskEvent| match event {
            TaskEvent::Status { status, message } if is_terminal(*status) => {
                let message = message.as_ref().map(|message| message.message_id.clone());
                format!("end {}", message.unwrap_or_default())
            }
            TaskEvent::Status { message, .. } => message.clone().unwrap_or_default().message_id,
            TaskEvent::Artifact { artifact, .. } => artifact.artifact_id.clone(),
            other => panic!("{other:?}"),
        };
        events.iter().map(name).collect()
    }

    #[test]
    fn what_is_told_as_a_result_out_of_its_place_has_no_number() {
        let mut counter = EventCounter::from_task(&task(0, 0, TaskStatus::Working));
        let told = |id| TaskEvent::Artifact {
            artifact: result(id),
            append: false,
            last: true,
        };
        assert!(!counter.knows(&[result(1)]));
        counter.order(&[result(0), result(1)]);
        assert_eq!(
            counter
                .count(&told(1))
                .map(EventId::from_number)
                .map(|heard| heard.results),
            Some(0)
        );
        assert_eq!(counter.count(&told(1)), None);
        let both = EventId::from_number(counter.count(&told(0)).unwrap());
        assert!(both.has_result(1) && !both.has_result(2));
    }

    #[test]
    fn a_client_that_claims_more_than_there_is_is_not_believed() {
        let task = task(1, 1, TaskStatus::Working);
        let of = |messages, results, ended| EventId {
            messages,
            results,
            ended,
        };
        assert!(of(1, 1, false).fits(&task));
        for more in [of(2, 0, false), of(0, 2, false), of(0, 0, true)] {
            assert!(!more.fits(&task), "{more:?}");
        }
    }

    #[test]
    fn a_quick_task_is_told_from_its_beginning() {
        let ended = task(2, 1, TaskStatus::Completed);
        let (first, heard) = beginning(&ended);
        assert_eq!(
            (first.status(), first.messages.len(), first.artifacts.len()),
            (TaskStatus::Submitted, 1, 0)
        );
        let (events, last) = missed_events(&ended, heard, true);
        assert_eq!(names(&events), ["m0", "a0"]);
        assert_eq!(names(&[last.unwrap()]), ["end m1"]);
        let mut asks = task(1, 0, TaskStatus::InputRequired);
        let (_, heard) = beginning(&asks);
        assert_eq!(names(&missed_events(&asks, heard, true).0), ["m0"]);
        // A further message was answered at once.
        asks.messages
            .extend([said(1001, MessageRole::User), said(1, MessageRole::Agent)]);
        asks.status_message = asks.messages.last().cloned();
        asks.status = TaskStatus::Completed.into();
        let (first, heard) = beginning(&asks);
        assert_eq!((first.status(), first.messages.len()), (TaskStatus::Working, 3));
        let (events, last) = missed_events(&asks, heard, true);
        assert_eq!(
            (events.len(), names(&[last.unwrap()])),
            (0, vec!["end m1".to_owned()])
        );
        let works = task(0, 1, TaskStatus::Working);
        assert_eq!(beginning(&works).0.status(), TaskStatus::Working);
    }

    proptest! {
        #[test]
        fn a_number_says_what_was_heard(messages in 0_u64..1 << 32, results in 0_u64..=MOST, ended: bool) {
            let heard = EventId { messages, results, ended };
            prop_assert_eq!(EventId::from_number(heard.number()), heard);
            prop_assert!(heard.number() < 1 << 53);
        }

        /// Wherever a client stops to read, it is told the rest and nothing twice.
        #[test]
        fn whoever_comes_again_is_told_the_rest(
            messages in 0_usize..5, results in 0_usize..5, ends: bool, message_at_end: bool, stop in 0_usize..12,
        ) {
            let status = if ends { TaskStatus::Completed } else { TaskStatus::Working };
            let mut task = task(messages, results, status);
            if ends && !message_at_end {
                task.status_message = None;
            }
            let nothing = EventId::from_number(0);
            let all = |heard: EventId| {
                let (mut events, last) = missed_events(&task, heard, false);
                events.extend(last);
                events
            };
            let whole = all(nothing);
            let mut counter = EventCounter::resumed(&task, nothing);
            let mut last = 0;
            for event in whole.iter().take(stop) {
                let number = counter.count(event);
                prop_assert!(number.is_some_and(|number| number > last), "{:?}", event);
                last = number.unwrap();
            }
            let rest = all(EventId::from_number(last));
            let mut again = EventCounter::resumed(&task, EventId::from_number(last));
            for event in &rest {
                prop_assert!(again.count(event).is_some_and(|number| number > last));
            }
            let mut told = names(&whole[..stop.min(whole.len())]);
            told.extend(names(&rest));
            prop_assert_eq!(told, names(&whole));
        }
    }
}
