//! The state machine against a table written from the wire contract ("Tasks on the wire"), and
//! random command sequences against a simple model of a task.

use agentanycast_proto::v1::{Artifact, Message};
use proptest::{collection::vec, prelude::*};

use super::*;
use Status::{Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};

/// The contract's transitions, as one peer may be told them; WORKING again is progress.
const TABLE: [(Status, &[Status]); 7] = [
    (Submitted, &[Working, Rejected, Canceled]),
    (Working, &[Working, Completed, Failed, Canceled, InputRequired]),
    (InputRequired, &[Working, Canceled]),
    (Completed, &[]),
    (Failed, &[]),
    (Canceled, &[]),
    (Rejected, &[]),
];

/// What an agent may ask for in one call although a peer has to be told WORKING first.
const VIA_WORKING: [(Status, &[Status]); 2] = [
    (Submitted, &[Completed, Failed, InputRequired]),
    (InputRequired, &[Completed, Failed]),
];

fn in_table(table: &[(Status, &[Status])], from: Status, to: Status) -> bool {
    table
        .iter()
        .any(|(state, nexts)| *state == from && nexts.contains(&to))
}

fn pairs() -> impl Iterator<Item = (Status, Status)> {
    Status::ALL
        .into_iter()
        .flat_map(|from| Status::ALL.into_iter().map(move |to| (from, to)))
}

fn peer() -> PeerId {
    PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[7; 32]].concat()).unwrap()
}

fn task_in(status: Status) -> Task {
    Task {
        id: "t".into(),
        context_id: "c".into(),
        role: Role::Assignee(peer()),
        status,
        status_message: None,
        messages: vec![Arc::new(message("first"))],
        results: Vec::new(),
        skill: String::new(),
        metadata: BTreeMap::new(),
        created_at: 1,
        updated_at: 1,
        deadline: None,
        claimed: true,
        agent_ends: 0,
        begun: false,
        agent: None,
        route: None,
        traced: None,
        held: false,
        returnable: false,
        awaits_skill: false,
        external: None,
        group: None,
        sealed: None,
        arrived_at: None,
        timeline: TaskTimeline::default(),
    }
}

fn message(id: &str) -> Message {
    Message {
        message_id: id.into(),
        ..Message::default()
    }
}

fn artifact(id: &str, name: &str) -> Artifact {
    Artifact {
        artifact_id: id.into(),
        name: name.into(),
        ..Artifact::default()
    }
}

#[test]
fn terminal_states_are_the_four_of_the_contract() {
    for status in Status::ALL {
        assert_eq!(
            status.is_terminal(),
            matches!(status, Completed | Failed | Canceled | Rejected),
            "{status}"
        );
    }
}

#[test]
fn may_become_agrees_with_the_table() {
    for (from, to) in pairs() {
        assert_eq!(from.may_become(to), in_table(&TABLE, from, to), "{from} -> {to}");
    }
}

#[test]
fn steps_to_agrees_with_the_tables() {
    for (from, to) in pairs() {
        let expected: Option<Vec<Status>> = if in_table(&TABLE, from, to) {
            Some(vec![to])
        } else if in_table(&VIA_WORKING, from, to) {
            Some(vec![Working, to])
        } else {
            None
        };
        assert_eq!(from.steps_to(to).map(<[_]>::to_vec), expected, "{from} -> {to}");
    }
}

#[test]
fn every_step_is_a_transition_that_a_peer_accepts() {
    for (from, to) in pairs() {
        let mut at = from;
        for step in from.steps_to(to).unwrap_or_default() {
            assert!(in_table(&TABLE, at, *step), "{from} -> {to}: {at} -> {step}");
            at = *step;
        }
    }
}

#[test]
fn advance_changes_a_task_or_leaves_it_alone() {
    for (from, to) in pairs() {
        let mut task = task_in(from);
        let before = task.clone();
        let allowed = in_table(&TABLE, from, to) || in_table(&VIA_WORKING, from, to);
        match task.advance(9, to, Some(message("m")), vec![artifact("a", "x")]) {
            Ok(_) => {
                assert!(allowed, "{from} -> {to}");
                assert_eq!(task.status, to);
                assert_eq!(task.updated_at, 9);
                assert_eq!(
                    task.status_message.as_deref(),
                    task.messages.last().map(|last| &**last)
                );
                assert_eq!((task.messages.len(), task.results.len()), (2, 1));
            }
            Err(refused) => {
                assert!(!allowed, "{from} -> {to}");
                assert_eq!(
                    refused,
                    TransitionError::Transition {
                        id: "t".into(),
                        from,
                        to
                    }
                );
                assert_eq!(task, before);
            }
        }
    }
}

