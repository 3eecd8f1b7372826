use agentanycast_proto::v1::{Part, TextPart, part::Content};
use proptest::prelude::*;

use super::*;

fn part(text: &str) -> Part {
    Part {
        content: Some(Content::TextPart(TextPart {
            text: text.to_owned(),
        })),
        ..Part::default()
    }
}

fn message(id: &str) -> Message {
    Message {
        message_id: id.to_owned(),
        role: MessageRole::Agent.into(),
        parts: vec![part(id)],
        ..Message::default()
    }
}

fn artifact(id: &str, texts: &[&str]) -> Artifact {
    Artifact {
        artifact_id: id.to_owned(),
        parts: texts.iter().map(|text| part(text)).collect(),
        ..Artifact::default()
    }
}

fn beginning() -> ReportBuilder {
    ReportBuilder::new(&ExternalTask {
        url: String::new(),
        allow_private: false,
        task: v1::Task {
            status: TaskStatus::Submitted.into(),
            messages: vec![Message {
                role: MessageRole::User.into(),
                ..message("hi")
            }],
            ..v1::Task::default()
        },
        checkpoint: Vec::new(),
        growing: [].into(),
        settled: false,
        seal: None,
    })
}

fn piece(id: &str, text: &str, append: bool, last: bool) -> UpdateContent {
    UpdateContent::Artifact {
        artifact: artifact(id, &[text]),
        append,
        last,
    }
}

#[test]
fn what_is_heard_again_is_no_news() {
    let mut progress = beginning();
    let task = v1::Task {
        status: TaskStatus::Working.into(),
        messages: vec![
            Message {
                role: MessageRole::User.into(),
                ..message("hi")
            },
            message("25 %"),
            message("50 %"),
        ],
        status_message: Some(message("50 %")),
        artifacts: vec![artifact("a", &["1"])],
        ..v1::Task::default()
    };
    progress
        .apply(UpdateContent::Task(Box::new(task.clone())))
        .unwrap();
    let report = progress.take();
    let told: Vec<_> = report
        .changes
        .iter()
        .map(|(status, message)| (*status, message.as_ref().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            (TaskStatus::Working, &message("25 %")),
            (TaskStatus::Working, &message("50 %"))
        ]
    );
    assert_eq!(report.artifacts, [artifact("a", &["1"])]);
    progress.apply(UpdateContent::Task(Box::new(task))).unwrap();
    progress
        .apply(UpdateContent::Status(TaskStatus::Working, Some(message("25 %"))))
        .unwrap();
    assert_eq!(
        (progress.due(), progress.take()),
        (ReportDue::Nothing, DeliveryReport::default())
    );
}

#[test]
fn a_result_grows_and_is_told_with_what_there_is() {
    let mut progress = beginning();
    progress.apply(piece("a", "1", false, false)).unwrap();
    assert_eq!(progress.due(), ReportDue::Now);
    assert_eq!(told(&mut progress), (vec![artifact("a", &["1"])], true));
    progress.apply(piece("a", "2", true, false)).unwrap();
    assert_eq!(progress.due(), ReportDue::Soon);
    progress.apply(piece("a", "3", true, true)).unwrap();
    assert_eq!(progress.due(), ReportDue::Now);
    assert_eq!(told(&mut progress), (vec![artifact("a", &["123"])], false));
    // What was complete grows again.
    progress.apply(piece("a", "4", true, false)).unwrap();
    assert_eq!(told(&mut progress), (vec![artifact("a", &["1234"])], true));
    progress.apply(piece("a", "4", false, true)).unwrap();
    assert_eq!(told(&mut progress), (vec![artifact("a", &["4"])], false));
}

/// The artifacts that are told, and whether more of one may come.
fn told(progress: &mut ReportBuilder) -> (Vec<Artifact>, bool) {
    let report = progress.take();
    (report.artifacts, !report.growing.is_empty())
}

fn task(status: TaskStatus, artifacts: Vec<Artifact>) -> UpdateContent {
    UpdateContent::Task(Box::new(v1::Task {
        status: status.into(),
        artifacts,
        ..v1::Task::default()
    }))
}

#[test]
fn an_end_without_content_is_news() {
    let mut progress = beginning();
    progress.apply(piece("a", "1", true, false)).unwrap();
    assert!(told(&mut progress).1);
    progress.apply(piece("a", "", true, true)).unwrap();
    assert_eq!(told(&mut progress), (vec![artifact("a", &["1"])], false));
    progress.apply(piece("b", "1", false, false)).unwrap();
    assert!(told(&mut progress).1);
    // fasta2a sends the whole at the end.
    progress.apply(piece("b", "1", false, true)).unwrap();
    assert_eq!(told(&mut progress), (vec![artifact("b", &["1"])], false));
}

