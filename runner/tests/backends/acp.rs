//! An agent of the Agent Client Protocol as an agent.

use std::{path::Path, time::Duration};

use agentanycast_proto::v1;
use agentanycast_runner::{
    Backend,
    acp::{AcpBackend, AcpConfig, Permit},
};
use serde_json::Value;

use crate::fake_task::{FIRST, FakeTask, command, failure, helper, run, text_of};

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/backends/acp_agent.py");

struct Setting {
    folder: tempfile::TempDir,
    config: AcpConfig,
}

impl Setting {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().join("work");
        std::fs::create_dir(&cwd).unwrap();
        let config = AcpConfig {
            command: command("python3", &["-u", AGENT]),
            cwd,
            permit: Permit::Ask,
            session_file: folder.path().join("sessions.json"),
            permit_timeout: Duration::from_secs(30),
            terminal: false,
            max_output: 4 << 20,
        };
        Self { folder, config }
    }

    /// An agent that loads its sessions.
    fn loading() -> Self {
        let mut setting = Self::new();
        let memory = setting.folder.path().join("memory.json");
        setting.config.command.args.extend(["load".into(), memory.into()]);
        setting
    }

    fn agent(&self) -> AcpBackend {
        AcpBackend::new(self.config.clone(), Some(helper())).unwrap()
    }

    fn file(&self, name: &str) -> String {
        self.config.cwd.join(name).display().to_string()
    }
}

/// What the agent says to a prompt.
async fn said(agent: &AcpBackend, words: &str) -> String {
    let task = FakeTask::text("c", "", words);
    assert!(run(agent, &task).await.unwrap().is_empty());
    task.streamed_text()
}

#[tokio::test]
async fn what_an_agent_says_is_streamed() {
    let setting = Setting::new();
    let agent = setting.agent();
    assert!(agent.skills().await.unwrap().is_none());
    assert_eq!(said(&agent, "say one two").await, "one two ");
    let task = FakeTask::text("c", "", "paragraphs");
    run(&agent, &task).await.unwrap();
    assert_eq!(task.streamed_text(), "one\n\ntwo");
    assert_eq!(task.streams.lock().unwrap()["answer"].media_type, "text/markdown");
    assert_eq!(*task.progress.lock().unwrap(), ["Look around: done"]);
    let nothing = FakeTask::text("c", "", "nothing");
    assert!(run(&agent, &nothing).await.unwrap().is_empty());
    assert!(nothing.streams.lock().unwrap().is_empty());
    agent.stop().await;
}

#[tokio::test]
async fn parts_are_blocks_of_the_prompt() {
    let setting = Setting::new();
    let agent = setting.agent();
    let file = v1::Part {
        content: Some(v1::part::Content::RawPart(v1::RawPart {
            data: b"fn main() {}".to_vec(),
            filename: "a.rs".to_owned(),
        })),
        media_type: "text/x-rust".to_owned(),
        ..v1::Part::default()
    };
    let task = FakeTask::new("c", "", vec![crate::fake_task::text("blocks"), file]);
    run(&agent, &task).await.unwrap();
    let blocks: Value = serde_json::from_str(&task.streamed_text()).unwrap();
    assert_eq!(blocks[1]["resource"]["text"], "fn main() {}");
    assert_eq!(blocks[1]["resource"]["uri"], "attachment:///a.rs");
    agent.stop().await;
}

#[tokio::test]
async fn a_conversation_is_a_session() {
    let setting = Setting::new();
    let agent = setting.agent();
    said(&agent, "say one").await;
    assert_eq!(said(&agent, "history").await, "say one|history");
    let other = FakeTask::text("d", "", "history");
    run(&agent, &other).await.unwrap();
    assert_eq!(other.streamed_text(), "history");
    agent.stop().await;
}

#[tokio::test]
async fn a_session_is_loaded_after_a_restart_where_the_agent_can() {
    for (setting, history) in [
        (Setting::loading(), "say one|history"),
        (Setting::new(), "history"),
    ] {
        let agent = setting.agent();
        said(&agent, "say one").await;
        agent.stop().await;
        let agent = setting.agent();
        assert_eq!(said(&agent, "history").await, history);
        agent.stop().await;
    }
}

#[tokio::test]
async fn an_agent_that_ends_is_started_again_and_its_sessions_go_on() {
    let setting = Setting::loading();
    let agent = setting.agent();
    said(&agent, "say one").await;
    let why = failure(&agent, &FakeTask::text("d", "", "die")).await;
    assert!(why.contains("agent"), "{why}");
    assert_eq!(said(&agent, "history").await, "say one|history");
    agent.stop().await;

    let setting = Setting::new();
    let agent = setting.agent();
    said(&agent, "say one").await;
    failure(&agent, &FakeTask::text("d", "", "die")).await;
    let task = FakeTask::text("c", "", "history");
    run(&agent, &task).await.unwrap();
    assert_eq!(task.streamed_text(), "history");
    assert!(task.progress.lock().unwrap()[0].contains("does not know what was said before"));
    agent.stop().await;
}