#[test]
fn only_a_task_that_asked_takes_an_answer() {
    for status in Status::ALL {
        let mut task = task_in(status);
        let before = task.clone();
        let answered = task.answer(9, message("m"));
        if status == InputRequired {
            assert_eq!(answered, Ok(()));
            assert_eq!(
                (task.status, task.messages.len(), task.updated_at),
                (Working, 2, 9)
            );
            assert!(!task.claimed, "it is handed to the agents again");
            assert_eq!(task.status_message, None);
        } else {
            assert_eq!(
                answered,
                Err(TransitionError::NotWaiting {
                    id: "t".into(),
                    status
                })
            );
            assert_eq!(task, before);
        }
    }
}

#[test]
fn a_node_may_end_whatever_is_open_and_nothing_else() {
    for (from, to) in pairs() {
        let mut task = task_in(from);
        let before = task.clone();
        let allowed = !from.is_terminal() && to.is_terminal();
        assert_eq!(task.end(9, to, Some(message("why"))), allowed, "{from} -> {to}");
        if allowed {
            assert_eq!((task.status, task.updated_at), (to, 9));
            assert_eq!(
                task.status_message.as_ref().map(|why| why.message_id.as_str()),
                Some("why")
            );
        } else {
            assert_eq!(task, before);
        }
    }
}

#[test]
fn states_survive_the_wire() {
    for status in Status::ALL {
        assert_eq!(Status::from_wire(status.to_wire() as i32), Some(status));
    }
    for number in [0, -1, 8, i32::MAX] {
        assert_eq!(Status::from_wire(number), None, "{number}");
    }
}

#[test]
fn a_full_task_refuses_progress_but_can_still_end() {
    let mut full = task_in(Working);
    full.messages = (0..MAX_MESSAGES).map(|_| Arc::new(message("m"))).collect();
    let before = full.clone();
    let refused = TransitionError::LimitReached {
        id: "t".into(),
        what: "messages",
        limit: MAX_MESSAGES,
    };
    assert_eq!(
        full.advance(9, Working, Some(message("more")), Vec::new()),
        Err(refused)
    );
    assert_eq!(full, before);
    for end in [Completed, Failed, Canceled] {
        let mut task = full.clone();
        assert!(
            task.advance(9, end, Some(message("end")), Vec::new()).is_ok(),
            "{end}"
        );
        assert_eq!(task.messages.len(), MAX_MESSAGES + 1);
    }
}

#[test]
fn results_have_a_bound_that_replacing_does_not_touch() {
    let mut task = task_in(Working);
    let all: Vec<Artifact> = (0..MAX_RESULTS)
        .map(|at| artifact(&at.to_string(), "x"))
        .collect();
    task.advance(2, Working, None, all.clone()).unwrap();
    let before = task.clone();
    let refused = TransitionError::LimitReached {
        id: "t".into(),
        what: "artifacts",
        limit: MAX_RESULTS,
    };
    assert_eq!(
        task.advance(3, Completed, None, vec![artifact("one more", "x")]),
        Err(refused.clone())
    );
    assert_eq!(task.put_stream(stream("one more")), Err(refused));
    assert_eq!(task, before);
    assert!(task.put_stream(stream("17")).is_ok());
    assert!(task.advance(4, Completed, None, all).is_ok());
    assert_eq!(task.results.len(), MAX_RESULTS);
}

#[test]
fn an_artifact_named_twice_in_one_report_is_one_result() {
    let mut task = task_in(Working);
    let twice = (0..=MAX_RESULTS).map(|_| artifact("same", "x")).collect();
    assert!(task.advance(2, Completed, None, twice).is_ok());
    assert_eq!(task.results.len(), 1);
}

fn stream(id: &str) -> Streamed {
    Streamed {
        artifact_id: id.into(),
        name: "s".into(),
        media_type: String::new(),
        bytes: 1,
        outcome: None,
    }
}

#[derive(Clone, Debug)]
enum Command {
    Advance(Status, bool, Vec<(u8, u8)>),
    Answer,
    End(Status, bool),
    Stream(u8),
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let status = || proptest::sample::select(&Status::ALL[..]);
    // Going on is likelier than ending, or nothing would be left to see.
    let next = prop_oneof![4 => Just(Working), 2 => Just(InputRequired), 1 => status()];
    let command = prop_oneof![
        6 => (next, any::<bool>(), vec((0_u8..5, any::<u8>()), 0..4))
            .prop_map(|(next, said, results)| Command::Advance(next, said, results)),
        2 => Just(Command::Answer),
        1 => (status(), any::<bool>()).prop_map(|(status, said)| Command::End(status, said)),
        1 => (0_u8..5).prop_map(Command::Stream),
    ];
    vec(command, 0..60)
}

