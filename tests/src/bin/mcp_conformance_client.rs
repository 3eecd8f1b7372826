//! The client of `@modelcontextprotocol/conformance`: connects to the server at the URL that is its last
//! argument, and calls the tools that the scenario names, or else each tool once. Questions are accepted with
//! their defaults.

use agentanycast_mcp_client::{CallEvent, ClientIdentity, ElicitationAnswer, McpClient, Tool};
use anyhow::Context as _;
use futures::future::join_all;
use serde_json::{Map, Value, json};

/// Largest message, in bytes.
const MAX_MESSAGE: usize = 4 << 20;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args()
        .next_back()
        .context("the URL of a server is missing")?;
    let identity = ClientIdentity {
        name: "agentanycast-conformance",
        version: "1",
        asks: true,
    };
    let http = reqwest::Client::builder().no_proxy().build()?;
    let client = McpClient::over_http(http, &url, None, identity, MAX_MESSAGE, |_| false).await?;
    let tools = client.list_tools().await?.tools;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let calls: Vec<(&Tool, Map<String, Value>)> = match context["toolCalls"].as_array() {
        Some(calls) => {
            let calls = calls.iter().filter_map(|call| {
                let tool = tools.iter().find(|tool| call["name"] == tool.name.as_str())?;
                Some((tool, call["arguments"].as_object().cloned().unwrap_or_default()))
            });
            calls.collect()
        }
        None => tools.iter().map(|tool| (tool, arguments(tool, &tools))).collect(),
    };
    let calls = calls
        .into_iter()
        .map(|(tool, arguments)| call(&client, tool, arguments));
    for called in join_all(calls).await {
        called?;
    }
    client.close().await;
    Ok(())
}

async fn call(client: &McpClient, tool: &Tool, arguments: Map<String, Value>) -> anyhow::Result<()> {
    let mut call = client.call(tool, arguments);
    loop {
        match call.next().await? {
            CallEvent::Question(question) => {
                let answer = ElicitationAnswer::Accept(Some(question.with_defaults(Map::new())));
                call.answer(question, &answer).await;
            }
            CallEvent::Done(_) => return Ok(()),
            _ => {}
        }
    }
}

/// A value for each parameter. A schema is that of the first tool: a scenario looks whether it is unchanged.
fn arguments(tool: &Tool, tools: &[Tool]) -> Map<String, Value> {
    let parameters = tool.input_schema.get("properties").and_then(Value::as_object);
    let arguments = parameters.into_iter().flatten().map(|(name, schema)| {
        let value = match schema["type"].as_str() {
            Some("number" | "integer") => json!(2),
            Some("boolean") => json!(true),
            Some("object") if name == "schema" => tools[0].input_schema.clone().into(),
            Some("object") => json!({}),
            Some("array") => json!([]),
            _ => json!("x"),
        };
        (name.clone(), value)
    });
    arguments.collect()
}
