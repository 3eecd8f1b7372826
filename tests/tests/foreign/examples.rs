//! The examples, as their READMEs say to run them.

use std::{collections::BTreeSet, fs, path::PathBuf};

use crate::{
    client_env::{a2a_python, langgraph_python, python},
    doc_pages::{UserMachine, blocks, page},
    doc_run::{DocRun, HERE, free_port},
};

fn example(name: &str) -> PathBuf {
    page("examples").join(name)
}

fn readme(name: &str) -> String {
    fs::read_to_string(example(name).join("README.md")).unwrap()
}

/// Follows the README of an example on this machine, in a copy of its directory.
async fn follow(name: &str, machine: UserMachine) {
    let machine = machine.files(&example(name));
    let mut walk = DocRun::new([(HERE, machine)]).instead("8090", free_port());
    let blocks = blocks(&readme(name));
    assert!(
        blocks.iter().filter(|block| block.language == "text").count() >= 2,
        "{name} shows what it does"
    );
    walk.run_blocks(&blocks).await;
}

#[tokio::test]
async fn python_agent_and_asker() {
    follow("python", UserMachine::new().python(&python())).await;
}

#[tokio::test]
async fn langgraph_graph_as_an_agent() {
    follow("langgraph", UserMachine::new().python(&langgraph_python())).await;
}

#[tokio::test]
async fn typescript_agent_and_asker() {
    follow("typescript", UserMachine::new().node_modules()).await;
}

#[tokio::test]
async fn agents_over_http() {
    follow("http", UserMachine::new().python(&a2a_python("1.0"))).await;
}

#[tokio::test]
async fn settings_of_mcp_clients() {
    let text = readme("mcp");
    for entry in fs::read_dir(example("mcp")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "json") {
            let name = path.file_name().unwrap().to_string_lossy();
            let tried = format!("\nnode try.mjs {name} ");
            assert!(text.contains(&tried), "nothing starts what {name} names");
        }
    }
    follow("mcp", UserMachine::new().node_modules()).await;
}

#[test]
fn every_example_is_listed_and_run() {
    let names = |entries: fs::ReadDir| -> BTreeSet<String> {
        entries
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().unwrap().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    };
    // `team-relay` is for an engine: `deploy/check-compose` runs it.
    let run = ["http", "langgraph", "mcp", "python", "team-relay", "typescript"];
    let there = names(fs::read_dir(page("examples")).unwrap());
    assert_eq!(there, run.iter().map(ToString::to_string).collect());
    let list = fs::read_to_string(page("examples/README.md")).unwrap();
    for name in run {
        assert!(list.contains(&format!("]({name}/README.md)")), "{name}");
    }
}
