//! Agents of the own node by their names: sent to, named, sent to again, and listed.

use super::{RunningCommand, asking_agent::NamedAgents, command, document, run};

#[test]
fn an_own_agent_is_found_by_its_name_and_by_an_alias() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let _agents = NamedAgents::serving(home, &["first", "words"]);
    for target in ["words", "self/words"] {
        let (text, code) = run(home, &["send", target, "hello"]);
        assert_eq!((text.trim(), code), ("words: hello", Some(0)), "{target}");
    }
    let (text, code) = run(home, &["send", "self", "hello"]);
    assert_eq!((text.trim(), code), ("first: hello", Some(0)), "the primary one");
    for (alias, meant) in [("w", "self/words"), ("v", "words"), ("u", "w")] {
        let (text, code) = run(home, &["alias", "add", alias, meant]);
        assert!(code == Some(0) && text.contains("/words"), "{code:?}: {text}");
        let (text, code) = run(home, &["send", alias, "hello"]);
        assert_eq!((text.trim(), code), ("words: hello", Some(0)), "{alias}");
    }
    // What is typed goes before what the name means.
    let (text, code) = run(home, &["send", "w/first", "hello"]);
    assert_eq!((text.trim(), code), ("first: hello", Some(0)));
    let (text, _) = run(home, &["alias", "ls"]);
    assert_eq!(text.matches("/words").count(), 3, "{text}");
    let (text, code) = run(home, &["alias", "add", "w", "self/first"]);
    assert!(
        code == Some(1) && text.contains("/words already"),
        "{code:?}: {text}"
    );
    // Lists call them by their names, and the node by no alias of an agent.
    let (text, _) = run(home, &["tasks"]);
    assert!(
        text.contains("to self/words") && !text.contains("to w "),
        "{text}"
    );
    let (text, _) = run(home, &["agents"]);
    assert!(text.contains("self/words"), "{text}");
    let (text, code) = run(home, &["send", "nosuch", "hello"]);
    assert!(code == Some(4) && text.contains("nosuch"), "{code:?}: {text}");
}

#[test]
fn a_task_of_an_agent_is_sent_to_it_again() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (home, other) = (home.path(), other.path());
    let _daemons = [RunningCommand::daemon(home), RunningCommand::daemon(other)];
    let _agents = [
        NamedAgents::serving(home, &["first", "second"]),
        NamedAgents::serving(other, &["first", "second"]),
    ];
    let status = document(other, &["status"]);
    let there = status["peer_id"].as_str().unwrap();
    let at = format!("{}/p2p/{there}", status["addresses"][0].as_str().unwrap());
    let (text, code) = run(home, &["ping", &at, "-c", "1"]);
    assert_eq!(code, Some(0), "{text}");
    let far = format!("{there}/second");
    for target in ["self/second", &far] {
        let (text, code) = run(
            home,
            &[
                "send",
                target,
                "hello",
                "--data",
                "{\"a\": 9007199254740993}",
                "--meta",
                "priority=low",
            ],
        );
        let said = "second: hello|{\"a\":9007199254740993} low";
        assert_eq!((text.trim(), code), (said, Some(0)), "{target}");
        let id = document(home, &["tasks"])[0]["id"].as_str().unwrap().to_owned();
        let (text, code) = run(home, &["retry", &id]);
        assert_eq!((text.trim(), code), (said, Some(0)), "{target}");
        let again = document(home, &["tasks"])[0].clone();
        assert_ne!(again["id"], id.as_str());
        let first = document(home, &["task", &id]);
        assert_eq!(again["context_id"], first["context_id"], "{again}");
    }
}

#[test]
fn data_is_json_from_the_command_line_a_file_or_standard_input() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _daemon = RunningCommand::daemon(home);
    let _agents = NamedAgents::serving(home, &["words"]);
    std::fs::write(home.join("x.json"), "[1, {\"a\": null}]\n").unwrap();
    let file = format!("@{}", home.join("x.json").display());
    let (text, code) = run(
        home,
        &["send", "words", "--data", "{\"b\": \"ü\"}", "--data", &file],
    );
    assert_eq!(
        (text.trim(), code),
        ("words: {\"b\":\"ü\"}|[1,{\"a\":null}]", Some(0))
    );
    let mut child = command(home)
        .args(["send", "words", "hello", "--data", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"{\"c\": 1.5}").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "words: hello|{\"c\":1.5}");
    let (text, code) = run(home, &["send", "words", "--data", "{b: 1}"]);
    assert!(code == Some(2) && text.contains("not JSON"), "{code:?}: {text}");
    assert_eq!(run(home, &["send", "words"]).1, Some(2), "nothing is sent");
}
