//! `anycast ps`: what serves the agents of this node.

use std::fs;

use agentanycast::{AgentProgram, NodeAgent};
use serde_json::{Value, json};

use crate::{agent_access, context::Context, failure::CommandFailure, hints, json, output, table};

/// Most columns of a command whose error is shown beside it.
const COMMAND_BESIDE_ERROR: usize = 30;

/// Most columns of both.
const WITH_ERROR: usize = 120;

pub(crate) async fn run(context: &Context) -> Result<(), CommandFailure> {
    let node = context.connect().await?;
    let (programs, agents) = tokio::try_join!(node.agent_programs(), node.node_agents())?;
    if context.json {
        let programs: Vec<_> = programs.iter().map(|program| as_json(program, &agents)).collect();
        return Ok(output::json(&json!({ "programs": programs }))?);
    }
    if programs.is_empty() {
        output::warn(&format!(
            "no program serves an agent of this node; `{}` starts one",
            hints::command("run --name NAME -- COMMAND")
        ));
        return Ok(());
    }
    let tasks_of = |name: &str| {
        let agent = agents.iter().find(|agent| agent.name == name);
        agent.map_or_else(String::new, |agent| agent.open_tasks.to_string())
    };
    let rows: Vec<_> = programs
        .iter()
        .map(|program| {
            row(
                program,
                agent_access::of_agent(&agents, &program.agent),
                tasks_of(&program.agent),
            )
        })
        .collect();
    Ok(table::print(
        [
            "AGENT", "ACCESS", "KIND", "PID", "STATE", "SINCE", "TASKS", "COMMAND",
        ],
        &rows,
        false,
    )?)
}

fn row(program: &AgentProgram, access: &str, tasks: String) -> [String; 8] {
    let state = match (program.error.is_empty(), program.next_start) {
        (true, _) if program.starting => "starts".to_owned(),
        (true, _) => "serves".to_owned(),
        (false, _) if program.unready => "waits".to_owned(),
        (false, None) => "failed".to_owned(),
        (false, next) => format!("again in {}", output::ahead(next)),
    };
    let command = output::brief(&command_of(program));
    let command = match program.error.as_str() {
        "" => command,
        error => {
            let command = output::brief_to(&command, COMMAND_BESIDE_ERROR);
            output::brief_to(&format!("{command}: {error}"), WITH_ERROR)
        }
    };
    [
        output::flat(&program.agent),
        access.to_owned(),
        kind_of(program).to_owned(),
        if program.in_daemon {
            "daemon".to_owned()
        } else {
            program.pid.map_or_else(String::new, |pid| pid.to_string())
        },
        state,
        output::ago(program.since),
        tasks,
        command,
    ]
}

fn kind_of(program: &AgentProgram) -> &str {
    match program.kind.as_str() {
        "" => "sdk",
        kind => kind,
    }
}

/// Its command as it told it, else as the system shows it.
fn command_of(program: &AgentProgram) -> String {
    if !program.command.is_empty() {
        return program.command.clone();
    }
    let Some(pid) = program.pid.filter(|_| !program.in_daemon) else {
        return String::new();
    };
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

fn as_json(program: &AgentProgram, agents: &[NodeAgent]) -> Value {
    let mut document = json!({
        "agent": program.agent,
        "kind": kind_of(program),
        "command": command_of(program),
        "pid": program.pid,
        "in_daemon": program.in_daemon,
        "since": json::time(program.since),
        "starting": program.starting,
        "unready": program.unready,
        "error": program.error,
        "next_start": json::time(program.next_start),
    });
    if let Value::Object(fields) = &mut document {
        let agent = agents.iter().find(|agent| agent.name == program.agent);
        agent_access::put_into(fields, agent);
    }
    document
}
