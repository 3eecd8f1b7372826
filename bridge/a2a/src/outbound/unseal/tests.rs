use TaskStatus::{Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};

use agentanycast_gateway::UnsealedAnswer;
use agentanycast_proto::v1::Artifact;

use super::*;

/// Boxes of words: `sealed STATUS RESULT…: WORDS`.
#[derive(Debug)]
struct FakeSeal;

fn text_of(parts: &[Part]) -> &str {
    match parts {
        [
            Part {
                content: Some(Content::TextPart(part)),
                ..
            },
        ] => &part.text,
        _ => "",
    }
}

fn parts(text: &str) -> Vec<Part> {
    let part = |text: &str| Part {
        content: Some(Content::TextPart(TextPart {
            text: text.to_owned(),
        })),
        ..Part::default()
    };
    (!text.is_empty()).then(|| part(text)).into_iter().collect()
}

impl TaskSeal for FakeSeal {
    fn seal(&self, message: &Message, _: bool) -> Result<Message, String> {
        Ok(message.clone())
    }

    fn open(&self, message: &Message) -> Result<Option<UnsealedAnswer>, String> {
        let Some(sealed) = text_of(&message.parts).strip_prefix("sealed ") else {
            return Ok(None);
        };
        let (head, words) = sealed.split_once(": ").ok_or("it cannot be opened")?;
        let mut head = head.split(' ');
        let status = head.next().and_then(TaskStatus::from_str_name);
        Ok(Some(UnsealedAnswer {
            status: status.ok_or("it cannot be opened")?,
            results: head.map(str::to_owned).collect(),
            message: Message {
                parts: parts(words),
                ..message.clone()
            },
        }))
    }

    fn open_artifact(&self, artifact: &Artifact) -> Result<Artifact, String> {
        let words = text_of(&artifact.parts).strip_prefix("sealed: ");
        Ok(Artifact {
            parts: parts(words.ok_or("it is not sealed")?),
            ..artifact.clone()
        })
    }
}

fn said(id: &str, text: &str) -> Message {
    Message {
        message_id: id.to_owned(),
        role: MessageRole::Agent.into(),
        parts: parts(text),
        ..Message::default()
    }
}

/// A message in a box.
fn sealed(id: &str, status: TaskStatus, results: &str, words: &str) -> Message {
    said(id, &format!("sealed {}{results}: {words}", status.as_str_name()))
}

fn artifact(id: &str, text: &str) -> Artifact {
    Artifact {
        artifact_id: id.to_owned(),
        parts: parts(text),
        ..Artifact::default()
    }
}

fn opened(status: TaskStatus, message: Option<Message>) -> Result<Option<String>, String> {
    match open(&FakeSeal, UpdateContent::Status(status, message), |id| {
        id == "here"
    }) {
        Ok(UpdateContent::Status(same, message)) => {
            assert_eq!(same, status);
            Ok(message.map(|message| text_of(&message.parts).to_owned()))
        }
        Ok(other) => panic!("{other:?}"),
        Err(fault) => Err(fault.to_string()),
    }
}

fn refused(what: UpdateContent, why: &str) {
    let fault = open(&FakeSeal, what, |_| false).unwrap_err();
    assert!(fault.to_string().contains(why), "{fault}");
}

#[test]
fn what_the_agent_has_sealed_is_passed_on() {
    for status in [Working, InputRequired, Completed, Failed, Canceled, Rejected] {
        let message = sealed("m", status, "", "words");
        assert_eq!(opened(status, Some(message)), Ok(Some("words".to_owned())));
    }
    // What has no words says its state alone.
    assert_eq!(
        opened(InputRequired, Some(sealed("m", InputRequired, "", ""))),
        Ok(None)
    );
    assert_eq!(opened(Working, None), Ok(None));
    // What a list of messages shows has no state of its own.
    let question = sealed("m", InputRequired, "", "which?");
    assert_eq!(opened(Working, Some(question)), Ok(Some("which?".to_owned())));
}

