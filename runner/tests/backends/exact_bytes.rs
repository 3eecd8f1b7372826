//! Programs whose bytes are not what their protocol wants: no call waits for an answer that cannot be read, no part of an
//! answer gets lost or into the answer of another turn.

use std::time::Duration;

use agentanycast_runner::{
    Backend, TaskResult,
    acp::{AcpBackend, AcpConfig, Permit},
    jsonl::JsonlBackend,
};
use serde_json::{Value, json};

use crate::fake_task::{FIRST, FakeTask, command, failure, helper, run, text_of};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/backends/exact_bytes.py");

/// The end of a turn.
const END: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"@ID\",\"result\":{\"stopReason\":\"end_turn\"}}\n";

/// The end of a task of JSON lines.
const RESULT: &str = "{\"type\":\"result\",\"id\":\"@ID\"}\n";

/// Lines of a log, which are no messages.
const LOG: &str =
    "Starting...\n{\"level\":\"info\",\"id\":\"7\"}\n{\n  \"level\": \"info\"\n}\n[1, 2]\ncaf\u{e9}\n";

fn jsonl() -> JsonlBackend {
    JsonlBackend::new(command("python3", &["-u", PROGRAM]), Some(helper())).unwrap()
}

fn acp(folder: &tempfile::TempDir) -> AcpBackend {
    let cwd = folder.path().join("work");
    std::fs::create_dir_all(&cwd).unwrap();
    let config = AcpConfig {
        command: command("python3", &["-u", PROGRAM, "acp"]),
        cwd,
        permit: Permit::All,
        session_file: folder.path().join("sessions.json"),
        permit_timeout: Duration::from_mins(1),
        terminal: false,
        max_output: 4 << 20,
    };
    AcpBackend::new(config, Some(helper())).unwrap()
}

/// A task `id` of a conversation that has the program do these steps.
fn task(id: &str, conversation: &str, steps: &Value) -> FakeTask {
    let mut task = FakeTask::text(conversation, "", &steps.to_string());
    id.clone_into(&mut task.task.task_id);
    task
}

/// A part of an answer.
fn say(text: &str, message_id: Option<&str>) -> String {
    let mut update =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    if let Some(id) = message_id {
        update["messageId"] = id.into();
    }
    let params = json!({"sessionId": "@SESSION", "update": update});
    format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
    )
}

async fn said(agent: &AcpBackend, conversation: &str, steps: Value) -> (String, Vec<String>) {
    let task = task("t", conversation, &steps);
    run(agent, &task).await.unwrap();
    let progress = task.progress.lock().unwrap().clone();
    (task.streamed_text(), progress)
}

/// The task fails by the line, while another task of the program goes on: that says that it works, and ends later.
async fn fails_beside_another(backend: &dyn Backend, bad: &str, shown: &str, works: &str, end: &str) {
    let folder = tempfile::tempdir().unwrap();
    let go_on = folder.path().join("go on");
    let good = task("good", "d", &json!([works, {"until": go_on}, end]));
    let failing = async {
        good.until(|good| {
            !good.progress.lock().unwrap().is_empty() || !good.streams.lock().unwrap().is_empty()
        })
        .await;
        let why = failure(backend, &task("bad", "c", &json!([LOG, bad, 60]))).await;
        std::fs::write(&go_on, "").unwrap();
        why
    };
    let (ended, why) = tokio::join!(backend.run(&good, FIRST), failing);
    assert!(why.contains(shown), "{bad}: {why}");
    ended.unwrap();
}

