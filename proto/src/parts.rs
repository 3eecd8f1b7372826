//! Parts of messages and artifacts: texts and JSON, made and read by one rule in the node, the runner and the gateways.
//! PURE.

use serde_json::Value;

use crate::{
    struct_json::{EXACT, TooDeep, carry, restore},
    v1::{DataPart, Part, TextPart, part::Content},
};

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// A part of text, without a media type.
pub fn text_part(text: impl Into<String>) -> Part {
    Part {
        content: Some(Content::TextPart(TextPart { text: text.into() })),
        ..Part::default()
    }
}

/// A part of JSON, with its media type.
///
/// # Errors
/// When it is nested deeper than parts carry.
pub fn data_part(value: &Value) -> Result<Part, TooDeep> {
    let (data, exact) = carry(value)?;
    Ok(Part {
        content: Some(Content::DataPart(DataPart { data: Some(data) })),
        media_type: JSON.to_owned(),
        metadata: exact.map(|text| (EXACT.to_owned(), text)).into_iter().collect(),
    })
}

/// The texts of parts, one below the other.
pub fn text_of<'a>(parts: impl IntoIterator<Item = &'a Part>) -> String {
    let texts = parts.into_iter().filter_map(|part| match &part.content {
        Some(Content::TextPart(text)) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The JSON of a data part; `None`: the part has none.
pub fn data_of(part: &Part) -> Option<Value> {
    let Some(Content::DataPart(data)) = &part.content else {
        return None;
    };
    let exact = part.metadata.get(EXACT).map(String::as_str);
    Some(restore(data.data.as_ref()?, exact))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_json_come_back() {
        let value = json!({ "large": (1_u64 << 53) + 1, "list": [1, "b"] });
        let parts = [text_part("a"), data_part(&value).unwrap(), text_part("b")];
        assert_eq!(text_of(&parts), "a\nb");
        let data: Vec<Value> = parts.iter().filter_map(data_of).collect();
        assert_eq!(data, [value]);
        let deep = (0..100).fold(json!(1), |value, _| json!([value]));
        assert_eq!(data_part(&deep), Err(TooDeep));
    }
}
