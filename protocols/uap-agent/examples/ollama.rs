//! An agent with a tool on a model of Ollama, which goes on from its last checkpoint when it is started
//! again.
//!
//! `ollama pull qwen3 && cargo run -p agentanycast-uap --example ollama -- "How many files are here?"`

use agentanycast_uap::{FileCheckpoints, agent};
use agentanycast_upp::{ExponentialBackoff, ProviderConfig, Tool, providers::ollama};
use serde_json::json;

#[tokio::main]
#[allow(clippy::print_stdout, reason = "its output is what it is for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let question = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "How many files are here?".to_owned());
    let model = std::env::var("OLLAMA_MODEL").unwrap_or_else(|_| "qwen3".to_owned());
    let list = Tool::new(
        "list_files",
        "Lists the files of the current directory",
        json!({"type": "object", "properties": {}}),
        |_arguments, _context| async {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(".")? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            Ok(json!(names))
        },
    );
    let agent = agent(ollama(model))
        .config(ProviderConfig::new().retry(ExponentialBackoff::default()))
        .tool(list)
        .checkpoints(FileCheckpoints::new(".checkpoints"))
        .session_id("ollama-example")
        .build()?;

    // The conversation goes on over restarts of the program.
    let state = agent.restore("ollama-example").await?.unwrap_or_default();
    match agent.ask(question, &state).await {
        Ok(result) => println!("{}", result.turn.text()),
        Err(failed) if failed.is_retryable() => println!("try again later: {failed}"),
        Err(failed) => return Err(failed.into()),
    }
    Ok(())
}
