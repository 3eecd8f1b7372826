//! Parts: text, file by reference, file by value, data. PURE.
//!
//! 1.0 has one of `text`, `url`, `raw`, `data` beside the part's other fields; 0.3 has a `kind`, and puts files one
//! level deeper. What the protobuf has no field for goes to the part's annex (`metadata`), and comes back from it.

use agentanycast_gateway::base64_text;
use agentanycast_proto::{
    struct_json::{self, EXACT},
    v1::{self, DataPart, RawPart, TextPart, UrlPart, part::Content},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    error::A2aError,
    metadata::{self, ExtraFields, METADATA},
    object_reader::{ObjectReader, shown},
    version::Version,
};

/// The label with what a part says besides.
const ANNEX: &str = "a2a.part";

/// Where 0.3 has the media type of parts that are no files.
const MEDIA_TYPE: &str = "a2a.mediaType";

/// How 0.3 marks a data part whose data is no object: it is the field `value` of one. The official SDKs do so.
const WRAPPED: &str = "data_part_compat";

/// The label of a part of an agent's answer that cannot be read: why. The part is a data part with its JSON.
const UNREAD: &str = "a2a.unread";

/// Most bytes of text in an unreadable part that is kept.
const MAX_KEPT: usize = 16 << 10;

/// What a part is made of before it is one.
#[derive(Default)]
struct PartDraft {
    part: v1::Part,
    annex: ExtraFields,
    exact: Option<String>,
}

/// What a part of 0.3 without a `kind` is by its fields.
enum PartShape {
    /// Of this kind.
    Old(&'static str),
    /// A file as 1.0 has it.
    New,
    /// Of a kind that is not known, which is called `type`.
    Unknown(String),
    None,
}

/// Reads a part.
pub(crate) fn read(version: Version, value: Value, path: &str) -> Result<v1::Part, A2aError> {
    let mut fields = ObjectReader::new(value, path)?;
    let mut metadata = fields.object("metadata")?;
    let mut draft = PartDraft::default();
    match version {
        Version::V10 => draft.read_v10(&mut fields)?,
        Version::V03 => draft.read_v03(&mut fields, &mut metadata)?,
    }
    let PartDraft {
        mut part,
        mut annex,
        exact,
    } = draft;
    annex.extend(fields.rest());
    part.metadata = metadata::from_metadata(metadata, &mut annex);
    metadata::attach(&mut part.metadata, ANNEX, annex);
    if let Some(text) = exact {
        part.metadata.insert(EXACT.to_owned(), text);
    }
    Ok(part)
}

/// Reads a part of an agent's answer. One that cannot be read, or is of an unknown kind, becomes a data part with its
/// JSON and a label that says why, so that the other parts are kept.
pub(crate) fn read_or_keep(version: Version, value: Value, path: &str) -> v1::Part {
    let kept = (text_bytes(&value) <= MAX_KEPT).then(|| value.clone());
    let why = match read(version, value, path) {
        Ok(part) => match unknown_kind(&part) {
            None => return part,
            Some(why) => format!("{path}.{why}"),
        },
        Err(error) => error.to_string(),
    };
    tracing::debug!(why, "a part of an agent's answer is handed on as data");
    let carried = struct_json::carry(&kept.unwrap_or_default());
    let (data, exact) = carried.unwrap_or_default();
    let mut part = v1::Part {
        content: Some(Content::DataPart(DataPart { data: Some(data) })),
        ..v1::Part::default()
    };
    part.metadata.insert(UNREAD.to_owned(), why);
    part.metadata.extend(exact.map(|text| (EXACT.to_owned(), text)));
    part
}

/// Which field names an unknown kind, and what it says; `None` if the part has content or names no kind.
pub(crate) fn unknown_kind(part: &v1::Part) -> Option<String> {
    if part.content.is_some() {
        return None;
    }
    let annex = metadata::detach(&part.metadata, ANNEX);
    ["kind", "type"].into_iter().find_map(|name| {
        let kind = shown(annex.get(name)?);
        Some(format!("{name} is {kind}; a part is text, file or data"))
    })
}

/// The bytes of all texts in a value.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() + text_bytes(value))
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

impl PartDraft {
    fn read_v10(&mut self, fields: &mut ObjectReader) -> Result<(), A2aError> {
        fields.at_most_one_of(&["text", "raw", "url", "data"])?;
        let content = ["text", "raw", "url", "data"];
        if fields.has_file() && !content.iter().any(|name| fields.has(name)) {
            // As 0.3 writes files.
            fields.raw("kind");
            return self.read_file(fields);
        }
        self.part.media_type = fields.text_or_empty("mediaType")?;
        let filename = fields.text_or_empty("filename")?;
        if let Some(text) = fields.text("text")? {
            self.part.content = Some(Content::TextPart(TextPart { text }));
        } else if let Some(base64) = fields.text("raw")? {
            let data = decode(&base64, &fields.path("raw"))?;
            self.part.content = Some(Content::RawPart(RawPart { data, filename }));
            return Ok(());
        } else if let Some(url) = fields.text("url")? {
            self.part.content = Some(Content::UrlPart(UrlPart { url, filename }));
            return Ok(());
        } else if let Some(value) = fields.raw("data") {
            self.put_data(&value, &fields.path("data"))?;
        }
        if !filename.is_empty() {
            self.annex.insert("filename".to_owned(), filename.into());
        }
        Ok(())
    }

