//! Messages of tasks as prompts of the Agent Client Protocol, and what an agent says as parts. PURE.

use std::fmt::Write as _;

use agent_client_protocol::v1::schema::{
    AudioContent, BlobResourceContents, ContentBlock, EmbeddedResource, EmbeddedResourceResource,
    ImageContent, PromptCapabilities, ResourceLink, TextContent, TextResourceContents,
};
use agentanycast_gateway::base64_text;
use agentanycast_proto::v1::{self, part::Content};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::parts::{JSON, raw_part};
use crate::task_content::{OCTETS, PLAIN_TEXT, essence, json_of, typed_text};

/// A message as a prompt for an agent with these capabilities.
///
/// # Errors
/// The reason for people: the agent takes no content of some kind.
pub(super) fn prompt(message: &v1::Message, takes: &PromptCapabilities) -> Result<Vec<ContentBlock>, String> {
    let blocks = message.parts.iter().enumerate();
    let blocks: Result<Vec<_>, String> = blocks.map(|(at, part)| block(part, at, takes)).collect();
    let blocks = blocks?;
    if blocks.is_empty() {
        return Err("the task has no message for the agent".to_owned());
    }
    Ok(blocks)
}

fn block(part: &v1::Part, at: usize, takes: &PromptCapabilities) -> Result<ContentBlock, String> {
    let media_type = essence(&part.media_type);
    Ok(match &part.content {
        Some(Content::TextPart(text)) => ContentBlock::Text(TextContent::new(&text.text)),
        Some(Content::DataPart(_)) => {
            let json = json_of(part).unwrap_or_default().to_string();
            if takes.embedded_context {
                text_resource(json, &format!("data-{}.json", at + 1), JSON)
            } else {
                ContentBlock::Text(TextContent::new(json))
            }
        }
        Some(Content::UrlPart(link)) => {
            let name = if link.filename.is_empty() {
                &link.url
            } else {
                &link.filename
            };
            let link = ResourceLink::new(name, &link.url);
            ContentBlock::ResourceLink(link.mime_type((!media_type.is_empty()).then_some(media_type)))
        }
        Some(Content::RawPart(file)) => file_block(file, &media_type, at, takes)?,
        None => ContentBlock::Text(TextContent::new("")),
    })
}

fn file_block(
    file: &v1::RawPart,
    media_type: &str,
    at: usize,
    takes: &PromptCapabilities,
) -> Result<ContentBlock, String> {
    let name = if file.filename.is_empty() {
        format!("file-{}", at + 1)
    } else {
        file.filename.clone()
    };
    if media_type.starts_with("image/") && takes.image {
        return Ok(ContentBlock::Image(ImageContent::new(
            STANDARD.encode(&file.data),
            media_type,
        )));
    }
    if media_type.starts_with("audio/") && takes.audio {
        return Ok(ContentBlock::Audio(AudioContent::new(
            STANDARD.encode(&file.data),
            media_type,
        )));
    }
    let text = str::from_utf8(&file.data).ok();
    match text {
        Some(text) if takes.embedded_context => {
            let media_type = if media_type.is_empty() {
                PLAIN_TEXT
            } else {
                media_type
            };
            Ok(text_resource(text.to_owned(), &name, media_type))
        }
        Some(text) => Ok(ContentBlock::Text(TextContent::new(format!("{name}:\n{text}")))),
        None if takes.embedded_context => {
            let blob = BlobResourceContents::new(STANDARD.encode(&file.data), uri(&name));
            let media_type = if media_type.is_empty() { OCTETS } else { media_type };
            let blob = blob.mime_type(media_type.to_owned());
            let resource = EmbeddedResourceResource::BlobResourceContents(blob);
            Ok(ContentBlock::Resource(EmbeddedResource::new(resource)))
        }
        None => Err(format!(
            "the agent takes no files that are no text, such as {name}"
        )),
    }
}

fn text_resource(text: String, name: &str, media_type: &str) -> ContentBlock {
    let text = TextResourceContents::new(text, uri(name)).mime_type(media_type.to_owned());
    ContentBlock::Resource(EmbeddedResource::new(
        EmbeddedResourceResource::TextResourceContents(text),
    ))
}