#[tokio::test]
async fn the_sender_is_asked_for_permission() {
    let setting = Setting::new();
    let agent = setting.agent();
    let task = FakeTask::text("c", "", "permit edit")
        .answering("perhaps")
        .answering("yes");
    run(&agent, &task).await.unwrap();
    assert_eq!(task.streamed_text(), "the-allow_once");
    {
        let questions = task.questions.lock().unwrap();
        assert_eq!(questions.len(), 2);
        assert!(text_of(&questions[0]).contains("Do edit"));
        assert!(text_of(&questions[1]).contains("none of the options"));
    }
    let both = FakeTask::text("c", "", "twice")
        .answering("the-allow_always")
        .answering("no");
    run(&agent, &both).await.unwrap();
    assert_eq!(both.streamed_text(), "the-allow_always the-reject_once");
    agent.stop().await;
}

#[tokio::test]
async fn permission_is_given_by_rules_and_no_answer_is_no() {
    for (permit, kind, answer) in [
        (Permit::All, "execute", "the-allow_once"),
        (Permit::Read, "read", "the-allow_once"),
        (Permit::Read, "edit", "the-reject_once"),
        (Permit::None, "read", "the-reject_once"),
    ] {
        let mut setting = Setting::new();
        setting.config.permit = permit;
        setting.config.permit_timeout = Duration::from_millis(50);
        let agent = setting.agent();
        let task = FakeTask::text("c", "", &format!("permit {kind}"));
        run(&agent, &task).await.unwrap();
        assert_eq!(task.streamed_text(), answer, "{permit:?} {kind}");
        let asked = task.questions.lock().unwrap().len();
        assert_eq!(
            asked,
            usize::from(permit == Permit::Read && kind == "edit"),
            "{permit:?} {kind}"
        );
        agent.stop().await;
    }
}

#[tokio::test]
async fn a_canceled_or_dropped_task_cancels_the_turn() {
    let setting = Setting::new();
    let agent = setting.agent();
    let noticed = |file: &str| std::fs::read(Path::new(file)).is_ok_and(|text| text == b"cancelled");
    let works = |task: &FakeTask| !task.progress.lock().unwrap().is_empty();

    let file = setting.file("canceled");
    let task = FakeTask::text("c", "", &format!("work {file}"));
    let cancelling = async {
        task.until(works).await;
        task.cancelled.cancel();
    };
    let (ended, ()) = tokio::join!(agent.run(&task, FIRST), cancelling);
    ended.unwrap_err();
    task.until(|_| noticed(&file)).await;

    let file = setting.file("dropped");
    let task = FakeTask::text("d", "", &format!("work {file}"));
    tokio::select! {
        ended = agent.run(&task, FIRST) => panic!("{ended:?}"),
        () = task.until(works) => {}
    }
    task.until(|_| noticed(&file)).await;

    // One that waits for an answer.
    let task = FakeTask::text("e", "", "permit edit");
    let cancelling = async {
        task.until(|task| !task.questions.lock().unwrap().is_empty())
            .await;
        task.cancelled.cancel();
    };
    let (ended, ()) = tokio::join!(agent.run(&task, FIRST), cancelling);
    ended.unwrap_err();
    assert_eq!(said(&agent, "say well").await, "well ");
    agent.stop().await;
}

#[tokio::test]
async fn files_are_read_and_written_inside_the_directory_alone() {
    let setting = Setting::new();
    let agent = setting.agent();
    let (inside, outside) = (setting.file("a/b.txt"), setting.folder.path().join("secret"));
    std::fs::write(&outside, "secret").unwrap();
    assert_eq!(said(&agent, &format!("write {inside}")).await, "ok");
    assert_eq!(said(&agent, &format!("read {inside}")).await, "written");
    let refused = said(&agent, &format!("read {}", outside.display())).await;
    assert!(refused.contains("is outside of"), "{refused}");
    assert_eq!(
        said(&agent, &format!("write {}", outside.display())).await,
        "error"
    );
    assert_eq!(std::fs::read(&outside).unwrap(), b"secret");
    agent.stop().await;
}

#[tokio::test]
async fn commands_are_run_only_where_they_are_offered() {
    let mut setting = Setting::new();
    let agent = setting.agent();
    let refused = said(&agent, "run pwd; exit 3").await;
    assert!(refused.contains("--terminal"), "{refused}");
    agent.stop().await;
    setting.config.terminal = true;
    let agent = setting.agent();
    let cwd = setting.config.cwd.canonicalize().unwrap();
    assert_eq!(
        said(&agent, "run pwd; exit 3").await,
        format!("3 {}", cwd.display())
    );
    agent.stop().await;
}

#[tokio::test]
async fn what_an_agent_says_is_bounded_and_a_refusal_is_a_failure() {
    let setting = Setting::new();
    let agent = setting.agent();
    let why = failure(&agent, &FakeTask::text("c", "", "flood 100")).await;
    assert!(why.contains("--max-output"), "{why}");
    assert_eq!(
        failure(&agent, &FakeTask::text("c", "", "refuse")).await,
        "the agent refused to go on"
    );
    assert_eq!(said(&agent, "say well").await, "well ");
    agent.stop().await;
}

#[tokio::test]
async fn an_agent_that_does_not_start_is_said() {
    let mut setting = Setting::new();
    setting.config.command = command("sh", &["-c", "echo wrong >&2; exit 3"]);
    let why = setting.agent().skills().await.unwrap_err().to_string();
    assert!(why.contains("exit code 3") && why.contains("wrong"), "{why}");
    setting.config.cwd = "/no/such/directory".into();
    assert!(AcpBackend::new(setting.config, Some(helper())).is_err());
}