    fn read_v03(
        &mut self,
        fields: &mut ObjectReader,
        metadata: &mut Option<Map<String, Value>>,
    ) -> Result<(), A2aError> {
        let kind = match fields.text("kind")? {
            Some(kind) => Some(known_kind(&kind).map_or(kind, str::to_owned)),
            None => match Self::kind_by_shape(fields)? {
                PartShape::New => return self.read_v10(fields),
                PartShape::Old(kind) => Some(kind.to_owned()),
                PartShape::Unknown(kind) => {
                    fields.put_back("type", kind.into());
                    return Ok(());
                }
                PartShape::None => None,
            },
        };
        if matches!(kind.as_deref(), Some("text" | "data" | "file")) {
            fields.at_most_one_of(&["text", "data", "file"])?;
        }
        match kind.as_deref() {
            Some("text") => {
                let text = required(fields.text("text")?, &fields.path("text"))?;
                self.part.content = Some(Content::TextPart(TextPart { text }));
                self.part.media_type = take_media_type(metadata);
            }
            Some("data") => {
                let data = required(fields.object("data")?, &fields.path("data"))?;
                let value = unwrap(data, metadata);
                self.put_data(&value, &fields.path("data"))?;
                self.part.media_type = take_media_type(metadata);
            }
            Some("file") => self.read_file(fields)?,
            Some(other) => fields.put_back("kind", other.into()),
            None => return Err(A2aError::params(format!("{} is missing", fields.path("kind")))),
        }
        Ok(())
    }

    /// The kind of a part of 0.3 that does not say it: before 0.2 it was called `type`, and a part has but one of the
    /// fields that hold its content.
    fn kind_by_shape(fields: &mut ObjectReader) -> Result<PartShape, A2aError> {
        if let Some(former) = fields.text("type")? {
            return Ok(match known_kind(&former) {
                Some(kind) => PartShape::Old(kind),
                None => PartShape::Unknown(former),
            });
        }
        fields.at_most_one_of(&["text", "data", "file", "raw", "url"])?;
        let mut kinds = ["text", "data", "file"].into_iter();
        Ok(match kinds.find(|name| fields.has(name)) {
            Some(kind) => PartShape::Old(kind),
            None if fields.has("raw") || fields.has("url") => PartShape::New,
            None => PartShape::None,
        })
    }

    fn read_file(&mut self, fields: &mut ObjectReader) -> Result<(), A2aError> {
        let path = fields.path("file");
        let mut file = required(fields.nested("file")?, &path)?;
        file.at_most_one_of(&["bytes", "uri"])?;
        self.part.media_type = file.text_or_empty("mimeType")?;
        let filename = file.text_or_empty("name")?;
        if let Some(base64) = file.text("bytes")? {
            let data = decode(&base64, &file.path("bytes"))?;
            self.part.content = Some(Content::RawPart(RawPart { data, filename }));
        } else {
            let url = required(file.text("uri")?, &format!("{path}.bytes or {path}.uri"))?;
            self.part.content = Some(Content::UrlPart(UrlPart { url, filename }));
        }
        let rest = file.rest();
        if !rest.is_empty() {
            self.annex.insert("file".to_owned(), Value::Object(rest));
        }
        Ok(())
    }