#[tokio::test]
async fn a_line_of_json_lines_that_cannot_be_read_fails_its_task_alone() {
    let program = jsonl();
    for (bad, shown) in [
        (
            "{\"type\":\"result\",\"id\":\"@ID\",\"data\":NaN}\n",
            "\"data\":NaN",
        ),
        (
            "{\"type\":\"result\",\"id\":\"@ID\",\"text\":\"caf\u{e9}\"}\n",
            "caf\u{fffd}",
        ),
        (
            "{\"type\":\"working\",\"id\":\"@ID\",\"text\":\"a\"}{\"type\":\"result\",\"id\":\"@ID\"}\n",
            "\"working\"",
        ),
        (
            "{\n  \"type\": \"result\",\n  \"id\": \"@ID\"\n}\n",
            "\"type\": \"result\"",
        ),
        (
            "{\n  \"type\": \"result\",\n  \"id\": \"@ID\",\n",
            "\"type\": \"result\"",
        ),
        ("{\"type\":\"finished\",\"id\":\"@ID\"}\n", "finished"),
        ("INFO: {\"type\":\"result\",\"id\":\"@ID\"}\n", "INFO: {"),
        (
            "Loading...{\"type\":\"chunk\",\"id\":\"@ID\",\"text\":\"x\"}",
            "Loading...{",
        ),
        ("{ type\":\"chunk\",\"id\":\"@ID\",\"text\":\"x\"}\n", "{ type"),
        (
            "\"{\\\"type\\\":\\\"chunk\\\",\\\"id\\\":\\\"@ID\\\",\\\"text\\\":\\\"x\\\"}\"\n",
            "chunk",
        ),
    ] {
        let works = "{\"type\":\"working\",\"id\":\"@ID\",\"text\":\"I work\"}\n";
        fails_beside_another(&program, bad, shown, works, RESULT).await;
    }
    // It is the only task.
    let wrong = json!(["{\"type\":\"result\",\"id\":\"wrong\",\"text\":\"lost\"}\n", 60]);
    let why = failure(&program, &task("one", "c", &wrong)).await;
    assert!(
        why.contains("\"wrong\" is not the id") && why.contains("lost"),
        "{why}"
    );
    program.stop().await;
}

/// Each shape of a line comes twice: the second one is no part of the first.
#[tokio::test]
async fn a_line_of_json_lines_needs_no_end() {
    let program = jsonl();
    let result = RESULT.trim_end();
    let echo = format!("sends {RESULT}");
    for steps in [
        json!([result]),
        json!(["\r", result, "\r"]),
        json!([format!("\x1b[32m{result}\x1b[0m")]),
        json!([format!("10%\r100%\r{RESULT}")]),
        json!([echo, 0.1, RESULT]),
        json!([result.replace(',', ",\r"), "\r"]),
    ] {
        for _ in 0..2 {
            run(&program, &task("t", "c", &steps)).await.unwrap();
        }
    }
    // A slow writer.
    let (begin, end) = RESULT.split_at(12);
    run(&program, &task("t", "c", &json!([begin, 1, end])))
        .await
        .unwrap();
    program.stop().await;
}

#[tokio::test]
async fn utf_16_and_utf_32_are_named() {
    let program = jsonl();
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    for (key, name) in [("utf16", "UTF-16"), ("utf32", "UTF-32")] {
        for end in ["", "\n"] {
            let text = format!("{}{end}", RESULT.trim_end());
            let why = failure(&program, &task("t", "c", &json!([LOG, {key: text}, 60]))).await;
            assert!(why.contains(name) && why.contains("\"result\""), "{why}");
        }
        let why = failure(&agent, &task("t", "c", &json!([LOG, {key: END}, 60]))).await;
        assert!(why.contains(name) && why.contains("end_turn"), "{why}");
    }
    program.stop().await;
    agent.stop().await;
}

#[tokio::test]
async fn colours_within_an_object_are_left_out() {
    let coloured = |line: &str, key: &str| line.replacen(key, &format!("\x1b[34;1m{key}\x1b[0m"), 1);
    let program = jsonl();
    let chunk = |text: &str| format!("{{\"type\":\"chunk\",\"id\":\"@ID\",\"text\":\"{text}\"}}\n");
    let second = coloured(&coloured(&chunk("second"), "\"type\""), "\"@ID\"");
    let whole = task(
        "t",
        "c",
        &json!([chunk("first "), second, coloured(RESULT, "\"type\"")]),
    );
    run(&program, &whole).await.unwrap();
    assert_eq!(whole.streamed_text(), "first second");
    program.stop().await;
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    let key = "\"jsonrpc\"";
    let steps = json!([
        say("first ", None),
        coloured(&say("second", None), key),
        coloured(END, key)
    ]);
    assert_eq!(said(&agent, "c", steps).await.0, "first second");
    agent.stop().await;
}