#[test]
fn what_is_not_sealed_is_not() {
    for status in [Working, InputRequired, Completed] {
        let error = opened(status, Some(said("m", "plain"))).unwrap_err();
        assert!(error.contains("it is not sealed"), "{error}");
    }
    for status in [InputRequired, Completed] {
        let error = opened(status, None).unwrap_err();
        assert!(error.contains("that is not sealed"), "{error}");
    }
    let plain = artifact("a", "plain");
    refused(
        UpdateContent::Artifact {
            artifact: plain.clone(),
            append: false,
            last: true,
        },
        "it is not sealed",
    );
    refused(
        UpdateContent::Artifact {
            artifact: artifact("a", "sealed: x"),
            append: true,
            last: true,
        },
        "in pieces",
    );
    refused(
        UpdateContent::Message(Box::new(said("m", "plain"))),
        "it is not sealed",
    );
    refused(
        UpdateContent::Task(Box::new(v1::Task {
            status: Working.into(),
            artifacts: vec![plain],
            ..v1::Task::default()
        })),
        "it is not sealed",
    );
    refused(
        UpdateContent::Task(Box::new(v1::Task {
            status: Working.into(),
            messages: vec![said("m", "plain")],
            ..v1::Task::default()
        })),
        "it is not sealed",
    );
    refused(
        UpdateContent::Status(Working, Some(said("m", "sealed by nobody"))),
        "it cannot be opened",
    );
}

#[test]
fn a_failure_may_be_told_by_others_and_is_marked() {
    for status in [Failed, Canceled, Rejected] {
        let text = opened(status, Some(said("m", "nobody is there")))
            .unwrap()
            .unwrap();
        assert_eq!(text, "not sealed, by whoever carries the task: nobody is there");
        assert_eq!(opened(status, None), Ok(None));
    }
    let long = opened(Failed, Some(said("m", &"ä".repeat(5000))))
        .unwrap()
        .unwrap();
    assert!(long.len() < 1100);
    // Where it waits is none of the agent's words.
    assert_eq!(opened(Submitted, Some(said("m", "sent elsewhere"))), Ok(None));
}

#[test]
fn a_state_that_was_changed_is_noticed() {
    for (sealed_as, status) in [
        (Working, Completed),
        (InputRequired, Completed),
        (Completed, InputRequired),
        (Working, Failed),
        (Completed, Rejected),
    ] {
        let error = opened(status, Some(sealed("m", sealed_as, "", "x"))).unwrap_err();
        assert!(error.contains("came with one that"), "{error}");
    }
}

#[test]
fn a_result_that_is_missing_is_noticed() {
    let message = sealed("m", Completed, " here", "x");
    assert!(opened(Completed, Some(message)).is_ok());
    let message = sealed("m", Completed, " here gone", "x");
    let error = opened(Completed, Some(message)).unwrap_err();
    assert!(error.contains("\"gone\" has not come"), "{error}");
}

#[test]
fn a_task_is_opened_whole() {
    let ours = Message {
        role: MessageRole::User.into(),
        ..said("ours", "sealed, and ours")
    };
    let last = sealed("last", Completed, " a", "done");
    let task = v1::Task {
        status: Completed.into(),
        messages: vec![ours.clone(), sealed("p", Working, "", "half"), last.clone()],
        status_message: Some(last),
        artifacts: vec![artifact("a", "sealed: result")],
        ..v1::Task::default()
    };
    let UpdateContent::Task(task) = open(&FakeSeal, UpdateContent::Task(Box::new(task)), |_| false).unwrap()
    else {
        panic!("a task is a task")
    };
    let texts: Vec<&str> = task
        .messages
        .iter()
        .map(|message| text_of(&message.parts))
        .collect();
    assert_eq!(texts, ["sealed, and ours", "half", "done"]);
    assert_eq!(task.messages.last(), task.status_message.as_ref());
    assert_eq!(text_of(&task.artifacts[0].parts), "result");
}