/// The URI of a file that came with a message: it is nowhere else.
fn uri(name: &str) -> String {
    let mut uri = "attachment:///".to_owned();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// What an agent says, other than text, as a part; `None`: it is text or cannot be read.
pub(super) fn part(block: &ContentBlock) -> Option<v1::Part> {
    match block {
        ContentBlock::Image(image) => Some(raw_part(
            base64_text::decode(&image.data).ok()?,
            "",
            &image.mime_type,
        )),
        ContentBlock::Audio(audio) => Some(raw_part(
            base64_text::decode(&audio.data).ok()?,
            "",
            &audio.mime_type,
        )),
        ContentBlock::ResourceLink(link) => Some(v1::Part {
            content: Some(Content::UrlPart(v1::UrlPart {
                url: link.uri.clone(),
                filename: link.name.clone(),
            })),
            media_type: link.mime_type.clone().unwrap_or_default(),
            ..v1::Part::default()
        }),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => Some(typed_text(
                &text.text,
                text.mime_type.as_deref().unwrap_or(PLAIN_TEXT),
            )),
            EmbeddedResourceResource::BlobResourceContents(blob) => {
                let name = blob.uri.rsplit('/').next().unwrap_or_default();
                let bytes = base64_text::decode(&blob.blob).ok()?;
                Some(raw_part(bytes, name, blob.mime_type.as_deref().unwrap_or(OCTETS)))
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::parts::data_part;
    use crate::task_content::message;

    fn takes(all: bool) -> PromptCapabilities {
        serde_json::from_value(json!({"image": all, "audio": all, "embeddedContext": all})).unwrap()
    }

    fn prompted(parts: Vec<v1::Part>, all: bool) -> Result<Value, String> {
        let blocks = prompt(&message(parts), &takes(all))?;
        Ok(serde_json::to_value(blocks).unwrap())
    }

    #[test]
    fn parts_are_blocks_of_the_kinds_that_the_agent_takes() {
        let parts = || {
            vec![
                typed_text("do it", PLAIN_TEXT),
                data_part(&json!({"n": 1})),
                raw_part(b"hi".to_vec(), "a b.txt", "text/plain"),
            ]
        };
        let resource = |uri: &str, media_type: &str, text: &str| json!({"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": text}});
        assert_eq!(
            prompted(parts(), true).unwrap(),
            json!([
                {"type": "text", "text": "do it"},
                resource("attachment:///data-2.json", "application/json", r#"{"n":1}"#),
                resource("attachment:///a%20b.txt", "text/plain", "hi"),
            ])
        );
        assert_eq!(
            prompted(parts(), false).unwrap(),
            json!([
                {"type": "text", "text": "do it"},
                {"type": "text", "text": r#"{"n":1}"#},
                {"type": "text", "text": "a b.txt:\nhi"},
            ])
        );
    }

    #[test]
    fn files_that_are_no_text_need_an_agent_that_takes_them() {
        let image = || vec![raw_part(vec![0xff, 0], "x.png", "image/png")];
        let image_block = json!([{"type": "image", "data": "/wA=", "mimeType": "image/png"}]);
        assert_eq!(prompted(image(), true).unwrap(), image_block);
        assert!(prompted(image(), false).unwrap_err().contains("x.png"));
        let zip = prompted(vec![raw_part(vec![0xff], "", "")], true).unwrap();
        let blob = json!({"uri": "attachment:///file-1", "mimeType": OCTETS, "blob": "/w=="});
        assert_eq!(zip[0]["resource"], blob);
        assert!(prompted(Vec::new(), true).is_err());
    }

    #[test]
    fn what_an_agent_says_besides_text_is_a_part() {
        let image = ContentBlock::Image(ImageContent::new("/wA=", "image/png"));
        assert_eq!(part(&image).unwrap(), raw_part(vec![0xff, 0], "", "image/png"));
        assert!(part(&ContentBlock::Image(ImageContent::new("%", "image/png"))).is_none());
        assert!(part(&ContentBlock::Text(TextContent::new("x"))).is_none());
    }
}