#[tokio::test]
async fn a_part_of_an_answer_behind_other_text_decides_before_its_turn_ends() {
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    let (first, second) = (say("first ", None), say("second", None));
    for steps in [
        json!([format!("INFO: {second}{END}")]),
        json!([first, 0.2, format!("INFO: {second}{END}")]),
        json!([first, format!("INFO: {second}"), 0.1, END]),
        json!([first, format!("INFO: {second}"), 0.4, END.trim_end()]),
        // Behind the end of the turn.
        json!([first, END, 0.1, format!("INFO: {second}")]),
    ] {
        let why = failure(&agent, &task("t", "c", &steps)).await;
        assert!(why.contains("INFO: {") && why.contains("second"), "{why}");
    }
    // A line of a log is none of the answer.
    for steps in [
        json!([first, format!("INFO: {second}{END}{second}")]),
        json!([first, format!("INFO: {second}{second}{END}")]),
        json!([first, format!("INFO: {second}{END}"), 0.1, second]),
    ] {
        assert_eq!(said(&agent, "c", steps).await.0, "first second");
    }
    let told = json!({"jsonrpc": "2.0", "method": "session/prompt", "params": {"sessionId": "@SESSION"}});
    let steps = json!([first, format!("got {told}\n{END}")]);
    assert_eq!(said(&agent, "c", steps).await.0, "first ");
    agent.stop().await;
}

#[tokio::test]
async fn half_a_character_in_json_lines_is_replaced_and_what_is_said_beside_a_question_is_kept() {
    let program = jsonl();
    let steps = json!([
        LOG,
        "{\"type\":\"question\",\"id\":\"@ID\",\"text\":\"which?\"}\n",
        "{\"type\":\"chunk\",\"id\":\"@ID\",\"text\":\"half \\ud83d\"}\n",
        RESULT,
    ]);
    let task = task("t", "c", &steps);
    run(&program, &task).await.unwrap();
    assert_eq!(task.questions.lock().unwrap().len(), 1);
    assert_eq!(task.streamed_text(), "half \u{fffd}");
    program.stop().await;
}

#[tokio::test]
async fn halves_of_a_character_are_one_whatever_json_lines_stand_between() {
    let program = jsonl();
    let line = |kind: &str, more: &str| format!("{{\"type\":\"{kind}\",\"id\":\"@ID\",{more}}}\n");
    for between in [
        line("working", "\"text\":\"p\""),
        line("question", "\"text\":\"which?\""),
        line("chunk", "\"text\":\"\""),
        line("chunk", "\"name\":\"other\",\"text\":\"\",\"last\":true"),
    ] {
        let steps = json!([
            line("chunk", "\"text\":\"A\\ud83d\""),
            between,
            line("chunk", "\"text\":\"\\ude00B\""),
            RESULT,
        ]);
        let task = task("t", "c", &steps);
        run(&program, &task).await.unwrap();
        let streams = task.streams.lock().unwrap();
        assert_eq!(streams["result"].bytes, "A\u{1f600}B".as_bytes(), "{between}");
    }
    program.stop().await;
}

#[tokio::test]
async fn a_line_of_an_acp_agent_that_cannot_be_read_fails_its_call_alone() {
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    for (bad, shown) in [
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"@ID\",\"result\":{\"stopReason\":\"end_turn\",\"x\":NaN}}\n",
            "NaN",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"@ID\",\"result\":{\"stopReason\":\"caf\u{e9}\"}}\n",
            "caf\u{fffd}",
        ),
        (&say("caf\u{e9}", None), "caf\u{fffd}"),
        (&format!("{}{END}", say("x", None).trim_end()), "end_turn"),
        (
            "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": \"@ID\",\n  \"result\": {}\n}\n",
            "\"id\": ",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"@ID\",\"result\":{\"stopReason\":\"of_tomorrow\"}}\n",
            "of_tomorrow",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"@ID\",\"result\":{}}\n",
            "stopReason",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":\"@ID\",\"error\":\"tired\"}\n",
            "tired",
        ),
        (&format!("DEBUG {}", END.trim_end()), "DEBUG {"),
    ] {
        fails_beside_another(&agent, bad, shown, &say("I work", None), END).await;
    }
    let wrong = json!([
        "{\"jsonrpc\":\"2.0\",\"id\":\"wrong\",\"result\":{\"stopReason\":\"end_turn\"}}\n",
        60
    ]);
    let why = failure(&agent, &task("one", "c", &wrong)).await;
    assert!(
        why.contains("not that of a call") && why.contains("wrong"),
        "{why}"
    );
    agent.stop().await;
}

