//! What fuzzing runs (`fuzz/`): any bytes, and a panic when something does not hold.

use serde_json::Value;

use crate::{call, tool_name::ToolName};

/// What a client of MCP sends: a byte that says which tool, and its arguments as JSON. They are read, or refused in one line.
pub fn mcp(data: &[u8]) {
    let Some((which, json)) = data.split_first() else {
        return;
    };
    let Ok(Value::Object(arguments)) = serde_json::from_slice(json) else {
        return;
    };
    let tool = ToolName::ALL[usize::from(*which) % ToolName::ALL.len()];
    if let Err(wrong) = call::read(tool, arguments) {
        assert!(!wrong.is_empty() && !wrong.contains('\n'), "{wrong}");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use agentanycast_daemon_kit::fuzz_corpus::{FuzzCorpus, replay};
    use serde_json::{Map, Value};

    use super::{ToolName, call};

    /// Otherwise nothing that is tried would ever be read.
    #[test]
    fn the_corpus_has_what_is_read() {
        let corpus = FuzzCorpus::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), "mcp");
        let bytes = corpus.input("good");
        let tool = ToolName::ALL[usize::from(bytes[0]) % ToolName::ALL.len()];
        let arguments: Map<String, Value> = serde_json::from_slice(&bytes[1..]).unwrap();
        call::read(tool, arguments).unwrap();
    }

    #[test]
    fn the_corpus_passes() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        replay(&top, "mcp", super::mcp);
    }
}
