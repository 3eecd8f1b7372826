//! The README, as a user pastes it: each block of its first hour is run, in the order in which they stand.
//!
//! Its Rust is compiled by the tests of the SDK's documentation.

use std::fs;

use agentanycast_tests::eventually;

use crate::{
    client_env::python,
    doc_pages::{DocBlock, UserMachine, page},
};

/// The blocks of README from this heading to the next one of its level, without those that show what is printed.
fn blocks(heading: &str) -> Vec<DocBlock> {
    let text = fs::read_to_string(page("README.md")).unwrap();
    let (_, text) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let blocks = crate::doc_pages::blocks(text.split("\n## ").next().unwrap());
    blocks
        .into_iter()
        .filter(|block| block.language != "text")
        .collect()
}

/// The first program in Python: an agent.
pub(crate) fn python_agent() -> String {
    let mut blocks = blocks("The first hour").into_iter();
    let agent = blocks.find(|block| block.language == "python");
    agent.unwrap().text
}

#[test]
fn what_installs_is_known() {
    for block in blocks("Install") {
        assert_eq!(block.commands(), [""; 0], "an install does nothing else");
    }
}

#[tokio::test]
async fn the_first_hour_runs_as_it_is_written() {
    let blocks = blocks("The first hour");
    let mut blocks = blocks.iter();
    let [first, second] = [UserMachine::new(), UserMachine::new()];

    let demo = blocks.next().unwrap().commands();
    let said = first.run(demo[0]).await;
    assert!(demo.len() == 1 && said.contains("echo: Hello"), "{said}");

    let agent = blocks.next().unwrap().commands();
    assert_eq!(agent.len(), 1, "it stays in its terminal");
    let mut agent = first.start(agent[0]);
    agent.line_with("listens").await;
    let invite = blocks.next().unwrap().commands();
    assert_eq!(invite.len(), 1);
    let invite = first.run(invite[0]).await;
    let fill = |line: &str, task: &str| line.replace("STRING", invite.trim()).replace("TASK_ID", task);

    let send = blocks.next().unwrap().commands();
    let said = second.run(&fill(send[0], "")).await;
    assert!(send.len() == 1 && said == "hello\n", "{said}");

    // As the text between the blocks has it.
    second.run(&fill("anycast join STRING --as bob", "")).await;
    second.write("report.pdf", "%PDF-1.4");
    let task = second.newest_task().await;
    let rest = blocks.next().unwrap().commands();
    assert!(rest.len() > 5, "{rest:?}");
    for line in rest {
        second.run(&fill(line, &task)).await;
    }
    agent.interrupt();
    agent.end().await;
}

#[tokio::test]
async fn the_programs_run_as_they_are_written() {
    let blocks = blocks("The first hour");
    let mut programs = blocks.iter().filter(|block| block.language != "sh");
    let mut program = |language: &str| {
        let block = programs.next().unwrap();
        assert_eq!(block.language, language);
        block.text.as_str()
    };
    let [first, second] = [UserMachine::new(), UserMachine::new()];
    let second = second.node_modules();
    first.write("server.py", program("python"));
    second.write("ask.py", program("python"));
    second.write("ask.ts", program("ts"));
    program("rust,no_run");

    for machine in [&first, &second] {
        machine.run("anycast up").await;
    }
    let _server = first.start(&format!("{} server.py", python().display()));
    eventually("the agent has shown its card", || async {
        first
            .run("anycast card --json || true")
            .await
            .contains("Shouter")
            .then_some(())
    })
    .await;
    let invite = first.run("anycast invite").await;
    let said = second.run(&format!("anycast send {} hello", invite.trim())).await;
    assert_eq!(said, "HELLO\n");

    let peer = first.peer_id().await;
    let ask = format!("{} ask.py {peer} hello", python().display());
    assert_eq!(second.run(&ask).await, "HELLO\n");

    // The lines that make TypeScript run, in the directory with the packages that they install.
    let shells = blocks.iter().filter(|block| block.language == "sh");
    let typescript = shells
        .map(DocBlock::commands)
        .find(|lines| lines.iter().any(|line| line.contains("ask.ts")));
    let mut said = String::new();
    for line in typescript.unwrap() {
        said = second.run(&line.replace("PEER_ID", &peer)).await;
    }
    assert_eq!(said, "HELLO\n");
}
