//! Parts of the mesh as payloads of the protocol, and back. PURE. Used by sessions of this hub, where a task becomes payloads, and
//! by the agent that this node is for other hubs, where payloads become a task.
//!
//! Invariant: what is a payload here is the same payload after a way through the mesh: type, name, media type and bytes.

use std::collections::BTreeMap;

use agentanycast_proto::{
    json::{from_struct, to_struct},
    struct_json::{EXACT, MAX_DEPTH, depth, restore},
    v1 as mesh,
};
use agentanycast_uap_hub::v1::{Attachment, Payload};
use bytes::Bytes;
use mesh::part::Content;
use serde_json::Value;

use crate::capability::InputShape;

/// The label of a part with the payload type that it is, or is to be.
pub const TYPE: &str = "uap.type";

/// The label of a text part with the name of the file that it was read from, as `anycast send @FILE` sets it.
const FILENAME: &str = "filename";

/// The media type of bytes of which nothing is known; `anycast send @FILE` gives it to all files that are no text.
const BYTES: &str = "application/octet-stream";

/// The media type of text, and of JSON.
const TEXT: &str = "text/plain";
pub(crate) const JSON: &str = "application/json";

/// A part of a task that is to be a payload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    /// What requirements see of it.
    pub(crate) shape: InputShape,
    /// Without its type.
    pub(crate) payload: Payload,
}

/// The payloads that a message is; parts of white space are none.
///
/// # Errors
/// The first part that cannot be a payload.
pub(crate) fn inputs(message: &mesh::Message) -> Result<Vec<Input>, String> {
    let parts = message.parts.iter().enumerate();
    parts
        .filter_map(|(at, part)| input(at + 1, part).transpose())
        .collect()
}

fn input(number: usize, part: &mesh::Part) -> Result<Option<Input>, String> {
    // What the part says; else what files of its name are; else it is not known.
    let known = |name: &str| match part.media_type.as_str() {
        "" | BYTES => mime_guess::from_path(name).first_raw().unwrap_or_default(),
        known => known,
    };
    let attachment = |name: String, media_type: &str, data: Bytes| {
        let known = match known(&name) {
            "" => media_type,
            known => known,
        }
        .to_owned();
        Payload {
            attachment: Some(Attachment {
                name,
                mime_type: known,
                data,
            }),
            ..Payload::default()
        }
    };
    let mut is_known = true;
    let payload = match &part.content {
        Some(Content::RawPart(raw)) => {
            let name = match raw.filename.as_str() {
                "" => format!("part-{number}"),
                name => name.to_owned(),
            };
            is_known = !known(&name).is_empty();
            attachment(name, BYTES, raw.data.clone().into())
        }
        Some(Content::TextPart(text)) if text.text.trim().is_empty() => return Ok(None),
        Some(Content::TextPart(text)) => {
            let name = part.metadata.get(FILENAME).filter(|name| !name.is_empty());
            // What a person types may be anything that is text.
            is_known = !known(name.map_or("", String::as_str)).is_empty();
            let name = name.cloned().unwrap_or_else(|| format!("part-{number}.txt"));
            attachment(name, TEXT, text.text.clone().into())
        }
        Some(Content::DataPart(data)) => {
            let data = data.data.clone().unwrap_or_default();
            let exact = part.metadata.get(EXACT).map(String::as_str);
            match restore(&data, exact) {
                Value::Object(object) => Payload {
                    metadata: Some(to_struct(object)),
                    ..Payload::default()
                },
                other => attachment(format!("part-{number}.json"), JSON, other.to_string().into()),
            }
        }
        Some(Content::UrlPart(_)) => {
            return Err(format!(
                "part {number} is a URL; agents of this hub take content only, so send the content"
            ));
        }
        None => return Err(format!("part {number} has no content")),
    };
    let media_type = payload
        .attachment
        .as_ref()
        .map_or(JSON, |attachment| &attachment.mime_type);
    let shape = InputShape {
        label: part.metadata.get(TYPE).filter(|name| !name.is_empty()).cloned(),
        media_type: if is_known {
            media_type.to_owned()
        } else {
            String::new()
        },
    };
    Ok(Some(Input { shape, payload }))
}

/// A payload as a part: bytes with their name, or data; with both, data and then bytes.
pub(crate) fn parts_of(payload: Payload) -> Vec<mesh::Part> {
    let labels = || match payload.r#type.as_str() {
        "" => BTreeMap::default(),
        name => [(TYPE.to_owned(), name.to_owned())].into(),
    };
    let data = payload.metadata.map(|metadata| {
        let value = metadata_json(&metadata);
        let part = if depth(&value) > MAX_DEPTH {
            // Deeper than the mesh carries data.
            attachment_part(Attachment {
                name: "metadata.json".to_owned(),
                mime_type: JSON.to_owned(),
                data: value.to_string().into(),
            })
        } else {
            mesh::Part {
                content: Some(Content::DataPart(mesh::DataPart { data: Some(metadata) })),
                media_type: JSON.to_owned(),
                ..mesh::Part::default()
            }
        };
        mesh::Part {
            metadata: labels(),
            ..part
        }
    });
    let bytes = payload.attachment.map(|attachment| mesh::Part {
        metadata: labels(),
        ..attachment_part(attachment)
    });
    data.into_iter().chain(bytes).collect()
}

