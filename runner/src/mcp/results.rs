//! The result of a tool as results of a task. PURE.
//!
//! Every block becomes a part with its media type. Structured content becomes a data part, and the text that
//! servers send beside it for older clients is left out where it says the same. A block that cannot be read
//! is a data part with the block, which the label [`UNREAD`] marks: the tool ran, and the rest of its answer
//! is good.

use agentanycast_gateway::base64_text;
use agentanycast_mcp_client::{ToolResult, text_of_block};
use agentanycast_proto::v1::{self, part::Content};
use serde_json::Value;

use crate::parts::{data_part, raw_part};
use crate::task_content::{OCTETS, PLAIN_TEXT, artifact, typed_text};

/// The label of a part with the URI of the resource that it holds.
pub(super) const URI: &str = "mcp.uri";

/// The label of a part with a block that cannot be read: why.
const UNREAD: &str = "mcp.unread";

/// The artifacts of a task that called this tool.
pub(super) fn artifacts(tool: &str, result: ToolResult) -> Vec<v1::Artifact> {
    let ToolResult { content, structured } = result;
    let mut parts = Vec::new();
    for block in content {
        let says_the_same = match (text_of_block(&block), &structured) {
            (Some(text), Some(structured)) => {
                serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured)
            }
            _ => false,
        };
        if !says_the_same {
            parts.push(part(&block).unwrap_or_else(|why| unread(tool, &block, why)));
        }
    }
    parts.extend(structured.as_ref().map(data_part));
    if parts.is_empty() {
        Vec::new()
    } else {
        vec![artifact(tool, parts)]
    }
}

fn part(block: &Value) -> Result<v1::Part, String> {
    if let Some(text) = text_of_block(block) {
        return Ok(typed_text(text, PLAIN_TEXT));
    }
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    let needed = |key: &str| text(key).ok_or_else(|| format!("it has no {key}"));
    match text("type") {
        Some("image" | "audio") => {
            let media_type = text("mimeType").unwrap_or(OCTETS);
            Ok(raw_part(bytes(needed("data")?)?, "", media_type))
        }
        Some("resource_link") => Ok(v1::Part {
            content: Some(Content::UrlPart(v1::UrlPart {
                url: needed("uri")?.to_owned(),
                filename: text("name").unwrap_or_default().to_owned(),
            })),
            media_type: text("mimeType").unwrap_or_default().to_owned(),
            ..v1::Part::default()
        }),
        Some("resource") => resource(block.get("resource").unwrap_or(&Value::Null)),
        Some(kind) => Err(format!("a block of the kind {kind:.100} is not known")),
        None => Err("a block without a kind".to_owned()),
    }
}

fn resource(resource: &Value) -> Result<v1::Part, String> {
    let text = |key: &str| resource.get(key).and_then(Value::as_str);
    let (uri, media_type) = (text("uri").unwrap_or_default(), text("mimeType"));
    let part = match (text("text"), text("blob")) {
        (Some(words), _) => typed_text(words, media_type.unwrap_or(PLAIN_TEXT)),
        (None, Some(blob)) => raw_part(bytes(blob)?, filename(uri), media_type.unwrap_or(OCTETS)),
        (None, None) => return Err("a resource without text and without bytes".to_owned()),
    };
    Ok(with_uri(part, uri.to_owned()))
}

fn unread(tool: &str, block: &Value, why: String) -> v1::Part {
    tracing::warn!(tool, why, "a block of the result of a tool is handed on as data");
    let mut part = data_part(block);
    part.metadata.insert(UNREAD.to_owned(), why);
    part
}

fn with_uri(mut part: v1::Part, uri: String) -> v1::Part {
    part.metadata.insert(URI.to_owned(), uri);
    part
}

/// The last segment of a URI's path.
fn filename(uri: &str) -> &str {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

fn bytes(base64: &str) -> Result<Vec<u8>, String> {
    base64_text::decode(base64).map_err(|error| format!("its bytes are no base64: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::task_content::json_of;

    fn result(json: &Value) -> Vec<v1::Artifact> {
        artifacts(
            "t",
            ToolResult::of("t", json.as_object().cloned().unwrap()).unwrap(),
        )
    }

    #[test]
    fn each_block_is_a_part_with_its_media_type() {
        let link = json!({"type": "resource_link", "uri": "file:///a/b.md", "name": "b.md",
            "mimeType": "text/markdown"});
        let all = result(&json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            link,
            {"type": "resource", "resource": {"uri": "x:///t", "mimeType": "text/html", "text": "<p>"}},
            {"type": "resource", "resource": {"uri": "x:///d/b.bin?v=1", "blob": "aGk="}},
        ]}));
        let [artifact] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!(artifact.name, "t");
        let shown: Vec<String> = artifact.parts.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                " text hello",
                "image/png file  hi",
                "audio/wav file  hi",
                "text/markdown link b.md file:///a/b.md",
                "text/html text <p>",
                "application/octet-stream file b.bin hi",
            ]
        );
        assert_eq!(artifact.parts[5].metadata[URI], "x:///d/b.bin?v=1");
    }

    fn shown(part: &v1::Part) -> String {
        let content = match part.content.clone().unwrap() {
            Content::TextPart(text) => format!("text {}", text.text),
            Content::RawPart(raw) => {
                format!("file {} {}", raw.filename, String::from_utf8(raw.data).unwrap())
            }
            Content::UrlPart(url) => format!("link {} {}", url.filename, url.url),
            Content::DataPart(_) => "data".to_owned(),
        };
        format!("{} {content}", part.media_type)
    }

    #[test]
    fn structured_content_is_a_data_part_and_its_text_is_left_out() {
        let structured = json!({"n": [1, 2]});
        let all = result(&json!({
            "content": [{"type": "text", "text": "{ \"n\": [1, 2] }"}, {"type": "text", "text": "two numbers"}],
            "structuredContent": structured,
        }));
        let parts = &all[0].parts;
        assert_eq!(parts.len(), 2);
        assert_eq!(shown(&parts[0]), " text two numbers");
        assert_eq!(json_of(&parts[1]), Some(structured));
        assert_eq!(result(&json!({"content": []})), Vec::new());
    }

    #[test]
    fn blocks_that_cannot_be_read_are_handed_on_and_the_others_are_kept() {
        let odd = [
            json!({"type": "hologram", "beams": 3}),
            json!({"type": "image", "data": "%", "mimeType": "image/png"}),
            json!({"type": "image"}),
            json!({"type": "resource", "resource": {"uri": "x:///a"}}),
            json!({"type": "resource_link", "name": "x"}),
            json!({"type": "text", "text": 7}),
            json!(7),
        ];
        let content = [
            &[json!({"type": "text", "text": "good"})],
            &odd[..],
            &[json!("bare")],
        ]
        .concat();
        let all = result(&json!({"content": content, "isError": null}));
        let parts = &all[0].parts;
        assert_eq!(
            (shown(&parts[0]).as_str(), shown(&parts[8]).as_str()),
            (" text good", " text bare")
        );
        for (part, block) in parts[1..8].iter().zip(odd) {
            assert_eq!(json_of(part), Some(block));
            assert!(!part.metadata[UNREAD].is_empty());
        }
        let one = result(&json!({"content": {"type": "text", "text": "one"}}));
        assert_eq!(shown(&one[0].parts[0]), " text one");
    }
}