#[tokio::test]
async fn halves_of_a_character_are_one_whatever_an_acp_agent_does_between() {
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    let update = |update: &Value| {
        let params = json!({"sessionId": "@SESSION", "update": update});
        format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
        )
    };
    let half = |text: &str| say("@HALF", None).replace("@HALF", text);
    let thought = json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}});
    let tool = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "look"});
    for (between, whole) in [
        (json!({"sessionUpdate": "plan", "entries": []}), "A\u{1f600}B"),
        (
            json!({"sessionUpdate": "available_commands_update", "availableCommands": []}),
            "A\u{1f600}B",
        ),
        (thought, "A\u{1f600}B"),
        // What follows a call of a tool is a paragraph.
        (tool, "A\n\n\u{1f600}B"),
    ] {
        let steps = json!([half("A\\ud83d"), update(&between), half("\\ude00B"), END]);
        assert_eq!(said(&agent, "c", steps).await.0, whole, "{between}");
    }
    agent.stop().await;
}

#[tokio::test]
async fn what_an_acp_agent_means_in_one_way_is_understood() {
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    let half = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"@SESSION\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"half \\ud83d\"}}}}\n";
    let no_version = END.replace("\"jsonrpc\":\"2.0\",", "");
    for end in [END.trim_end(), &END.replace('\n', "\r"), &format!("\x1b[1m{END}")] {
        for _ in 0..2 {
            let steps = json!([format!("got {END}"), say("x", None), end]);
            assert_eq!(said(&agent, "c", steps).await.0, "x");
        }
    }
    assert_eq!(
        said(&agent, "c", json!([LOG, half, no_version])).await.0,
        "half \u{fffd}"
    );

    let options = json!([{"optionId": "hour", "name": "For an hour", "kind": "allow_for_an_hour"}]);
    let params = json!({"sessionId": "@SESSION", "toolCall": {"toolCallId": "1", "title": "Edit"}, "options": options});
    let request = format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": 4, "method": "session/request_permission", "params": params})
    );
    let asking = task(
        "t",
        "c",
        &json!([request, {"await": 4}, say("@ANSWER", None), END]),
    )
    .answering("for an hour");
    run(&agent, &asking).await.unwrap();
    assert_eq!(asking.streamed_text(), "hour");

    // What is said while the sender is asked is kept for later.
    let request = request.replace("\"id\":4", "\"id\":5");
    let asking = task("t", "c", &json!([request, say("meanwhile", None), END]));
    run(&agent, &asking).await.unwrap();
    assert_eq!(
        (
            asking.streamed_text().as_str(),
            asking.questions.lock().unwrap().len()
        ),
        ("meanwhile", 1)
    );

    let video = json!({"type": "video", "seconds": 3});
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": video});
    let params = json!({"sessionId": "@SESSION", "update": update});
    let shown = format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
    );
    let artifacts = run(&agent, &task("t", "c", &json!([shown, END]))).await.unwrap();
    assert!(format!("{artifacts:?}").contains("seconds"), "{artifacts:?}");
    agent.stop().await;
}

#[tokio::test]
async fn a_turn_of_thoughts_alone_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    let think = say("I wonder", None).replace("agent_message_chunk", "agent_thought_chunk");
    let why = failure(&agent, &task("t", "c", &json!([think, END]))).await;
    assert_eq!(
        why,
        "the agent ended its turn without an answer, after these thoughts: I wonder"
    );
    assert_eq!(
        said(&agent, "c", json!([think, say("hi", None), END])).await.0,
        "hi"
    );
    // One that has worked need not say anything.
    let update = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Edit"});
    let params = json!({"sessionId": "@SESSION", "update": update});
    let edit = format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
    );
    let worked = task("t", "c", &json!([think, edit, END]));
    let TaskResult::Completed { artifacts, message } = agent.run(&worked, FIRST).await.unwrap() else {
        panic!("the task is completed");
    };
    let told = text_of(&message.unwrap());
    assert!(
        artifacts.is_empty() && told.ends_with("Its thoughts were: I wonder"),
        "{told}"
    );
    let unknown = END.replace("end_turn", "of_tomorrow");
    let why = failure(&agent, &task("t", "c", &json!([unknown]))).await;
    assert_eq!(
        why,
        "the agent failed: it ended its turn for a reason that is not known: of_tomorrow"
    );
    agent.stop().await;
}

