//! An MCP server as an agent.

use std::path::Path;

use agentanycast_proto::v1::{self, part::Content};
use agentanycast_runner::{
    Backend,
    mcp::{McpBackend, McpEndpoint},
    process::ProgramCommand,
};
use serde_json::{Value, json};

use crate::fake_task::{self, FIRST, FakeTask, PATIENCE, command, failure, helper, run, text};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/backends/mcp_server.py");

/// A server.
struct Stub {
    server: McpBackend,
}

impl std::ops::Deref for Stub {
    type Target = McpBackend;

    fn deref(&self) -> &McpBackend {
        &self.server
    }
}

fn started_as(command: ProgramCommand) -> Stub {
    let endpoint = McpEndpoint::Command(command);
    Stub {
        server: McpBackend::new(endpoint, Some(helper()), 4 << 20).unwrap(),
    }
}

fn server() -> Stub {
    started_as(command("python3", &["-u", SERVER]))
}

async fn skill_ids(server: &McpBackend) -> Vec<String> {
    let skills = server
        .skills()
        .await
        .unwrap()
        .expect("the server has skills of its own");
    skills.into_iter().map(|skill| skill.id).collect()
}

#[tokio::test]
async fn tools_of_all_pages_are_skills_with_their_schemas() {
    let server = server();
    let skills = server.skills().await.unwrap().unwrap();
    let ids: Vec<_> = skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "add", "greet", "picture", "slow", "fail", "change", "exit", "large", "ask", "broken", "lists",
            "bare"
        ]
    );
    let schema: Value = serde_json::from_str(&skills[0].input_schema).unwrap();
    assert_eq!(schema["required"], json!(["b", "a"]));
    let schema: Value = serde_json::from_str(&skills[0].output_schema).unwrap();
    assert_eq!(schema["properties"]["sum"]["type"], "number");
    assert_eq!(skills[1].description, "does greet");
    server.stop().await;
}

