//! The tools of an MCP server as skills, and which of them a task is for. PURE.

use agentanycast_mcp_client::{MOST_TOOLS, Tool, ToolList};
use agentanycast_proto::v1;
use serde_json::{Map, Value};

use crate::task_content::shortened;

/// Most names of tools in one error.
const MOST_NAMES: usize = 50;

/// Most bytes of all skills. A node shows no card of more than 256 KiB to others, and a card has more than
/// skills.
const MOST_SKILLS: usize = 192 << 10;

/// Most of a description where there is no room for all, in bytes.
const SHORT: usize = 100;

/// The tools of a list. One of which a page is missing keeps the tools that are known from before.
pub(super) fn listed(list: ToolList, known: &[Tool]) -> Vec<Tool> {
    let mut tools = list.tools;
    if list.is_cut {
        let is_missing = |old: &&Tool| tools.iter().all(|tool| tool.name != old.name);
        let missing: Vec<Tool> = known.iter().filter(is_missing).cloned().collect();
        tools.extend(missing);
        tools.truncate(MOST_TOOLS);
    }
    tools
}

/// The skills of these tools. Where they are too large for a card the last ones have no schemas.
pub(super) fn skills(tools: &[Tool]) -> Vec<v1::Skill> {
    let size = |skill: &v1::Skill| {
        skill.id.len() + skill.description.len() + skill.input_schema.len() + skill.output_schema.len() + 32
    };
    let short = |tool: &Tool| {
        let whole = skill(tool);
        v1::Skill {
            description: shortened(&whole.description, SHORT),
            id: whole.id,
            ..v1::Skill::default()
        }
    };
    // Each has room for its short form.
    let mut room = MOST_SKILLS.saturating_sub(tools.iter().map(|tool| size(&short(tool))).sum());
    let skills = tools.iter().map(|tool| {
        let (whole, short) = (skill(tool), short(tool));
        let more = size(&whole).saturating_sub(size(&short));
        if more > room {
            return short;
        }
        room -= more;
        whole
    });
    skills.collect()
}

/// The skill of a tool: its name, its description and its schemas, unchanged.
fn skill(tool: &Tool) -> v1::Skill {
    let schema = |schema: &Map<String, Value>| Value::Object(schema.clone()).to_string();
    let description = tool.description.as_deref();
    v1::Skill {
        id: tool.name.clone(),
        description: description
            .or(tool.title.as_deref())
            .unwrap_or_default()
            .to_owned(),
        input_schema: schema(&tool.input_schema),
        output_schema: tool.output_schema.as_ref().map(schema).unwrap_or_default(),
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
    let names = tools.iter().take(MOST_NAMES).map(|tool| tool.name.as_str());
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
        Tool {
            name: name.to_owned(),
            title: None,
            description: Some(format!("does {name}")),
            input_schema: json!({"type": "object", "required": ["z", "a"]})
                .as_object()
                .cloned()
                .unwrap(),
            output_schema: None,
            annotations: None,
            meta: None,
        }
    }

    #[test]
    fn schemas_travel_unchanged() {
        let mut tool = tool("add");
        let output = json!({"type": "object", "properties": {"sum": {"type": "number"}}});
        tool.output_schema = output.as_object().cloned();
        let skill = skill(&tool);
        assert_eq!(
            (skill.id.as_str(), skill.description.as_str()),
            ("add", "does add")
        );
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(
            read(&skill.input_schema),
            json!({"type": "object", "required": ["z", "a"]})
        );
        assert_eq!(read(&skill.output_schema), output);
    }

    #[test]
    fn a_list_without_a_page_keeps_what_is_known() {
        let known = [tool("a"), tool("b")];
        let names = |is_cut: bool| {
            let mut list = ToolList::default();
            (list.tools, list.is_cut) = (vec![tool("c"), tool("b")], is_cut);
            let tools = listed(list, &known).into_iter();
            tools.map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(true), names(false)),
            (
                vec!["c".to_owned(), "b".to_owned(), "a".to_owned()],
                vec!["c".to_owned(), "b".to_owned()]
            )
        );
    }

    #[test]
    fn skills_fit_a_card() {
        let large = |n: usize| Tool {
            description: Some("d".repeat(1000)),
            input_schema: json!({"x": "y".repeat(20_000)}).as_object().cloned().unwrap(),
            ..tool(&format!("t{n}"))
        };
        let tools: Vec<Tool> = (0..300).map(large).collect();
        let skills = skills(&tools);
        let with_schema = skills
            .iter()
            .filter(|skill| !skill.input_schema.is_empty())
            .count();
        assert_eq!((skills.len(), skills[299].id.as_str()), (300, "t299"));
        assert!((1..10).contains(&with_schema), "{with_schema}");
        let size = skills
            .iter()
            .map(|skill| skill.id.len() + skill.description.len() + skill.input_schema.len());
        assert!(size.sum::<usize>() < MOST_SKILLS);
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
