//! A fleet of execution agents at the hub of one daemon, and tasks for it that the command sends at another one, which finds the
//! fleet by a relay's registry. `fleet` is the scene, `outages` what is killed, `joined` a hub that another node joins.

mod fleet;
mod joined;
mod outages;

use std::fs;

use agentanycast_tests::{cli::anycast_json, eventually};
use serde_json::{Value, json};

use fleet::{Fleet, SKILLS, artifact, task_of};

/// What was said of a task, with its severity if it is telemetry.
fn said(task: &Value) -> Vec<(String, Value)> {
    let messages = task["messages"].as_array().unwrap().iter();
    let texts = messages
        .filter(|message| message["role"] == "agent")
        .map(|message| {
            let part = &message["parts"][0];
            (
                part["text"].as_str().unwrap().to_owned(),
                part["metadata"]["severity"].clone(),
            )
        });
    texts.collect()
}

#[tokio::test]
#[ignore = "long: 12 000 messages of progress, each a durable update"]
async fn an_agent_that_says_too_much_is_slowed_and_its_end_counts() {
    let fleet = Fleet::start().await;
    let mut agent = fleet.agent("runner").await;
    let sent = fleet.send_with("uap:test:junit", "flood", &["--json"]).await;
    assert!(sent.status.success(), "{:.3000}", sent.all_output);
    agent.began().await;
    assert_eq!(task_of(&sent)["status"], "completed");
}

