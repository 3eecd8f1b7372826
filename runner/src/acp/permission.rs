//! Requests of an agent to be permitted something: who decides, the question to the sender of the task, and what its
//! answer means. PURE.
//!
//! Invariant: an option that holds for later requests too (`allow_always`, `reject_always`), and one of a kind that is
//! not known, is chosen only by the sender's own answer.

use agent_client_protocol::{
    JsonRpcRequest,
    v1::schema::{
        PermissionOptionId, PermissionOptionKind, RequestPermissionResponse, SessionId, ToolCallUpdate,
        ToolKind,
    },
};
pub use agentanycast_gateways::run::Permit;
use agentanycast_proto::v1;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::parts::{data_part, text_of};
use crate::task_content::{PLAIN_TEXT, json_of, message, shortened, typed_text};

/// Most of an agent's JSON that a question shows, in bytes.
const MOST_DETAILS: usize = 64 << 10;

/// A request for permission. The library's own type refuses a request with an option of a kind that it does not know.
#[derive(Debug, Clone, Serialize, Deserialize, JsonRpcRequest)]
#[request(method = "session/request_permission", response = RequestPermissionResponse)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionRequest {
    pub(super) session_id: SessionId,
    pub(super) tool_call: ToolCallUpdate,
    #[serde(deserialize_with = "readable_options")]
    pub(super) options: Vec<PermissionOption>,
}

/// The options that can be read: one that cannot is not offered.
fn readable_options<'de, D: Deserializer<'de>>(options: D) -> Result<Vec<PermissionOption>, D::Error> {
    let options = Vec::<Value>::deserialize(options)?.into_iter();
    Ok(options
        .filter_map(|option| serde_json::from_value(option).ok())
        .collect())
}

/// See [`PermissionRequest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionOption {
    option_id: PermissionOptionId,
    #[serde(default)]
    name: String,
    /// One of [`PermissionOptionKind`], or of a later version.
    #[serde(default)]
    kind: Value,
}

