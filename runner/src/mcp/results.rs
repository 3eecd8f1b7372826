//! The result of a tool as results of a task. PURE.
//!
//! Every block becomes a part with its media type. Structured content becomes a data part, and the text that servers
//! send beside it for older clients is left out where it says the same.

use agentanycast_gateway::base64_text;
use agentanycast_proto::v1::{self, part::Content};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::parts::{data_part, raw_part};
use crate::task_content::{OCTETS, PLAIN_TEXT, artifact, typed_text};

/// The label of a part with the URI of the resource that it holds.
pub(super) const URI: &str = "mcp.uri";

/// The artifacts of a task that called this tool.
///
/// # Errors
/// The text by which the tool says that it failed.
pub(super) fn artifacts(tool: &str, result: CallToolResult) -> Result<Vec<v1::Artifact>, String> {
    if result.is_error == Some(true) {
        return Err(failure(tool, &result));
    }
    let mut parts = Vec::new();
    for block in result.content {
        let says_the_same = match (&block, &result.structured_content) {
            (ContentBlock::Text(text), Some(structured)) => {
                serde_json::from_str::<Value>(&text.text).is_ok_and(|value| value == *structured)
            }
            _ => false,
        };
        if !says_the_same {
            parts.push(part(block)?);
        }
    }
    if let Some(structured) = &result.structured_content {
        parts.push(data_part(structured));
    }
    Ok(if parts.is_empty() {
        Vec::new()
    } else {
        vec![artifact(tool, parts)]
    })
}

fn part(block: ContentBlock) -> Result<v1::Part, String> {
    Ok(match block {
        ContentBlock::Text(text) => typed_text(text.text, PLAIN_TEXT),
        ContentBlock::Image(image) => raw_part(bytes(&image.data)?, "", &image.mime_type),
        ContentBlock::Audio(audio) => raw_part(bytes(&audio.data)?, "", &audio.mime_type),
        ContentBlock::ResourceLink(link) => v1::Part {
            content: Some(Content::UrlPart(v1::UrlPart {
                url: link.uri,
                filename: link.name,
            })),
            media_type: link.mime_type.unwrap_or_default(),
            ..v1::Part::default()
        },
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents {
                uri, mime_type, text, ..
            } => with_uri(typed_text(text, mime_type.as_deref().unwrap_or(PLAIN_TEXT)), uri),
            ResourceContents::BlobResourceContents {
                uri, mime_type, blob, ..
            } => {
                let media_type = mime_type.as_deref().unwrap_or(OCTETS);
                with_uri(raw_part(bytes(&blob)?, filename(&uri), media_type), uri)
            }
            other => {
                return Err(format!(
                    "it answered with a resource of a kind that is not known: {other:?}"
                ));
            }
        },
        other => {
            return Err(format!(
                "it answered with content of a kind that is not known: {other:?}"
            ));
        }
    })
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
    base64_text::decode(base64).map_err(|error| format!("it answered with bytes that are no base64: {error}"))
}

/// What a tool says of its failure.
fn failure(tool: &str, result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(ContentBlock::as_text);
    let text = texts.map(|text| text.text.trim()).collect::<Vec<_>>().join("\n");
    match (&result.structured_content, text.is_empty()) {
        (_, false) => text,
        (Some(structured), true) => structured.to_string(),
        (None, true) => format!("the tool {tool} failed and does not say why"),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::Resource;
    use serde_json::json;

    use super::*;
    use crate::task_content::json_of;

    fn result(json: Value) -> Result<Vec<v1::Artifact>, String> {
        artifacts("t", serde_json::from_value(json).unwrap())
    }

    #[test]
    fn each_block_is_a_part_with_its_media_type() {
        let link = Resource::new("file:///a/b.md", "b.md");
        let mut link = serde_json::to_value(link).unwrap();
        link["type"] = json!("resource_link");
        link["mimeType"] = json!("text/markdown");
        let all = result(json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            link,
            {"type": "resource", "resource": {"uri": "x:///t", "mimeType": "text/html", "text": "<p>"}},
            {"type": "resource", "resource": {"uri": "x:///d/b.bin?v=1", "blob": "aGk="}},
        ]}))
        .unwrap();
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
        let all = result(json!({
            "content": [{"type": "text", "text": "{ \"n\": [1, 2] }"}, {"type": "text", "text": "two numbers"}],
            "structuredContent": structured,
        }))
        .unwrap();
        let parts = &all[0].parts;
        assert_eq!(parts.len(), 2);
        assert_eq!(shown(&parts[0]), " text two numbers");
        assert_eq!(json_of(&parts[1]), Some(structured));
        assert_eq!(result(json!({"content": []})), Ok(Vec::new()));
    }

    #[test]
    fn an_error_is_its_text() {
        let failed = |json: Value| result(json).unwrap_err();
        let text = json!({"isError": true, "content": [{"type": "text", "text": "no such city\n"}]});
        assert_eq!(failed(text), "no such city");
        let structured = json!({"isError": true, "content": [], "structuredContent": {"code": 7}});
        assert_eq!(failed(structured), r#"{"code":7}"#);
        assert!(failed(json!({"isError": true, "content": []})).contains("the tool t failed"));
        let bad = json!({"content": [{"type": "image", "data": "%", "mimeType": "image/png"}]});
        assert!(failed(bad).contains("no base64"));
    }
}
