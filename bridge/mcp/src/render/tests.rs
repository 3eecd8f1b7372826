use agentanycast_proto::v1::{DataPart, Message, RawPart, TextPart, UrlPart};
use proptest::prelude::*;

use super::*;

fn part(content: Content, media_type: &str) -> Part {
    Part {
        content: Some(content),
        media_type: media_type.to_owned(),
        ..Part::default()
    }
}

fn text(text: &str) -> Part {
    let text = text.to_owned();
    part(Content::TextPart(TextPart { text }), "")
}

fn raw(bytes: &[u8], media_type: &str, filename: &str) -> Part {
    let (data, filename) = (bytes.to_vec(), filename.to_owned());
    part(Content::RawPart(RawPart { data, filename }), media_type)
}

fn task_with(status: TaskStatus, said: &str, parts: Vec<Part>) -> v1::Task {
    let mut task = v1::Task {
        task_id: "t".to_owned(),
        status_message: (!said.is_empty()).then(|| Message {
            parts: vec![text(said)],
            ..Message::default()
        }),
        artifacts: vec![Artifact {
            name: "out".to_owned(),
            parts,
            ..Artifact::default()
        }],
        ..v1::Task::default()
    };
    task.set_status(status);
    task
}

fn written(result: &CallToolResult) -> Value {
    serde_json::to_value(result).unwrap()
}

#[test]
fn a_failure_is_an_error_with_its_reason() {
    for (status, is_error, words) in [
        (TaskStatus::Failed, true, "failed: because"),
        (TaskStatus::Rejected, true, "was rejected: because"),
        (TaskStatus::Canceled, false, "was canceled: because"),
        (TaskStatus::Completed, false, "The agent says: because"),
        (
            TaskStatus::InputRequired,
            false,
            "asks for input: because\nAnswer with reply_to_task",
        ),
        (
            TaskStatus::Working,
            false,
            "is working and goes on. The agent says: because Call get_task",
        ),
        (TaskStatus::Unspecified, false, "is submitted and goes on"),
    ] {
        let json = written(&task(&task_with(status, "because", Vec::new())));
        assert_eq!(json["isError"], is_error, "{json}");
        let first = json["content"][0]["text"].as_str().unwrap();
        assert!(first.contains(words), "{first}");
        assert_eq!(json["structuredContent"]["state"], state(status));
        assert_eq!(json["structuredContent"]["message"], "because");
    }
}

#[test]
fn credentials_are_no_question_for_the_model() {
    use agentanycast_gateway::labels::{AUTH_REQUIRED, STATE};

    let mut waiting = task_with(TaskStatus::InputRequired, "log in", Vec::new());
    let part = &mut waiting.status_message.as_mut().unwrap().parts[0];
    part.metadata.insert(STATE.to_owned(), AUTH_REQUIRED.to_owned());
    let json = written(&task(&waiting));
    let first = json["content"][0]["text"].as_str().unwrap();
    assert!(first.contains("waits for credentials: log in"), "{first}");
    assert_eq!(json["structuredContent"]["state"], "input_required");
}