#[tokio::test]
async fn a_test_is_sent_by_the_command_and_its_report_and_files_come_back() {
    let fleet = Fleet::start().await;
    let mut agent = fleet.agent("runner").await;
    let sent = fleet
        .send_with("uap:test:junit", "pass", &["--json", "--stream"])
        .await;
    assert!(sent.status.success(), "{}", sent.all_output);
    assert_eq!(agent.began().await, ("suite.xml".to_owned(), "pass".to_owned()));
    let events: Vec<Value> = sent
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // What the agent says on the way is seen on the way.
    let seen = |text: &str| {
        events
            .iter()
            .find(|event| event["event"] == "status" && event["message"]["parts"][0]["text"] == text)
            .unwrap_or_else(|| panic!("no {text:?} in {events:#?}"))
    };
    assert_eq!(seen("1 of 2")["status"], "working");
    let telemetry = &seen("the disk is slow")["message"]["parts"];
    assert_eq!(
        telemetry[0]["metadata"],
        json!({"severity": "WARN", "source": "disk", "timestamp": telemetry[0]["metadata"]["timestamp"]})
    );
    assert_eq!(telemetry[1]["filename"], "screen.png");

    let result = events.last().unwrap();
    assert_eq!(result["event"], "result");
    let task = &result["task"];
    assert_eq!(task["status"], "completed");
    assert_eq!(task["assignee"], fleet.hub.peer_id().as_str());
    let report = &artifact(task, "report")["parts"][0];
    assert_eq!(
        report["data"],
        json!({
            "status": "COMPLETED",
            "message": "2 passed",
            "reports": [
                {"name": "login", "status": "PASSED", "steps": [{"name": "type", "status": "SKIPPED"}]},
                {"name": "logout", "status": "PASSED"},
            ],
            "summary": {"total_duration_seconds": 1.5},
        })
    );
    for (name, content) in [("run.log", &b"all is well"[..]), ("video.mp4", &[0xff, 0, 0xfe])] {
        let file = artifact(task, name)["files"][0].as_str().unwrap();
        assert!(file.starts_with(fleet.files().to_str().unwrap()), "{file}");
        assert_eq!(fs::read(file).unwrap(), content, "{name}");
    }
    // The same afterwards, and for people.
    let id = task["task_id"].as_str().unwrap();
    let shown = anycast_json(&fleet.asker, &["task", id]).await;
    let said = said(&shown);
    for expected in [
        ("1 of 2", Value::Null),
        ("the disk is slow", json!("WARN")),
        ("2 passed", Value::Null),
    ] {
        assert!(
            said.contains(&(expected.0.to_owned(), expected.1.clone())),
            "{expected:?}: {said:?}"
        );
    }
    let plain = fleet.send_with("uap:test:junit", "pass", &[]).await;
    assert!(plain.status.success(), "{}", plain.all_output);
    // The streamed one has the names without a number.
    for text in ["wrote ", "report-1.json", "/video-1"] {
        assert!(plain.stdout.contains(text), "{text}: {}", plain.all_output);
    }
    // All that comes back is where --output says, the report too.
    let report = fs::read_to_string(fleet.files().join("report-1.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["status"], "COMPLETED", "{report}");
    assert!(report.to_string().contains("\"login\""), "{report}");
}

#[tokio::test]
async fn a_file_of_ten_megabytes_reaches_the_agent() {
    let fleet = Fleet::start().await;
    let _agent = fleet.agent("runner").await;
    let sent = fleet.send_large("uap:test:junit", 10_000_000).await;
    assert!(sent.status.success(), "{}", sent.all_output);
}

#[tokio::test]
async fn a_translation_is_sent_by_the_command_and_its_payloads_come_back() {
    let fleet = Fleet::start().await;
    let mut agent = fleet.agent("translator").await;
    let sent = fleet
        .send_with("uap:translate:playwright-py", "class Login {}", &["--json"])
        .await;
    assert!(sent.status.success(), "{}", sent.all_output);
    agent.began().await;
    let task = task_of(&sent);
    let translated = artifact(&task, "suite.py");
    let part = &translated["parts"][0];
    assert_eq!(part["metadata"]["uap.type"], "script");
    assert_eq!(part["media_type"], "text/x-python");
    let file = translated["files"][0].as_str().unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "# class Login {}");
}

#[tokio::test]
async fn a_failed_test_brings_its_message_and_its_report() {
    let fleet = Fleet::start().await;
    let _agent = fleet.agent("runner").await;
    let sent = fleet.send_with("uap:test:junit", "fail", &["--json"]).await;
    assert_eq!(sent.status.code(), Some(1), "{}", sent.all_output);
    let task = task_of(&sent);
    assert_eq!(
        (&task["status"], &task["reason"]),
        (&json!("failed"), &json!("1 of 2 failed"))
    );
    let part = |name: &str| &artifact(&task, name)["parts"][0];
    // In pieces before the end, so no data.
    let report = fs::read(artifact(&task, "report")["files"][0].as_str().unwrap()).unwrap();
    assert_eq!(part("report")["media_type"], "application/json");
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(
        report,
        json!({
            "status": "FAILED",
            "message": "1 of 2 failed",
            "reports": [{"name": "login", "status": "PASSED"}, {"name": "logout", "status": "FAILED"}],
        })
    );
    assert_eq!(part("run.log")["text"], "it went wrong");
    // What cannot be done at all says so, too.
    let sent = fleet.send_with("uap:test:junit", "invalid", &["--json"]).await;
    let reason = task_of(&sent)["reason"].to_string();
    assert!(
        reason.contains("rejected: the agent says that the payloads are invalid: no such suite"),
        "{reason}"
    );
}

/// As that of a test that passes.
#[tokio::test]
async fn the_report_of_a_failed_test_is_printed_and_saved() {
    let fleet = Fleet::start().await;
    let _agent = fleet.agent("runner").await;
    for options in [&[][..], &["--stream"]] {
        let sent = fleet.send_plain("uap:test:junit", "fail", options).await;
        assert_eq!(sent.status.code(), Some(1), "{}", sent.all_output);
        assert!(sent.all_output.contains("1 of 2 failed"), "{}", sent.all_output);
        for text in ["\"FAILED\"", "\"logout\"", "it went wrong"] {
            assert!(
                sent.stdout.contains(text),
                "{options:?}: {text}: {}",
                sent.all_output
            );
        }
        let sent = fleet.send_with("uap:test:junit", "fail", options).await;
        assert_eq!(sent.status.code(), Some(1), "{}", sent.all_output);
        let read = |name: &str| {
            let file = fleet.files().join(name);
            assert!(
                sent.stdout.contains(file.to_str().unwrap()),
                "{options:?}: {}",
                sent.all_output
            );
            let content = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
            fs::remove_file(file).unwrap();
            content
        };
        let report: Value = serde_json::from_str(&read("report.json")).unwrap();
        assert_eq!(report["status"], "FAILED", "{report}");
        assert_eq!(report["reports"][1]["name"], "logout", "{report}");
        assert_eq!(read("run.log"), "it went wrong");
    }
}

#[tokio::test]
async fn a_cancel_at_the_sender_resets_the_session() {
    let fleet = Fleet::start().await;
    let mut agent = fleet.agent("runner").await;
    let id = fleet.post("uap:test:junit", "hold").await;
    agent.began().await;
    assert_eq!(fleet.hub_figure("sessions", "state=\"open\"").await, 1);
    let canceled = anycast_json(&fleet.asker, &["cancel", &id]).await;
    assert_eq!(canceled["status"], "canceled");
    agent.cancelled().await;
    eventually("the session is counted as canceled", || async {
        let open = fleet.hub_figure("sessions", "state=\"open\"").await;
        let ended = fleet
            .hub_figure("sessions_ended_total", "outcome=\"canceled\"")
            .await;
        (open == 0 && ended == 1).then_some(())
    })
    .await;
    // The agent is free.
    let sent = fleet.send_with("uap:test:junit", "pass", &["--json"]).await;
    assert_eq!(task_of(&sent)["status"], "completed", "{}", sent.all_output);
}

#[tokio::test]
async fn skills_and_figures_follow_the_fleet() {
    let fleet = Fleet::start().await;
    assert_eq!(fleet.hub_figure("clients", "").await, 0);
    let first = fleet.agent("first").await;
    let second = fleet.agent("second").await;
    eventually("both listen", || async {
        (fleet.hub_figure("clients", "").await == 2).then_some(())
    })
    .await;
    eventually("the sender and the dashboard list the skills", || async {
        (fleet.skills_at_sender().await == SKILLS && fleet.skills_at_relay().await == SKILLS).then_some(())
    })
    .await;
    let task = fleet.post("uap:test:junit", "hold").await;
    eventually("one has the session", || async {
        (fleet.hub_figure("sessions", "state=\"open\"").await == 1).then_some(())
    })
    .await;
    assert_eq!(
        fleet.hub_figure("proposals_total", "answer=\"accepted\"").await,
        1
    );
    anycast_json(&fleet.asker, &["cancel", &task]).await;
    drop(second);
    eventually("one is left", || async {
        (fleet.hub_figure("clients", "").await == 1).then_some(())
    })
    .await;
    assert_eq!(fleet.skills_at_relay().await, SKILLS);
    drop(first);
    eventually("the skills go with the last", || async {
        (fleet.skills_at_sender().await.is_empty() && fleet.skills_at_relay().await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(fleet.hub_figure("clients", "").await, 0);
}