#[test]
fn pieces_that_are_read_with_the_task_are_one_text() {
    use TaskStatus::{Completed, Failed, Working};
    let mut progress = beginning();
    progress
        .apply(task(Working, vec![artifact("a", &["1"])]))
        .unwrap();
    assert_eq!(told(&mut progress), (vec![artifact("a", &["1"])], true));
    progress
        .apply(task(Working, vec![artifact("a", &["1", "2", "3"])]))
        .unwrap();
    assert_eq!(told(&mut progress).0, [artifact("a", &["123"])]);
    // As it is known after a restart.
    progress
        .apply(task(Completed, vec![artifact("a", &["1", "2", "3"])]))
        .unwrap();
    assert_eq!(told(&mut progress), (vec![], false));
    let mut progress = beginning();
    progress.note_piece("a");
    progress
        .apply(task(Working, vec![artifact("a", &["1"])]))
        .unwrap();
    progress
        .apply(task(Failed, vec![artifact("a", &["1", "2"])]))
        .unwrap();
    assert_eq!(told(&mut progress), (vec![artifact("a", &["12"])], true));
    // Parts that came together are parts, and what a failed task shows at once is all of it.
    let mut progress = beginning();
    progress
        .apply(task(
            Failed,
            vec![artifact("a", &["1", "2"]), artifact("", &["3"])],
        ))
        .unwrap();
    let (artifacts, more) = told(&mut progress);
    assert_eq!(
        (artifacts[0].parts.len(), artifacts[1].artifact_id.as_str(), more),
        (2, "artifact-2", false)
    );
}

#[test]
fn pieces_without_a_name_belong_together() {
    let mut progress = beginning();
    progress.apply(piece("", "1", false, false)).unwrap();
    progress.apply(piece("", "2", true, true)).unwrap();
    assert_eq!(
        told(&mut progress),
        (vec![artifact("artifact-1", &["12"])], false)
    );
    for _ in 0..2 {
        progress
            .apply(task(TaskStatus::Working, vec![artifact("", &["1", "2"])]))
            .unwrap();
        assert_eq!(told(&mut progress), (vec![], false));
    }
}

#[test]
fn what_is_written_of_a_large_result_is_at_most_thrice_what_came() {
    let mut progress = beginning();
    let text = "x".repeat(10_000);
    let (mut came, mut written) = (0, 0);
    for _ in 0..1000 {
        progress.apply(piece("a", &text, true, false)).unwrap();
        came += text.len();
        if progress.due() == ReportDue::Now {
            written += progress.take().artifacts[0].encoded_len();
        }
    }
    assert!(written < 3 * came, "{written} of {came}");
}

#[test]
fn an_answer_without_a_task_is_its_end() {
    let mut progress = beginning();
    progress
        .apply(UpdateContent::Message(Box::new(message("done"))))
        .unwrap();
    let end = (TaskStatus::Completed, Some(message("done")));
    assert_eq!(progress.take().changes, [end]);
    progress
        .apply(UpdateContent::Status(TaskStatus::Working, Some(message("more"))))
        .unwrap();
    assert_eq!(progress.due(), ReportDue::Nothing);
}

#[test]
fn what_has_no_name_gets_one() {
    let mut progress = beginning();
    let said = UpdateContent::Status(TaskStatus::Working, Some(message("")));
    progress.apply(said.clone()).unwrap();
    let report = progress.take();
    assert!(!report.changes[0].1.as_ref().unwrap().message_id.is_empty());
    progress.apply(said).unwrap();
    assert_eq!(progress.due(), ReportDue::Nothing);
    progress.apply(piece("", "1", false, true)).unwrap();
    progress
        .apply(piece(&"x".repeat(1000), "1", false, true))
        .unwrap();
    assert!(
        progress
            .take()
            .artifacts
            .iter()
            .all(|artifact| (1..=MAX_ID).contains(&artifact.artifact_id.len()))
    );
}

#[test]
fn a_task_holds_only_so_much() {
    let mut progress = beginning();
    let text = "x".repeat(4 << 20);
    let refused =
        (0..=MAX_RESULTS_BYTES >> 22).any(|_| progress.apply(piece("a", &text, true, false)).is_err());
    assert!(refused);
    let mut progress = beginning();
    let many = (0..=MAX_RESULTS).any(|at| progress.apply(piece(&at.to_string(), "", false, true)).is_err());
    assert!(many);
}

/// What an agent does: it says words, and makes results grow.
#[derive(Clone, Debug)]
enum AgentAction {
    Say,
    Grow(u8),
    Replace(u8),
}