#[test]
fn every_part_is_what_it_is() {
    let data = agentanycast_proto::json::to_struct(json!({"n": 1}).as_object().cloned().unwrap());
    let link = UrlPart {
        url: "not a url".to_owned(),
        filename: "x".to_owned(),
    };
    let parts = vec![
        text("hello"),
        part(Content::DataPart(DataPart { data: Some(data) }), ""),
        raw(&[1, 2], "image/png", "p.png"),
        raw(&[1, 2], "audio/wav", ""),
        raw("ä".as_bytes(), "text/csv", ""),
        raw(&[0xff], "text/plain", ""),
        raw(&[0xff], "", "b"),
        part(Content::UrlPart(link), ""),
        Part::default(),
    ];
    let json = written(&task(&task_with(TaskStatus::Completed, "", parts)));
    let content = &json["content"];
    assert_eq!(content[1]["text"], "hello");
    assert_eq!(content[2]["text"], r#"{"n":1}"#);
    assert_eq!(
        (&content[3]["type"], &content[3]["data"]),
        (&json!("image"), &json!("AQI="))
    );
    assert_eq!(content[4]["type"], "audio");
    assert_eq!(content[5]["resource"]["text"], "ä");
    assert_eq!(
        content[5]["resource"]["uri"],
        "agentanycast://tasks/t/results/0/4"
    );
    assert_eq!(content[6]["resource"]["blob"], "/w==");
    assert_eq!(content[7]["resource"]["mimeType"], "application/octet-stream");
    assert_eq!(content[8]["text"], "Link (x): not a url");
    let shown = &json["structuredContent"]["results"][0];
    assert_eq!(shown["name"], "out");
    let types: Vec<&str> = shown["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        ["text", "data", "file", "file", "file", "file", "file", "link"]
    );
    assert_eq!(shown["parts"][1]["data"], json!({"n": 1}));
    assert_eq!(
        (&shown["parts"][2]["size"], &shown["parts"][2]["name"]),
        (&json!(2), &json!("p.png"))
    );
}

#[test]
fn what_does_not_fit_is_said() {
    let long = "ä".repeat(ANSWER);
    let json = written(&task(&task_with(
        TaskStatus::Completed,
        "",
        vec![text(&long), text("more")],
    )));
    let first = &json["structuredContent"]["results"][0]["parts"][0];
    let note = first["left_out"].as_str().unwrap();
    let shown = first["text"].as_str().unwrap().len();
    assert!(
        note.contains(&format!("first {shown} of {} bytes", long.len())),
        "{note}"
    );
    assert_eq!(json["content"][2]["text"], format!("[{note}]"));
    let file = raw(&vec![0; ANSWER], "image/png", "big.png");
    let json = written(&task(&task_with(
        TaskStatus::Completed,
        "",
        vec![file, text("after")],
    )));
    let note = json["content"][1]["text"].as_str().unwrap();
    assert!(
        note.contains("left out: file \"big.png\" of 921600 bytes"),
        "{note}"
    );
    assert_eq!(
        json["content"][2]["text"], "after",
        "what comes after it has room"
    );
    let many = vec![text("x"); PARTS + 5];
    let json = written(&task(&task_with(TaskStatus::Completed, "", many)));
    assert!(
        json["structuredContent"]["left_out"]
            .as_str()
            .unwrap()
            .starts_with("5 more parts")
    );
}

#[test]
fn a_result_elsewhere_is_said_to_be_there() {
    for (size, words) in [(0, "still being written"), (100 << 20, "of 104857600 bytes")] {
        let mut task_ = task_with(TaskStatus::Working, "", Vec::new());
        let url = format!("{}t/a", agentanycast_gateway::REFERENCE);
        let link = UrlPart {
            url,
            filename: String::new(),
        };
        task_.artifacts[0].parts = vec![part(Content::UrlPart(link), "video/mp4")];
        task_.artifacts[0].size_bytes = size;
        let json = written(&task(&task_));
        let shown = &json["structuredContent"]["results"][0]["parts"][0];
        assert!(shown["left_out"].as_str().unwrap().contains(words), "{shown}");
        assert!(!json.to_string().contains("agentanycast-stream:"));
    }
}

fn any_part() -> impl Strategy<Value = Part> {
    let media = proptest::sample::select(
        &[
            "",
            "text/plain",
            "image/png",
            "application/json",
            "audio/x",
            "\u{1}\"",
        ][..],
    );
    let wide = prop_oneof![
        Just('a'),
        Just('"'),
        Just('\u{1}'),
        Just('\u{85}'),
        Just('\u{2028}'),
        Just('ä'),
        Just('\u{1F600}')
    ];
    let long = (wide, 0..400_000_usize).prop_map(|(letter, count)| letter.to_string().repeat(count));
    let content = prop_oneof![
        long.clone().prop_map(|text| Content::TextPart(TextPart { text })),
        (long.clone(), "\\PC{0,300}").prop_map(|(data, filename)| Content::RawPart(RawPart {
            data: data.into_bytes(),
            filename
        })),
        (long.clone(), "\\PC{0,9}").prop_map(|(url, filename)| Content::UrlPart(UrlPart { url, filename })),
        long.prop_map(|text| {
            let data = agentanycast_proto::json::to_struct(
                [("k".to_owned(), Value::from(text))].into_iter().collect(),
            );
            Content::DataPart(DataPart { data: Some(data) })
        }),
    ];
    (content, media).prop_map(|(content, media_type)| part(content, media_type))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever an agent sends, an answer fits into what clients take, and each part is there or said not to be.
    #[test]
    fn hostile_results(said in "\\PC{0,40}", parts in proptest::collection::vec(any_part(), 0..12)) {
        let count = parts.len();
        let result = task(&task_with(TaskStatus::Completed, &said, parts));
        let json = written(&result);
        prop_assert!(agentanycast_daemon_kit::json_lines::to_line(&json).len() < 1 << 20);
        prop_assert_eq!(json["structuredContent"]["results"][0]["parts"].as_array().unwrap().len(), count);
        prop_assert!(json["content"].as_array().unwrap().len() > count);
    }
}

#[test]
fn agents_of_a_node_are_named_as_they_are_asked() {
    let listed = |own, agent: &str| v1::ListedAgent {
        peer_id: "12D3".to_owned(),
        name: "Named".to_owned(),
        skills: vec![SkillInfo {
            skill_id: "s".to_owned(),
            ..SkillInfo::default()
        }],
        own,
        agent: agent.to_owned(),
        ..v1::ListedAgent::default()
    };
    let all = [
        listed(true, "one"),
        listed(true, ""),
        listed(false, "two"),
        listed(false, ""),
    ];
    let json = written(&agents(&all, 0));
    let asked: Vec<&Value> = (0..all.len())
        .map(|at| &json["structuredContent"]["agents"][at]["agent"])
        .collect();
    assert_eq!(asked, ["self/one", "self", "12D3/two", "12D3"]);
    let json = written(&skills(&all));
    let who = &json["structuredContent"]["skills"][0]["agents"];
    assert_eq!(who, &json!(["self/one", "Named", "12D3/two", "Named"]));
    let asked = v1::Task {
        assignee_peer_id: "12D3".to_owned(),
        agent: "two".to_owned(),
        ..v1::Task::default()
    };
    assert_eq!(head(&asked)["agent"], "12D3/two");
}

#[test]
fn the_card_of_a_node_shows_its_agents_in_bounds() {
    let agent = |number: usize| v1::AgentCard {
        name: "Named".to_owned(),
        description: "d".repeat(ABOUT),
        agent: format!("a{number}"),
        skills: vec![Skill {
            id: "s".to_owned(),
            ..Skill::default()
        }],
        ..v1::AgentCard::default()
    };
    let node = |agents: usize, total| v1::AgentCard {
        p2p_extension: Some(v1::P2pExtension {
            peer_id: "12D3".to_owned(),
            ..v1::P2pExtension::default()
        }),
        agents: (0..agents).map(agent).collect(),
        agents_total: total,
        ..v1::AgentCard::default()
    };
    let few = written(&card(&node(2, 0)));
    let few = &few["structuredContent"];
    assert_eq!(few["agents"][1]["agent"], "12D3/a1");
    assert_eq!(few["agents"][1]["skills"], json!(["s"]));
    assert!(few.get("left_out").is_none(), "{few}");
    let many = card(&node(1000, 4000));
    let text = written(&many).to_string();
    assert!(text.len() < 1 << 20, "{}", text.len());
    let many = &written(&many)["structuredContent"];
    let shown = many["agents"].as_array().unwrap().len();
    let left_out = many["left_out"].as_str().unwrap();
    assert!(
        shown > 10 && left_out.starts_with(&format!("{} more agents", 4000 - shown)),
        "{left_out}"
    );
    let one = v1::AgentCard {
        agent: "one".to_owned(),
        ..node(0, 0)
    };
    let one = written(&card(&one));
    assert_eq!(one["structuredContent"]["agent"], "12D3/one");
    assert!(one["structuredContent"].get("agents").is_none());
}