#[tokio::test]
async fn what_an_acp_agent_says_behind_its_response_is_part_of_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    let (text, _) = said(&agent, "c", json!([say("Hel", None), END, 0.1, say("lo", None)])).await;
    assert_eq!(text, "Hello");
    let (text, _) = said(&agent, "c", json!([END, 0.1, say("all of it", Some("m1"))])).await;
    assert_eq!(text, "all of it");
    // It comes too late, in the next turn, and is told beside its answer.
    let late = json!([say("one ", Some("m2")), END]);
    assert_eq!(said(&agent, "c", late).await.0, "one ");
    let next = json!([say("late", Some("m2")), say("two", Some("m3")), END]);
    let (text, told) = said(&agent, "c", next).await;
    assert_eq!(text, "two");
    assert!(told.iter().any(|told| told.ends_with("said: late")), "{told:?}");
    // Outside of every turn.
    let (text, _) = said(
        &agent,
        "c",
        json!([say("three", None), END, 1.5, say("by the way", None)]),
    )
    .await;
    assert_eq!(text, "three");
    let pause = task("t", "other", &json!([2, END]));
    run(&agent, &pause).await.unwrap();
    let (text, told) = said(&agent, "c", json!([say("four", None), END])).await;
    assert_eq!(text, "four");
    assert!(
        told.iter().any(|told| told.ends_with("said: by the way")),
        "{told:?}"
    );
    agent.stop().await;
}

#[tokio::test]
async fn an_agent_that_gives_the_same_ids_to_all_its_messages_is_heard() {
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    for text in ["one", "two", "three"] {
        let (heard, told) = said(&agent, "c", json!([say(text, Some("same")), END])).await;
        assert_eq!((heard.as_str(), told), (text, Vec::new()));
    }
    agent.stop().await;
}

/// The agent ends the turn later, or never: the next answer is its own.
#[tokio::test]
async fn a_canceled_turn_leaks_nothing_into_the_next() {
    let next_is_clean = async |end: &str| {
        let folder = tempfile::tempdir().unwrap();
        let agent = acp(&folder);
        let steps = json!([
            say("begun", None),
            1,
            say("leaked", None),
            end,
            10,
            say("leaked later", None)
        ]);
        let canceled = task("t", "c", &steps);
        let canceling = async {
            canceled
                .until(|task| !task.streams.lock().unwrap().is_empty())
                .await;
            canceled.cancelled.cancel();
        };
        let (ended, ()) = tokio::join!(agent.run(&canceled, FIRST), canceling);
        ended.unwrap_err();
        let (text, told) = said(&agent, "c", json!([say("my own", None), 1, END])).await;
        assert_eq!(text, "my own");
        assert!(told.iter().any(|told| told.contains("said: leaked")), "{told:?}");
        agent.stop().await;
    };
    tokio::join!(next_is_clean(END), next_is_clean(""));
}

#[tokio::test]
async fn a_session_that_the_agent_does_not_know_is_made_again_once() {
    let folder = tempfile::tempdir().unwrap();
    let agent = acp(&folder);
    assert_eq!(
        said(&agent, "c", json!([say("@SESSION", None), END, "forget"]))
            .await
            .0,
        "s1"
    );
    let (text, told) = said(&agent, "c", json!([say("@SESSION", None), END])).await;
    assert_eq!(text, "s2");
    assert!(told[0].contains("does not know what was said before"), "{told:?}");
    let refused = "{\"jsonrpc\":\"2.0\",\"id\":\"@ID\",\"error\":{\"code\":-32002,\"message\":\"Session not found\"}}\n";
    let why = failure(&agent, &task("t", "c", &json!([refused]))).await;
    assert!(why.contains("Session not found"), "{why}");
    agent.stop().await;
}