impl PermissionOption {
    fn is_of(&self, kind: PermissionOptionKind) -> bool {
        PermissionOptionKind::deserialize(&self.kind).is_ok_and(|known| known == kind)
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// This option is the answer.
    Choose(PermissionOptionId),
    /// No option fits; the request is answered as cancelled.
    Cancel,
    /// The sender is asked.
    Ask,
}

/// What becomes of a request under these rules.
pub(super) fn decide(permit: Permit, request: &PermissionRequest) -> Decision {
    let allows = match permit {
        Permit::Ask => false,
        Permit::Read => matches!(
            request.tool_call.fields.kind,
            Some(ToolKind::Read | ToolKind::Search)
        ),
        Permit::All => true,
        Permit::None => return reject(&request.options),
    };
    match option(&request.options, PermissionOptionKind::AllowOnce) {
        Some(once) if allows => Decision::Choose(once),
        _ => Decision::Ask,
    }
}

/// The refusal of this request alone.
pub(super) fn reject(options: &[PermissionOption]) -> Decision {
    option(options, PermissionOptionKind::RejectOnce).map_or(Decision::Cancel, Decision::Choose)
}

fn option(options: &[PermissionOption], kind: PermissionOptionKind) -> Option<PermissionOptionId> {
    let option = options.iter().find(|option| option.is_of(kind));
    option.map(|option| option.option_id.clone())
}

/// The question to the sender: a text, and the request with its options as data.
pub(super) fn question(request: &PermissionRequest) -> v1::Message {
    let fields = &request.tool_call.fields;
    let title = fields.title.as_deref().unwrap_or("a tool call");
    let names: Vec<String> = request
        .options
        .iter()
        .map(|option| format!("{} ({})", option.option_id.0, option.name))
        .collect();
    let text = format!(
        "The agent asks for permission: {title}\nAnswer with one of: {}",
        names.join(", ")
    );
    let mut call = serde_json::to_value(&request.tool_call).unwrap_or_default();
    if call.to_string().len() > MOST_DETAILS {
        call = json!({"toolCallId": request.tool_call.tool_call_id, "kind": fields.kind,
            "title": shortened(title, MOST_DETAILS / 2), "leftOut": "the details are too large"});
    }
    let data = json!({"permission": {"toolCall": call, "options": request.options}});
    message(vec![typed_text(text, PLAIN_TEXT), data_part(&data)])
}

/// The option that an answer means: by its id in `{"optionId": …}`, as data or as text, or by its id, name or kind as text.
/// A plain yes or no holds once.
pub(super) fn chosen(options: &[PermissionOption], answer: &v1::Message) -> Option<PermissionOptionId> {
    let whole_text = text_of(answer);
    // Someone who answers by hand may type the JSON.
    let typed = serde_json::from_str::<Value>(&whole_text).ok();
    let mut data = answer.parts.iter().filter_map(json_of).chain(typed);
    let by_data = data.find_map(|data| Some(data.get("optionId")?.as_str()?.to_owned()));
    let text = by_data.unwrap_or(whole_text);
    let text = text.trim();
    let by_id = options.iter().find(|option| *option.option_id.0 == *text);
    let word = text.to_lowercase();
    let by_name = || options.iter().find(|option| option.name.to_lowercase() == word);
    if let Some(option) = by_id.or_else(by_name) {
        return Some(option.option_id.clone());
    }
    let kind = match word.as_str() {
        "yes" | "y" | "allow" | "ok" | "allow_once" => PermissionOptionKind::AllowOnce,
        "no" | "n" | "reject" | "deny" | "reject_once" => PermissionOptionKind::RejectOnce,
        "allow_always" => PermissionOptionKind::AllowAlways,
        "reject_always" => PermissionOptionKind::RejectAlways,
        _ => return None,
    };
    option(options, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::text_message;

    fn request(kind: &str, options: &[&str]) -> PermissionRequest {
        let options: Vec<Value> = options
            .iter()
            .map(|kind| json!({"optionId": format!("id-{kind}"), "name": format!("Do {kind}"), "kind": kind}))
            .collect();
        let request = json!({"sessionId": "s", "options": options,
            "toolCall": {"toolCallId": "1", "title": "Edit a.rs", "kind": kind}});
        serde_json::from_value(request).unwrap()
    }

    const ALL: [&str; 4] = ["allow_always", "allow_once", "reject_always", "reject_once"];

    fn choose(id: &str) -> Decision {
        Decision::Choose(PermissionOptionId::new(id))
    }

    #[test]
    fn rules_decide_by_kind_and_never_for_always() {
        for (permit, kind, options, decision) in [
            (Permit::Ask, "read", &ALL[..], Decision::Ask),
            (Permit::Read, "read", &ALL, choose("id-allow_once")),
            (Permit::Read, "search", &ALL, choose("id-allow_once")),
            (Permit::Read, "edit", &ALL, Decision::Ask),
            (
                Permit::Read,
                "read",
                &["allow_always", "reject_once"],
                Decision::Ask,
            ),
            (Permit::All, "execute", &ALL, choose("id-allow_once")),
            (Permit::All, "execute", &["allow_always"], Decision::Ask),
            (Permit::All, "execute", &["allow_for_an_hour"], Decision::Ask),
            (Permit::None, "read", &["reject_for_an_hour"], Decision::Cancel),
            (Permit::None, "read", &ALL, choose("id-reject_once")),
            (
                Permit::None,
                "read",
                &["allow_once", "reject_always"],
                Decision::Cancel,
            ),
        ] {
            assert_eq!(
                decide(permit, &request(kind, options)),
                decision,
                "{permit:?} {kind} {options:?}"
            );
        }
    }

    #[test]
    fn an_answer_names_an_option() {
        let request = request("edit", &ALL);
        let id = |message: v1::Message| chosen(&request.options, &message).map(|id| id.0.to_string());
        for (answer, option) in [
            ("id-allow_always", Some("id-allow_always")),
            (" do REJECT_once\n", Some("id-reject_once")),
            ("allow_always", Some("id-allow_always")),
            (r#"{"optionId": "id-reject_once"}"#, Some("id-reject_once")),
            ("Yes", Some("id-allow_once")),
            ("no", Some("id-reject_once")),
            ("perhaps", None),
            ("", None),
        ] {
            assert_eq!(id(text_message(answer)).as_deref(), option, "{answer:?}");
        }
        let data = message(vec![data_part(&json!({"optionId": "id-allow_once"}))]);
        assert_eq!(id(data).as_deref(), Some("id-allow_once"));
    }

    #[test]
    fn an_option_of_an_unknown_kind_is_offered_and_one_without_id_is_not() {
        let options = json!([{"optionId": "hour", "name": "For an hour", "kind": "allow_for_an_hour"},
            {"name": "no id", "kind": "allow_once"}, {"optionId": "bare"}]);
        let request = json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": "1"}});
        let request: PermissionRequest = serde_json::from_value(request).unwrap();
        let ids: Vec<&str> = request
            .options
            .iter()
            .map(|option| &*option.option_id.0)
            .collect();
        assert_eq!(ids, ["hour", "bare"]);
        let chosen = chosen(&request.options, &text_message("for an hour"));
        assert_eq!(chosen, Some(PermissionOptionId::new("hour")));
        assert!(super::chosen(&request.options, &text_message("yes")).is_none());
        assert!(text_of(&question(&request)).contains("hour (For an hour)"));
    }

    #[test]
    fn the_question_shows_the_options_as_data() {
        let question = question(&request("edit", &["allow_once", "reject_once"]));
        assert!(text_of(&question).contains("Edit a.rs\nAnswer with one of: id-allow_once (Do allow_once)"));
        let data = json_of(&question.parts[1]).unwrap();
        assert_eq!(data["permission"]["options"][1]["optionId"], "id-reject_once");
        assert_eq!(data["permission"]["toolCall"]["title"], "Edit a.rs");
        let mut large = request("edit", &["allow_once"]);
        large.tool_call.fields.raw_input = Some(json!("x".repeat(MOST_DETAILS)));
        let data = json_of(&super::question(&large).parts[1]).unwrap();
        assert_eq!(data["permission"]["toolCall"]["title"], "Edit a.rs");
        assert!(data.to_string().len() < MOST_DETAILS);
    }
}