/// An attachment as a part.
pub(crate) fn attachment_part(attachment: Attachment) -> mesh::Part {
    mesh::Part {
        content: Some(Content::RawPart(mesh::RawPart {
            data: attachment.data.into(),
            filename: attachment.name,
        })),
        media_type: media_type_of(&attachment.mime_type),
        ..mesh::Part::default()
    }
}

/// A media type, or that of bytes.
pub(crate) fn media_type_of(given: &str) -> String {
    match given {
        "" => BYTES,
        given => given,
    }
    .to_owned()
}

/// A part of a result as a payload of this type; text is an attachment.
pub(crate) fn payload_of(number: usize, part: &mesh::Part, default_type: &str) -> Option<Payload> {
    let input = input(number, part).ok()??;
    let r#type = input.shape.label.unwrap_or_else(|| default_type.to_owned());
    Some(Payload {
        r#type,
        ..input.payload
    })
}

/// The object of metadata as JSON.
pub(crate) fn metadata_json(metadata: &prost_types::Struct) -> Value {
    Value::Object(from_struct(metadata))
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::parts::text_part;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn message(parts: Vec<mesh::Part>) -> mesh::Message {
        mesh::Message {
            parts,
            ..mesh::Message::default()
        }
    }

    fn raw(name: &str, media_type: &str) -> mesh::Part {
        attachment_part(Attachment {
            name: name.to_owned(),
            mime_type: media_type.to_owned(),
            data: Bytes::from_static(b"<suite/>"),
        })
    }

    #[test]
    fn files_texts_and_data_are_payloads() {
        let mut labelled = raw("suite.xml", "text/xml");
        labelled.metadata.insert(TYPE.to_owned(), "suite".to_owned());
        let data = mesh::Part {
            content: Some(Content::DataPart(mesh::DataPart {
                data: Some(to_struct(
                    json!({"browser": "firefox"}).as_object().unwrap().clone(),
                )),
            })),
            ..mesh::Part::default()
        };
        let mut text_file = text_part("<suite/>");
        text_file
            .metadata
            .insert(FILENAME.to_owned(), "other.xml".to_owned());
        let said = message(vec![
            labelled,
            raw("", ""),
            text_part(" \n"),
            text_part("go"),
            data,
            text_file,
        ]);
        let read = inputs(&said).unwrap();
        let named = |input: &Input| {
            let attachment = input.payload.attachment.as_ref()?;
            Some((attachment.name.clone(), attachment.mime_type.clone()))
        };
        let names: Vec<_> = read.iter().map(named).collect();
        let file = |name: &str, media_type: &str| Some((name.to_owned(), media_type.to_owned()));
        assert_eq!(
            names,
            [
                file("suite.xml", "text/xml"),
                file("part-2", BYTES),
                file("part-4.txt", TEXT),
                None,
                file("other.xml", "text/xml")
            ]
        );
        assert_eq!(read[0].shape.label.as_deref(), Some("suite"));
        let known: Vec<_> = read.iter().map(|input| input.shape.media_type.as_str()).collect();
        assert_eq!(
            known,
            ["text/xml", "", "", JSON, "text/xml"],
            "what is not known is said so"
        );
        assert_eq!(
            metadata_json(read[3].payload.metadata.as_ref().unwrap()),
            json!({"browser": "firefox"})
        );
        assert_eq!(read[3].shape.media_type, JSON);
    }

    #[test]
    fn json_that_is_no_object_is_an_attachment() {
        let (data, exact) = agentanycast_proto::struct_json::pack(&json!([1, 2]));
        let part = mesh::Part {
            content: Some(Content::DataPart(mesh::DataPart { data: Some(data) })),
            metadata: exact.map(|text| (EXACT.to_owned(), text)).into_iter().collect(),
            ..mesh::Part::default()
        };
        let read = inputs(&message(vec![part]))
            .unwrap()
            .remove(0)
            .payload
            .attachment
            .unwrap();
        assert_eq!(
            (read.mime_type.as_str(), read.data.as_ref()),
            (JSON, &b"[1,2]"[..])
        );
    }

    #[test]
    fn a_url_or_an_empty_part_is_refused_by_its_number() {
        let url = mesh::Part {
            content: Some(Content::UrlPart(mesh::UrlPart::default())),
            ..mesh::Part::default()
        };
        assert!(
            inputs(&message(vec![text_part("a"), url]))
                .unwrap_err()
                .starts_with("part 2 is a URL")
        );
        let empty = message(vec![mesh::Part::default()]);
        assert_eq!(inputs(&empty).unwrap_err(), "part 1 has no content");
    }

    proptest! {
        #[test]
        fn an_attachment_is_the_same_after_a_way_through_the_mesh(
            name in "[a-z]{1,8}", kind in "[a-z]{0,8}", media_type in "[a-z]{1,8}/[a-z]{1,8}", data: Vec<u8>,
        ) {
            let payload = Payload {
                r#type: kind.clone(),
                attachment: Some(Attachment { name, mime_type: media_type, data: data.into() }),
                metadata: None,
            };
            let parts = parts_of(payload.clone());
            let read = inputs(&message(parts.clone())).unwrap().remove(0);
            prop_assert_eq!(read.shape.label.unwrap_or_default(), kind.clone());
            prop_assert_eq!(&read.payload.attachment, &payload.attachment);
            prop_assert_eq!(payload_of(1, &parts[0], "").unwrap(), payload);
        }
    }
}
