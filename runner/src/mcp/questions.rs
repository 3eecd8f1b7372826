//! Questions of a tool (`elicitation/create` of MCP) to the sender of the task, and what an answer means.
//! PURE.

use agentanycast_mcp_client::{ElicitationAnswer, Question};
use agentanycast_proto::v1::{self, part::Content};
use serde_json::{Map, Value, json};

use crate::parts::{data_part, text_of};
use crate::task_content::{PLAIN_TEXT, json_of, message, shortened, typed_text};

/// Most of a question that is shown, in bytes.
const MOST_WORDS: usize = 16 << 10;

/// The question to the sender: a text, and the schema of the answer as data. `again`: why the last answer was
/// none.
pub(super) fn to_sender(question: &Question, again: Option<&str>) -> v1::Message {
    let words = match shortened(question.message.trim(), MOST_WORDS) {
        empty if empty.is_empty() => "The tool asks for input.".to_owned(),
        words => words,
    };
    let how = match (&question.url, &question.schema) {
        (Some(url), _) => format!("Open {url} and answer when it is done, or answer `decline`."),
        (None, Some(schema)) => match fields(schema).as_slice() {
            [] => "Answer `accept` or `decline`.".to_owned(),
            [only] => format!("Answer with {only}, with a JSON object, or with `decline`."),
            several => format!(
                "Answer with a JSON object of {}, or with `decline`.",
                several.join(", ")
            ),
        },
        (None, None) => "Answer with a JSON object, or with `decline`.".to_owned(),
    };
    let again = again.map(|why| format!("{why}.\n")).unwrap_or_default();
    let data = json!({"elicitation": {
        "mode": if question.url.is_some() { "url" } else { "form" },
        "message": words, "requestedSchema": question.schema, "url": question.url,
    }});
    let mut parts = vec![
        typed_text(format!("{again}{words}\n{how}"), PLAIN_TEXT),
        data_part(&data),
    ];
    if let Some(url) = &question.url {
        parts.push(v1::Part {
            content: Some(Content::UrlPart(v1::UrlPart {
                url: url.clone(),
                filename: String::new(),
            })),
            ..v1::Part::default()
        });
    }
    message(parts)
}

/// What an answer of the sender means.
///
/// # Errors
/// Why it is none, for people.
pub(super) fn answer(question: &Question, said: &v1::Message) -> Result<ElicitationAnswer, String> {
    let text = text_of(said);
    let text = text.trim();
    let schema = question.schema.as_ref();
    let object = said
        .parts
        .iter()
        .find_map(json_of)
        .or_else(|| serde_json::from_str(text).ok());
    if let Some(Value::Object(mut object)) = object {
        // The result of an elicitation as MCP has it.
        let action = object.get("action").and_then(Value::as_str).map(str::to_owned);
        let only_action = object.keys().all(|key| key == "action" || key == "content");
        return match action
            .filter(|_| only_action && !has(schema, "action"))
            .as_deref()
        {
            Some("accept") => Ok(accepted(question, object.remove("content"))),
            Some("decline") => Ok(ElicitationAnswer::Decline),
            Some("cancel") => Ok(ElicitationAnswer::Cancel),
            Some(other) => Err(format!("The action {other:?} is not accept, decline or cancel")),
            None => Ok(accepted(question, Some(object.into()))),
        };
    }
    let names: Vec<&str> = properties(schema).map(|(name, _)| name.as_str()).collect();
    let only = match names.as_slice() {
        [only] => properties(schema).find(|(name, _)| name == only),
        _ => None,
    };
    let word = text.to_lowercase();
    if let Some((name, property)) = only
        && let Some(value) = value_of(property, text)
        && (!is_no(&word) || choices(property).is_some())
    {
        return Ok(accepted(question, Some(json!({name: value}))));
    }
    match word.as_str() {
        "decline" => Ok(ElicitationAnswer::Decline),
        "cancel" => Ok(ElicitationAnswer::Cancel),
        _ if question.url.is_some() => Ok(ElicitationAnswer::Accept(None)),
        _ if names.is_empty() && matches!(word.as_str(), "no" | "n") => Ok(ElicitationAnswer::Decline),
        _ if names.is_empty() && schema.is_some() => Ok(accepted(question, None)),
        "accept" | "" if required(schema).is_empty() => Ok(accepted(question, None)),
        _ => Err("That is no answer by the schema".to_owned()),
    }
}

fn is_no(word: &str) -> bool {
    matches!(word, "decline" | "cancel")
}

/// Yes, with this content and the defaults of what is left out.
fn accepted(question: &Question, content: Option<Value>) -> ElicitationAnswer {
    if question.url.is_some() {
        return ElicitationAnswer::Accept(None);
    }
    let content = match content {
        Some(Value::Object(content)) => content,
        _ => Map::new(),
    };
    ElicitationAnswer::Accept(Some(question.with_defaults(content)))
}

fn properties(schema: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
    properties.into_iter().flatten()
}

fn has(schema: Option<&Value>, name: &str) -> bool {
    properties(schema).any(|(property, _)| property == name)
}

