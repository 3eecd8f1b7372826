//! An agent with tools on a scripted model: runs without a key and without a network.
//!
//! `cargo run -p agentanycast-uap --example tools`

use agentanycast_uap::{AgentState, agent, logging};
use agentanycast_upp::{Scripted, ScriptedReply, Tool};
use futures::StreamExt as _;
use serde_json::json;

#[tokio::main]
#[allow(clippy::print_stdout, reason = "its output is what it is for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let weather = Tool::new(
        "weather",
        "The weather of a city",
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
        |arguments, _context| async move {
            let city = arguments["city"].as_str().ok_or("`city` is missing")?;
            Ok(json!({"city": city, "celsius": 20}))
        },
    );
    let script = Scripted::new([
        ScriptedReply::call("call-1", "weather", json!({"city": "Bern"})),
        ScriptedReply::text("It is 20 degrees in Bern."),
    ]);
    let agent = agent(script.model())
        .system("You know the weather.")
        .tool(weather)
        .middleware(logging().logger(|line| println!("log: {line}")))
        .build()?;

    let mut stream = agent.stream("How warm is it in Bern?", &AgentState::initial());
    while let Some(event) = stream.next().await {
        let event = event?;
        if let Some(event) = event.as_agent() {
            println!("step {}: {:?}", event.step, event.kind);
        }
    }
    let result = stream.result().await?;
    println!("{}", result.turn.text());
    println!("{} messages in the state", result.state.messages().len());
    Ok(())
}
