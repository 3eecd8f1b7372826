//! A planner that calls two agents of the mesh. It serves both of them too, so that one program shows all.
//!
//! `cargo run -p agentanycast-uap --features mesh --example planner`, with `agentanycastd` on the PATH.

use agentanycast::{Artifact, Node};
use agentanycast_uap::{AgentState, agent, mesh::remote_agent_tool, plan};
use agentanycast_upp::{Scripted, ScriptedReply};
use serde_json::json;

/// An agent of the node that changes the text that it gets.
fn serve(node: &Node, name: &str, change: fn(&str) -> String) {
    let serve = node.agent(name).serve(move |task| async move {
        task.complete([Artifact::text(change(&task.message().text_content()))])
            .await?;
        Ok(())
    });
    tokio::spawn(serve.into_future());
}

/// What a real model would say: a plan of two steps, each of which calls one agent.
fn script() -> Scripted {
    let step = |id: &str, description: &str, depends_on: &[&str]| json!({"id": id, "description": description, "dependsOn": depends_on});
    let steps = [
        step("1", "Shout the text", &[]),
        step("2", "Reverse the text", &["1"]),
    ];
    Scripted::new([
        ScriptedReply::text(json!({"steps": steps}).to_string()),
        ScriptedReply::call("call-1", "shout", json!({"text": "hello"})),
        ScriptedReply::text("The text is HELLO."),
        ScriptedReply::call("call-2", "reverse", json!({"text": "HELLO"})),
        ScriptedReply::text("The result is OLLEH."),
    ])
}

#[tokio::main]
#[allow(clippy::print_stdout, reason = "its output is what it is for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = std::env::args().nth(1);
    let builder = Node::builder();
    let node = match home {
        Some(home) => builder.home(home),
        None => builder,
    }
    .start()
    .await?;
    serve(&node, "shouter", str::to_uppercase);
    serve(&node, "mirror", |text| text.chars().rev().collect());
    let peer = node.info().await?.peer_id.ok_or("the daemon has no peer id")?;

    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let shouter = format!("peer:{peer}/shouter").parse()?;
    let mirror = format!("peer:{peer}/mirror").parse()?;
    let planner = agent(script().model())
        .tool(remote_agent_tool(
            &node,
            "shout",
            "Shouts a text",
            schema.clone(),
            shouter,
        ))
        .tool(remote_agent_tool(
            &node,
            "reverse",
            "Reverses a text",
            schema,
            mirror,
        ))
        .execution(plan())
        .build()?;
    let result = planner
        .generate("Shout hello, and reverse it.", &AgentState::initial())
        .await?;
    for step in result.state.plan().unwrap_or_default() {
        println!("{:?}: {}", step.status, step.description);
    }
    for trace in result.state.subagent_traces() {
        println!("{} answered {:?}", trace.subagent_type, trace.result);
    }
    println!("{}", result.turn.text());
    node.shutdown().await;
    Ok(())
}