#[tokio::test]
async fn a_task_calls_the_tool_of_its_skill() {
    let server = server();
    let sum = run(&*server, &FakeTask::text("c", "add", r#"{"a": 1, "b": 2.5}"#))
        .await
        .unwrap();
    assert_eq!(sum[0].name, "add");
    let [part] = sum[0].parts.as_slice() else {
        panic!("{sum:?}")
    };
    assert_eq!(part.media_type, "application/json");
    assert!(matches!(&part.content, Some(Content::DataPart(_))));
    let greeting = run(&*server, &FakeTask::text("c", "greet", "Ada")).await.unwrap();
    assert_eq!(greeting[0].parts, [text("Hello, Ada!")]);
    let picture = run(&*server, &FakeTask::text("c", "picture", "")).await.unwrap();
    assert_eq!(picture[0].parts[0].media_type, "image/png");
    let large = FakeTask::text("c", "large", r#"{"bytes": 1000000}"#);
    assert!(run(&*server, &large).await.unwrap().is_empty());
    assert_eq!(large.streamed_text().len(), 1_000_000);
    server.stop().await;
}

#[tokio::test]
async fn a_task_that_calls_nothing_is_told_what_there_is() {
    let server = server();
    let why = failure(&*server, &FakeTask::text("c", "add", "one and two")).await;
    assert!(why.contains(r#""required":["b","a"]"#), "{why}");
    let why = failure(&*server, &FakeTask::text("c", "", "hello")).await;
    assert!(why.contains("add, greet"), "{why}");
    assert_eq!(
        failure(&*server, &FakeTask::text("c", "fail", "")).await,
        "it is closed on Sundays"
    );
    let why = failure(&*server, &FakeTask::text("c", "add", r#"{"a": "x", "b": 1}"#)).await;
    assert!(why.contains("TypeError"), "{why}");
    let why = failure(&*server, &FakeTask::text("c", "large", r#"{"bytes": 5000000}"#)).await;
    assert!(why.contains("--max-output"), "{why}");
    server.stop().await;
}

#[tokio::test]
async fn progress_is_told_and_a_cancelled_task_cancels_the_call() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let (canceled, dropped) = (folder.path().join("canceled"), folder.path().join("dropped"));
    let slow = |file: &Path| FakeTask::text("c", "slow", &json!({"file": file}).to_string());

    let task = slow(&canceled);
    let cancelling = async {
        task.until(|task| task.progress.lock().unwrap().len() == 2).await;
        task.cancelled.cancel();
    };
    let (ended, ()) = tokio::join!(server.run(&task, FIRST), cancelling);
    ended.unwrap_err();
    assert_eq!(*task.progress.lock().unwrap(), ["begun", "2 of 3"]);
    task.until(|_| std::fs::read(&canceled).is_ok_and(|text| text == b"cancelled"))
        .await;

    let task = slow(&dropped);
    tokio::select! {
        ended = server.run(&task, FIRST) => panic!("{ended:?}"),
        () = task.until(|task| !task.progress.lock().unwrap().is_empty()) => {}
    }
    task.until(|_| std::fs::read(&dropped).is_ok_and(|text| text == b"cancelled"))
        .await;
    server.stop().await;
}

#[tokio::test]
async fn skills_follow_the_tools() {
    let server = server();
    assert!(!skill_ids(&server).await.contains(&"new".to_owned()));
    run(&*server, &FakeTask::text("c", "change", "")).await.unwrap();
    tokio::time::timeout(PATIENCE, server.skills_changed())
        .await
        .unwrap();
    assert!(skill_ids(&server).await.contains(&"new".to_owned()));
    let said = run(&*server, &FakeTask::text("c", "new", "")).await.unwrap();
    assert_eq!(said[0].parts, [text("I am new")]);
    // The server says 600 times that they have changed.
    let lists = run(&*server, &FakeTask::text("c", "lists", "")).await.unwrap();
    let lists: usize = text_of(&lists[0]).parse().unwrap();
    assert!(lists < 20, "{lists}");
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_lists_no_tools_at_first_gets_them() {
    for refuses in ["", "refuse"] {
        let server = started_as(command("python3", &["-u", SERVER, "3", refuses]));
        assert!(skill_ids(&server).await.is_empty());
        // Its tasks wait.
        let task = FakeTask::text("c", "greet", "Ada");
        let greeting = run(&*server, &task).await.unwrap();
        assert_eq!(greeting[0].parts, [text("Hello, Ada!")]);
        tokio::time::timeout(PATIENCE, server.skills_changed())
            .await
            .unwrap();
        assert!(skill_ids(&server).await.contains(&"add".to_owned()));
        server.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_handshake_at_first_is_greeted_again() {
    // The same process: it counts what it refuses.
    let server = started_as(command("python3", &["-u", SERVER, "2", "start"]));
    assert!(skill_ids(&server).await.contains(&"add".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_refuses_the_handshake_for_good_is_said() {
    let refuse = r#"while read line; do
        id=${line#*\"id\":}; id=${id%%[,\}]*}
        echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32602,\"message\":\"unsupported version\"}}"
        done; sleep 60"#;
    let server = started_as(command("sh", &["-c", refuse]));
    let refused = tokio::time::timeout(PATIENCE, server.skills()).await;
    let why = refused.unwrap().unwrap_err().to_string();
    assert!(why.contains("unsupported version"), "{why}");
    // The runner ended it.
    assert!(!why.contains("signal"), "{why}");
    server.stop().await;
}

#[tokio::test]
async fn a_page_of_tools_that_is_refused_is_asked_for_again() {
    let server = started_as(command("python3", &["-u", SERVER, "2", "page"]));
    assert_eq!(skill_ids(&server).await, ["add", "greet"]);
    tokio::time::timeout(PATIENCE, server.skills_changed())
        .await
        .unwrap();
    assert!(skill_ids(&server).await.contains(&"bare".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn a_question_of_a_tool_is_one_to_the_sender() {
    let server = server();
    let task = FakeTask::text("c", "ask", "").answering("Rome");
    let said = run(&*server, &task).await.unwrap();
    let said: Value = serde_json::from_str(&text_of(&said[0])).unwrap();
    assert_eq!(said, json!({"action": "accept", "content": {"city": "Rome"}}));
    let asked = task.questions.lock().unwrap().remove(0);
    assert!(fake_task::text_of(&asked).contains("Which city?"), "{asked:?}");
    let schema = asked
        .parts
        .iter()
        .find_map(agentanycast_proto::parts::data_of)
        .unwrap();
    assert_eq!(
        schema["elicitation"]["requestedSchema"]["required"],
        json!(["city"])
    );
    let task = FakeTask::text("c", "ask", "").answering("decline");
    let said = run(&*server, &task).await.unwrap();
    assert!(text_of(&said[0]).contains(r#""action": "decline""#), "{said:?}");
    server.stop().await;
}

#[tokio::test]
async fn what_is_good_of_an_answer_is_kept_and_what_is_not_is_said() {
    let server = server();
    let said = run(&*server, &FakeTask::text("c", "bare", "{}")).await.unwrap();
    assert_eq!((said[0].parts.len(), text_of(&said[0]).as_str()), (2, "bare"));
    let why = failure(&*server, &FakeTask::text("c", "broken", "")).await;
    assert!(why.contains("cannot be read") && why.contains("NaN"), "{why}");
    let greeting = run(&*server, &FakeTask::text("c", "greet", "Ada")).await.unwrap();
    assert_eq!(greeting[0].parts, [text("Hello, Ada!")]);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_needs_no_end_of_line() {
    let server = server();
    for shape in ["@", "@\r", "\u{1b}[32m@\u{1b}[0m", "#"] {
        for _ in 0..2 {
            let arguments = json!({"unended": shape}).to_string();
            let said = run(&*server, &FakeTask::text("c", "bare", &arguments))
                .await
                .unwrap();
            assert_eq!(text_of(&said[0]), "unended");
        }
    }
    let prefixed = json!({"unended": "INFO: @\n"}).to_string();
    let why = failure(&*server, &FakeTask::text("c", "bare", &prefixed)).await;
    assert!(why.contains("INFO: {"), "{why}");
    server.stop().await;
}

/// The texts of a result.
fn text_of(artifact: &v1::Artifact) -> String {
    agentanycast_proto::parts::text_of(&artifact.parts)
}

#[tokio::test]
async fn a_server_that_ends_is_started_again() {
    let server = server();
    let why = failure(&*server, &FakeTask::text("c", "exit", "")).await;
    assert!(why.contains("the MCP server ended"), "{why}");
    let greeting = run(&*server, &FakeTask::text("c", "greet", "Ada")).await.unwrap();
    assert_eq!(greeting[0].parts, [text("Hello, Ada!")]);
    server.stop().await;
    let why = failure(&*server, &FakeTask::text("c", "greet", "Ada")).await;
    assert!(why.contains("stopped"), "{why}");
}

#[tokio::test]
async fn a_server_that_does_not_start_is_said() {
    let missing = started_as(command("/no/such/server", &["x"]));
    let why = missing.skills().await.unwrap_err().to_string();
    assert!(
        why.contains("cannot be started") && why.ends_with(": server"),
        "{why}"
    );
    let wrong = started_as(command("sh", &["-c", "echo wrong >&2; exit 3"]));
    let why = wrong.skills().await.unwrap_err().to_string();
    assert!(why.contains("exit code 3") && why.contains("wrong"), "{why}");
}