    fn put_data(&mut self, value: &Value, path: &str) -> Result<(), A2aError> {
        let (data, exact) =
            struct_json::carry(value).map_err(|error| A2aError::params(format!("{path} {error}")))?;
        self.part.content = Some(Content::DataPart(DataPart { data: Some(data) }));
        self.exact = exact;
        Ok(())
    }
}

/// Writes a part; `None` for one that holds nothing but labels, which is how a message without parts travels.
pub(crate) fn write(version: Version, part: v1::Part) -> Option<Value> {
    let mut annex = metadata::detach(&part.metadata, ANNEX);
    let metadata = metadata::to_metadata(&part.metadata, &mut annex);
    if part.content.is_none() && metadata.is_none() && annex.is_empty() && part.media_type.is_empty() {
        return None;
    }
    let text = part.metadata.get(EXACT).map(String::as_str);
    let mut json = match version {
        Version::V10 => write_v10(part.content, part.media_type, text),
        Version::V03 => write_v03(part.content, part.media_type, text, &mut annex),
    };
    if let Some(mut metadata) = metadata {
        // 0.3 may have put notes of its own there.
        if let Some(Value::Object(notes)) = json.remove(METADATA) {
            metadata.extend(notes);
        }
        json.insert(METADATA.to_owned(), Value::Object(metadata));
    }
    for (name, value) in annex {
        json.entry(name).or_insert(value);
    }
    Some(Value::Object(json))
}

fn write_v10(content: Option<Content>, media_type: String, text: Option<&str>) -> Map<String, Value> {
    let mut json = Map::new();
    let mut file = String::new();
    match content {
        Some(Content::TextPart(part)) => {
            json.insert("text".to_owned(), part.text.into());
        }
        Some(Content::DataPart(part)) => {
            let value = struct_json::restore(&part.data.unwrap_or_default(), text);
            json.insert("data".to_owned(), value);
        }
        Some(Content::UrlPart(part)) => {
            json.insert("url".to_owned(), part.url.into());
            file = part.filename;
        }
        Some(Content::RawPart(part)) => {
            json.insert("raw".to_owned(), STANDARD.encode(part.data).into());
            file = part.filename;
        }
        None => {}
    }
    put(&mut json, "filename", file);
    put(&mut json, "mediaType", media_type);
    json
}

fn write_v03(
    content: Option<Content>,
    media_type: String,
    text: Option<&str>,
    annex: &mut ExtraFields,
) -> Map<String, Value> {
    let mut json = Map::new();
    let mut notes = Map::new();
    let mut file = Map::new();
    match content {
        Some(Content::TextPart(part)) => {
            json.insert("kind".to_owned(), "text".into());
            json.insert("text".to_owned(), part.text.into());
            put(&mut notes, MEDIA_TYPE, media_type);
        }
        Some(Content::DataPart(part)) => {
            let value = struct_json::restore(&part.data.unwrap_or_default(), text);
            let object = value.is_object();
            let value = if object { value } else { json!({ "value": value }) };
            json.insert("kind".to_owned(), "data".into());
            json.insert("data".to_owned(), value);
            if !object {
                notes.insert(WRAPPED.to_owned(), true.into());
            }
            put(&mut notes, MEDIA_TYPE, media_type);
        }
        Some(Content::UrlPart(part)) => {
            file.insert("uri".to_owned(), part.url.into());
            put(&mut file, "name", part.filename);
            put(&mut file, "mimeType", media_type);
        }
        Some(Content::RawPart(part)) => {
            file.insert("bytes".to_owned(), STANDARD.encode(part.data).into());
            put(&mut file, "name", part.filename);
            put(&mut file, "mimeType", media_type);
        }
        // A part of no kind that 0.3 knows; what it says is in the annex.
        None => put(&mut notes, MEDIA_TYPE, media_type),
    }
    if !file.is_empty() {
        if let Some(Value::Object(rest)) = annex.remove("file") {
            file.extend(rest);
        }
        json.insert("kind".to_owned(), "file".into());
        json.insert("file".to_owned(), Value::Object(file));
    }
    if !notes.is_empty() {
        json.insert(METADATA.to_owned(), Value::Object(notes));
    }
    json
}

/// The media type of a part of 0.3 that is no file.
fn take_media_type(metadata: &mut Option<Map<String, Value>>) -> String {
    match take_note(metadata, MEDIA_TYPE, Value::is_string) {
        Some(Value::String(media_type)) => media_type,
        _ => String::new(),
    }
}

/// The data of a part of 0.3: an object, or what one is wrapped around.
fn unwrap(mut data: Map<String, Value>, metadata: &mut Option<Map<String, Value>>) -> Value {
    if data.len() == 1
        && let Some(inner) = data.get("value")
        && !inner.is_object()
        && take_note(metadata, WRAPPED, |mark| *mark == Value::Bool(true)).is_some()
    {
        return data.remove("value").unwrap_or_default();
    }
    Value::Object(data)
}

/// Takes a note of a gateway out of metadata, and the metadata away if there is nothing else in it.
fn take_note(
    metadata: &mut Option<Map<String, Value>>,
    name: &str,
    is_one: impl Fn(&Value) -> bool,
) -> Option<Value> {
    let all = metadata.as_mut()?;
    if !all.get(name).is_some_and(is_one) {
        return None;
    }
    let note = all.remove(name);
    if all.is_empty() {
        *metadata = None;
    }
    note
}

/// A field that is left out when it says nothing.
pub(crate) fn put(json: &mut Map<String, Value>, name: &str, text: String) {
    if !text.is_empty() {
        json.insert(name.to_owned(), text.into());
    }
}

/// The kind of a part of 0.3, in any case.
fn known_kind(kind: &str) -> Option<&'static str> {
    let mut kinds = ["text", "data", "file"].into_iter();
    kinds.find(|known| kind.eq_ignore_ascii_case(known))
}

fn required<T>(value: Option<T>, path: &str) -> Result<T, A2aError> {
    value.ok_or_else(|| A2aError::params(format!("{path} is missing")))
}

fn decode(base64: &str, path: &str) -> Result<Vec<u8>, A2aError> {
    base64_text::decode(base64).map_err(|error| A2aError::params(format!("{path} is not base64: {error}")))
}