fn required(schema: Option<&Value>) -> Vec<&str> {
    let names = schema.and_then(|schema| schema.get("required")?.as_array());
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The names of the properties for people, with what each may be.
fn fields(schema: &Value) -> Vec<String> {
    let required = required(Some(schema));
    let fields = properties(Some(schema)).map(|(name, property)| {
        let kind = match choices(property) {
            Some(choices) => choices.join(" | "),
            None => property
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or("any")
                .to_owned(),
        };
        let may = if required.contains(&name.as_str()) {
            ""
        } else {
            ", may be left out"
        };
        shortened(&format!("`{name}` ({kind}{may})"), 300)
    });
    fields.take(50).collect()
}

/// The words of an enumeration.
fn choices(property: &Value) -> Option<Vec<&str>> {
    let words = property.get("enum")?.as_array()?.iter().filter_map(Value::as_str);
    Some(words.collect())
}

/// A text as the value of a property.
fn value_of(property: &Value, text: &str) -> Option<Value> {
    if text.is_empty() {
        return None;
    }
    if let Some(choices) = choices(property) {
        let choice = choices
            .into_iter()
            .find(|choice| choice.eq_ignore_ascii_case(text));
        return choice.map(Value::from);
    }
    match property.get("type").and_then(Value::as_str) {
        Some("string") | None => Some(text.into()),
        Some("boolean") => match text.to_lowercase().as_str() {
            "true" | "yes" | "y" => Some(true.into()),
            "false" | "no" | "n" => Some(false.into()),
            _ => None,
        },
        Some("integer") => text.parse::<i64>().ok().map(Value::from),
        Some("number") => serde_json::from_str(text).ok().filter(Value::is_number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::text_message;

    fn question(schema: Value) -> Question {
        Question::form("Which?", Some(schema))
    }

    fn said(question: &Question, text: &str) -> Result<ElicitationAnswer, String> {
        answer(question, &text_message(text))
    }

    fn content(content: &Value) -> ElicitationAnswer {
        ElicitationAnswer::Accept(content.as_object().cloned())
    }

    #[test]
    fn a_question_shows_its_schema_and_how_to_answer() {
        let schema = json!({"type": "object", "required": ["city"],
            "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}}});
        let asked = to_sender(&question(schema.clone()), Some("That was none"));
        assert_eq!(
            text_of(&asked),
            "That was none.\nWhich?\nAnswer with a JSON object of `city` (string), `unit` (C | F, may be left out), \
             or with `decline`."
        );
        let data = asked.parts.iter().find_map(json_of).unwrap();
        assert_eq!(data["elicitation"]["requestedSchema"], schema);
    }

    #[test]
    fn an_object_is_the_content_with_the_defaults_of_the_rest() {
        let schema = json!({"properties": {"city": {"type": "string"}, "unit": {"default": "C"}}});
        let question = question(schema);
        assert_eq!(
            said(&question, r#"{"city": "Rome"}"#),
            Ok(content(&json!({"city": "Rome", "unit": "C"})))
        );
        assert_eq!(
            said(&question, r#"{"action": "accept"}"#),
            Ok(content(&json!({"unit": "C"})))
        );
        assert_eq!(
            said(&question, r#"{"action": "decline"}"#),
            Ok(ElicitationAnswer::Decline)
        );
        assert_eq!(
            said(&question, r#"{"action": "cancel"}"#),
            Ok(ElicitationAnswer::Cancel)
        );
        assert!(said(&question, r#"{"action": "perhaps"}"#).is_err());
        assert_eq!(said(&question, "decline"), Ok(ElicitationAnswer::Decline));
        assert_eq!(said(&question, "accept"), Ok(content(&json!({"unit": "C"}))));
        assert!(said(&question, "Rome").is_err());
        let data = message(vec![data_part(&json!({"city": "Bonn", "unit": "F"}))]);
        assert_eq!(
            answer(&question, &data),
            Ok(content(&json!({"city": "Bonn", "unit": "F"})))
        );
    }

    #[test]
    fn a_text_is_the_value_of_the_only_property() {
        let only = |property: Value| question(json!({"required": ["x"], "properties": {"x": property}}));
        for (property, text, value) in [
            (json!({"type": "string"}), "Rome, Italy", json!("Rome, Italy")),
            (json!({"type": "integer"}), "7", json!(7)),
            (json!({"type": "number"}), "7.5", json!(7.5)),
            (json!({"type": "boolean"}), "Yes", json!(true)),
            (json!({"enum": ["Decline", "wait"]}), "decline", json!("Decline")),
        ] {
            assert_eq!(
                said(&only(property), text),
                Ok(content(&json!({"x": value}))),
                "{text}"
            );
        }
        assert_eq!(
            said(&only(json!({"type": "string"})), " decline "),
            Ok(ElicitationAnswer::Decline)
        );
        for (property, text) in [
            (json!({"type": "integer"}), "seven"),
            (json!({"type": "boolean"}), "perhaps"),
            (json!({"enum": ["a"]}), "b"),
            (json!({"type": "string"}), ""),
        ] {
            assert!(said(&only(property), text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_and_a_confirmation_are_answered_by_a_word() {
        let confirm = question(json!({"type": "object", "properties": {}}));
        assert_eq!(said(&confirm, "ok"), Ok(content(&json!({}))));
        assert_eq!(said(&confirm, "no"), Ok(ElicitationAnswer::Decline));
        let page = Question::page("Sign in", "https://x/y");
        assert_eq!(said(&page, "done"), Ok(ElicitationAnswer::Accept(None)));
        assert_eq!(said(&page, "{}"), Ok(ElicitationAnswer::Accept(None)));
        assert_eq!(said(&page, "decline"), Ok(ElicitationAnswer::Decline));
        let asked = to_sender(&page, None);
        assert!(text_of(&asked).contains("Open https://x/y"));
        assert!(
            asked
                .parts
                .iter()
                .any(|part| matches!(part.content, Some(Content::UrlPart(_))))
        );
    }
}