proptest! {
    /// However a task is heard of, whole or in pieces, with repetitions, its sender knows at the end what the agent
    /// has said, in order and once.
    #[test]
    fn its_sender_knows_what_the_agent_has_said(
        steps in prop::collection::vec(
            prop_oneof![Just(AgentAction::Say), (0..3_u8).prop_map(AgentAction::Grow), (0..3_u8).prop_map(AgentAction::Replace)],
            0..30,
        ),
        ways in prop::collection::vec((any::<bool>(), any::<bool>()), 30),
    ) {
        let mut theirs = v1::Task { status: TaskStatus::Working.into(), ..v1::Task::default() };
        let mut progress = beginning();
        let (mut said, mut results): (Vec<String>, Vec<Artifact>) = (Vec::new(), Vec::new());
        let mut keep = |report: DeliveryReport| {
            said.extend(report.changes.into_iter().filter_map(|(_, message)| Some(message?.message_id)));
            for artifact in report.artifacts {
                match results.iter_mut().find(|known| known.artifact_id == artifact.artifact_id) {
                    Some(known) => *known = artifact,
                    None => results.push(artifact),
                }
            }
        };
        for (at, (step, (whole, tell))) in steps.iter().zip(ways).enumerate() {
            let text = at.to_string();
            let heard = match step {
                AgentAction::Say => {
                    theirs.messages.push(message(&text));
                    theirs.status_message = Some(message(&text));
                    UpdateContent::Status(TaskStatus::Working, Some(message(&text)))
                }
                AgentAction::Grow(id) | AgentAction::Replace(id) => {
                    let append = matches!(step, AgentAction::Grow(_));
                    let id = id.to_string();
                    let found = theirs.artifacts.iter_mut().find(|known| known.artifact_id == id);
                    match found {
                        Some(known) if append => known.parts.push(part(&text)),
                        Some(known) => known.parts = vec![part(&text)],
                        None => theirs.artifacts.push(artifact(&id, &[&text])),
                    }
                    piece(&id, &text, append, false)
                }
            };
            progress.apply(if whole { UpdateContent::Task(Box::new(theirs.clone())) } else { heard }).unwrap();
            if tell {
                keep(progress.take());
            }
        }
        keep(progress.take());
        let expected: Vec<String> = theirs.messages.iter().map(|message| message.message_id.clone()).collect();
        prop_assert_eq!(said, expected);
        for artifact in results.iter_mut().chain(&mut theirs.artifacts) {
            let parts = std::mem::take(&mut artifact.parts);
            pieces::append(&mut artifact.parts, parts);
        }
        prop_assert_eq!(results, theirs.artifacts);
    }
}

#[test]
fn messages_without_a_task_are_held_until_more_is_known() {
    let mut progress = beginning();
    progress.hold_message(message("1"));
    assert_eq!(
        (progress.due(), progress.take()),
        (ReportDue::Soon, DeliveryReport::default())
    );
    progress.hold_message(message("1"));
    progress.hold_message(message("2"));
    let other = Message {
        parts: vec![part("3")],
        ..message("2")
    };
    progress.hold_message(other);
    assert_eq!(progress.answers(), 3);
    progress.complete();
    let said: Vec<_> = progress
        .take()
        .changes
        .into_iter()
        .map(|(status, message)| {
            let message = message.unwrap();
            let is_answer = message.parts[0].metadata.contains_key(ANSWER);
            (status, message.parts[0].content.clone(), is_answer)
        })
        .collect();
    let text = |text: &str| part(text).content;
    assert_eq!(
        said,
        [
            (TaskStatus::Working, text("1"), true),
            (TaskStatus::Working, text("2"), true),
            (TaskStatus::Completed, text("3"), false)
        ]
    );
    progress.hold_message(message("late"));
    assert_eq!(progress.due(), ReportDue::Nothing);
}

#[test]
fn a_held_message_comes_before_what_follows_it() {
    let mut progress = beginning();
    progress.hold_message(message("1"));
    progress
        .apply(UpdateContent::Status(TaskStatus::Completed, Some(message("2"))))
        .unwrap();
    let said: Vec<_> = progress
        .take()
        .changes
        .into_iter()
        .map(|(_, message)| message.unwrap())
        .collect();
    assert_eq!(
        (said[0].message_id.as_str(), said[1].message_id.as_str()),
        ("1", "2")
    );
    // One that was told already is no news at the end.
    let mut progress = beginning();
    progress.hold_message(message("1"));
    progress.release_held();
    progress.take();
    progress.complete();
    assert_eq!(progress.take().changes, [(TaskStatus::Completed, None)]);
}

#[test]
fn a_state_that_stays_unknown_is_given_up() {
    let mut progress = beginning();
    for _ in 1..UNKNOWN_STATES {
        progress.check_state(Some("null")).unwrap();
    }
    progress.check_state(None).unwrap();
    for _ in 1..UNKNOWN_STATES {
        progress.check_state(Some("\"x\"")).unwrap();
    }
    let fault = progress.check_state(Some("\"x\"")).unwrap_err();
    assert!(fault.to_string().contains("the state \"x\""), "{fault}");
}