/// A task as a person would keep it on paper: a state, a list of message ids, a list of results.
#[derive(Debug)]
struct TaskModel {
    status: Status,
    messages: Vec<String>,
    results: Vec<(String, String)>,
}

impl TaskModel {
    fn result(&mut self, id: &str, name: &str) {
        match self
            .results
            .iter_mut()
            .find(|(known, _)| known == id && !id.is_empty())
        {
            Some(known) => name.clone_into(&mut known.1),
            None => self.results.push((id.to_owned(), name.to_owned())),
        }
    }

    fn allows(&self, next: Status) -> bool {
        in_table(&TABLE, self.status, next) || in_table(&VIA_WORKING, self.status, next)
    }
}

/// Number 0 stands for an artifact without an id: each of those is its own.
fn artifact_id(number: u8) -> String {
    if number == 0 {
        String::new()
    } else {
        number.to_string()
    }
}

fn names(task: &Task) -> Vec<(String, String)> {
    let name = |result: &Output| match result {
        Output::Whole(artifact) => artifact.name.clone(),
        Output::Streamed(streamed) => streamed.name.clone(),
    };
    task.results
        .iter()
        .map(|result| (result.id().to_owned(), name(result)))
        .collect()
}

/// Does the command to both; true when the task accepted it.
fn step(
    number: usize,
    command: &Command,
    task: &mut Task,
    model: &mut TaskModel,
) -> Result<bool, TestCaseError> {
    let (now, said) = (number as u64 + 2, format!("m{number}"));
    let accepted = match command {
        Command::Advance(next, speaks, results) => {
            let artifacts = results
                .iter()
                .map(|(id, name)| artifact(&artifact_id(*id), &name.to_string()));
            let done = task.advance(now, *next, speaks.then(|| message(&said)), artifacts.collect());
            prop_assert_eq!(done.is_ok(), model.allows(*next));
            if done.is_ok() {
                model.status = *next;
                model.messages.extend(speaks.then_some(said));
                for (id, name) in results {
                    model.result(&artifact_id(*id), &name.to_string());
                }
            }
            done.is_ok()
        }
        Command::Answer => {
            let done = task.answer(now, message(&said));
            prop_assert_eq!(done.is_ok(), model.status == InputRequired);
            if done.is_ok() {
                model.status = Working;
                model.messages.push(said);
            }
            done.is_ok()
        }
        Command::End(status, speaks) => {
            let done = task.end(now, *status, speaks.then(|| message(&said)));
            prop_assert_eq!(done, !model.status.is_terminal() && status.is_terminal());
            if done {
                model.status = *status;
                model.messages.extend(speaks.then_some(said));
            }
            done
        }
        Command::Stream(id) => {
            let id = format!("s{id}");
            prop_assert!(task.put_stream(stream(&id)).is_ok());
            model.result(&id, "s");
            return Ok(true);
        }
    };
    if accepted {
        prop_assert_eq!(task.updated_at, now);
    }
    Ok(accepted)
}

proptest! {
    #[test]
    fn random_commands_do_to_a_task_what_they_do_to_the_model(commands in commands()) {
        let mut task = task_in(Submitted);
        let mut model = TaskModel { status: Submitted, messages: vec!["first".into()], results: Vec::new() };
        for (number, command) in commands.iter().enumerate() {
            let before = task.clone();
            let accepted = step(number, command, &mut task, &mut model)?;
            if !accepted {
                prop_assert_eq!(&task, &before, "a refused command changed something");
            }
            if before.status.is_terminal() {
                prop_assert_eq!(task.status, before.status);
                prop_assert_eq!(&task.messages, &before.messages);
            }
            prop_assert_eq!(task.status, model.status);
            prop_assert_eq!(names(&task), model.results.clone());
            let ids: Vec<&str> = task.messages.iter().map(|message| message.message_id.as_str()).collect();
            prop_assert_eq!(ids, model.messages.iter().map(String::as_str).collect::<Vec<_>>());
            if let Some(said) = &task.status_message {
                prop_assert_eq!(Some(said), task.messages.last());
            }
            for said in &model.messages {
                prop_assert!(task.has_message_id(said));
            }
            prop_assert!(!task.has_message_id("never said") && !task.has_message_id(""));
        }
    }
}
