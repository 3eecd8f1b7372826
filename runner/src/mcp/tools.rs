//! The tools of an MCP server as skills, and which of them a task is for. PURE.

use agentanycast_proto::v1;
use rmcp::model::Tool;
use serde_json::Value;

/// Most names of tools in one error.
const MOST_NAMES: usize = 50;

/// The skill of a tool: its name, its description and its schemas, unchanged.
pub(super) fn skill(tool: &Tool) -> v1::Skill {
    let schema = |schema: &serde_json::Map<String, Value>| Value::Object(schema.clone()).to_string();
    let description = tool.description.as_deref();
    v1::Skill {
        id: tool.name.to_string(),
        description: description
            .or(tool.title.as_deref())
            .unwrap_or_default()
            .to_owned(),
        input_schema: schema(&tool.input_schema),
        output_schema: tool.output_schema.as_deref().map(schema).unwrap_or_default(),
        ..v1::Skill::default()
    }
}

/// The tool that a task is for. A task without a skill is for the only tool.
///
/// # Errors
/// The names of the tools that there are.
pub(super) fn choose<'a>(tools: &'a [Tool], skill: &str) -> Result<&'a Tool, String> {
    if let ([only], "") = (tools, skill) {
        return Ok(only);
    }
    if let Some(tool) = tools.iter().find(|tool| tool.name == skill) {
        return Ok(tool);
    }
    if tools.is_empty() {
        return Err("the MCP server has no tools".to_owned());
    }
    let names = tools.iter().take(MOST_NAMES).map(|tool| tool.name.as_ref());
    let mut names = names.collect::<Vec<_>>().join(", ");
    if tools.len() > MOST_NAMES {
        names = format!("{names} and {} more", tools.len() - MOST_NAMES);
    }
    Err(if skill.is_empty() {
        format!(
            "the task names no skill, and the MCP server has several tools: {names}; send {{\"name\": TOOL, \"arguments\": {{…}}}}"
        )
    } else {
        format!("the MCP server has no tool {skill:?}; it has: {names}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> Tool {
        let tool = json!({"name": name, "description": format!("does {name}"),
            "inputSchema": {"type": "object", "required": ["z", "a"]}});
        serde_json::from_value(tool).unwrap()
    }

    #[test]
    fn schemas_travel_unchanged() {
        let mut tool = serde_json::to_value(tool("add")).unwrap();
        tool["outputSchema"] = json!({"type": "object", "properties": {"sum": {"type": "number"}}});
        let skill = skill(&serde_json::from_value(tool.clone()).unwrap());
        assert_eq!(
            (skill.id.as_str(), skill.description.as_str()),
            ("add", "does add")
        );
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&skill.input_schema), tool["inputSchema"]);
        assert_eq!(read(&skill.output_schema), tool["outputSchema"]);
    }

    #[test]
    fn the_tool_is_the_skill_or_the_only_one() {
        let tools = [tool("a"), tool("b")];
        assert_eq!(choose(&tools, "b").unwrap().name, "b");
        assert_eq!(choose(&tools[..1], "").unwrap().name, "a");
        let unnamed = choose(&tools, "").unwrap_err();
        assert!(
            unnamed.contains("several tools: a, b; send {\"name\""),
            "{unnamed}"
        );
        assert!(choose(&tools[..1], "x").unwrap_err().ends_with("it has: a"));
        assert_eq!(choose(&[], "x").unwrap_err(), "the MCP server has no tools");
        let many: Vec<Tool> = (0..60).map(|n| tool(&format!("t{n}"))).collect();
        assert!(choose(&many, "x").unwrap_err().ends_with("t49 and 10 more"));
    }
}
