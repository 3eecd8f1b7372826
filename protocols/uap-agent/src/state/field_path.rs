//! Reads a part of a state. An error names the field that is wrong, through all levels below the part.

use agentanycast_upp::{DocumentSource, ImageSource, MediaBlock};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use serde_path_to_error::Segment;

use super::StateError;

/// Reads the part that has this name in the state.
pub(super) fn read<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T, StateError> {
    serde_path_to_error::deserialize(value).map_err(|error: PathError| {
        let outer = join(name, &error);
        match block_error(value, &error) {
            Some(inner) => StateError::field(join(&outer, &inner), inner.inner()),
            None => StateError::field(outer, error.inner()),
        }
    })
}

type PathError = serde_path_to_error::Error<serde_json::Error>;

/// The name of the field that is wrong in the part of this name.
fn join(name: &str, error: &PathError) -> String {
    match error.path().to_string().as_str() {
        "." => name.to_owned(),
        index if index.starts_with('[') => format!("{name}{index}"),
        member => format!("{name}.{member}"),
    }
}

/// What is wrong within a block of content, if the path of the error ends at one: its type is one of its
/// fields, and a path goes no further there.
fn block_error(value: &Value, error: &PathError) -> Option<PathError> {
    let mut at = value;
    for segment in error.path() {
        at = match segment {
            Segment::Seq { index } => at.get(index)?,
            Segment::Map { key } => at.get(key)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    match at.get("type")?.as_str()? {
        "text" | "reasoning" => fault::<TextFields>(at),
        "image" => fault::<ImageFields>(at),
        "document" => fault::<DocumentFields>(at),
        "audio" | "video" | "binary" => fault::<MediaBlock>(at),
        _ => None,
    }
}

fn fault<T: DeserializeOwned>(block: &Value) -> Option<PathError> {
    serde_path_to_error::deserialize::<_, T>(block).err()
}

/// The fields of a block of text or reasoning.
#[derive(Deserialize)]
#[expect(dead_code, reason = "it is read for the error only")]
struct TextFields {
    text: String,
}

/// The fields of an image.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read for the error only")]
struct ImageFields {
    source: ImageSource,
    mime_type: String,
    width: Option<u32>,
    height: Option<u32>,
}

/// The fields of a document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is read for the error only")]
struct DocumentFields {
    source: DocumentSource,
    mime_type: String,
    title: Option<String>,
}
