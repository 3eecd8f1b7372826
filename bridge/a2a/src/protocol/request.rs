//! Requests: the methods of both versions and their parameters, read into one form that does not know which version,
//! and which binding, it came by. PURE.

mod pre_v0_3;
mod webhook;

use std::collections::BTreeMap;

use agentanycast_proto::v1::{self, MessageRole, TaskStatus};
use serde_json::Value;

pub use webhook::WebhookCall;

use super::{
    error::{A2aError, Reason},
    message::{self, BadParts, TaskContext},
    metadata::{self, ExtraFields},
    object_reader::ObjectReader,
    part,
    push::{self as webhooks, Webhook},
    task,
    time::{self, read_time},
    version::Version,
};

/// The label with the media types that the client takes.
const ACCEPTED: &str = "a2a.accept";

/// The field of metadata by which a client says until when a task has to be done; nodes read it.
const DEADLINE: &str = "deadline";

/// Longest name of a conversation, in bytes: that of nodes.
const LONGEST_ID: usize = 256;

/// Most of a state's name that a refusal shows, in characters.
const LONGEST_STATE: usize = 40;

/// Tasks on a page when the client does not say, and at most: the specification's figures.
const DEFAULT_PAGE: usize = 50;
const MAX_PAGE: usize = 100;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Send a message, and wait.
    Send,
    /// Send a message, and follow its task.
    Stream,
    /// Read a task.
    Get,
    /// List tasks.
    List,
    /// End a task.
    Cancel,
    /// Follow a task.
    Subscribe,
    /// Ask to be told of a task by a webhook.
    SetPush,
    /// Read what was asked for.
    GetPush,
    /// List it.
    ListPush,
    /// Take it back.
    DeletePush,
    /// Read the card for those who are known.
    ExtendedCard,
    /// Send a message in the words of before 0.3, and wait.
    LegacySend,
}

impl Method {
    /// The method that JSON-RPC calls so, and the version that does. A slash means 0.3.
    pub fn from_name(name: &str) -> Option<(Version, Self)> {
        use Version::{V03, V10};
        Some(match name {
            "message/send" => (V03, Self::Send),
            "message/stream" => (V03, Self::Stream),
            "tasks/get" => (V03, Self::Get),
            "tasks/cancel" => (V03, Self::Cancel),
            "tasks/resubscribe" => (V03, Self::Subscribe),
            "tasks/pushNotificationConfig/set" => (V03, Self::SetPush),
            "tasks/pushNotificationConfig/get" => (V03, Self::GetPush),
            "tasks/pushNotificationConfig/list" => (V03, Self::ListPush),
            "tasks/pushNotificationConfig/delete" => (V03, Self::DeletePush),
            "tasks/send" => (V03, Self::LegacySend),
            "agent/getAuthenticatedExtendedCard" => (V03, Self::ExtendedCard),
            "SendMessage" => (V10, Self::Send),
            "SendStreamingMessage" => (V10, Self::Stream),
            "GetTask" => (V10, Self::Get),
            "ListTasks" => (V10, Self::List),
            "CancelTask" => (V10, Self::Cancel),
            "SubscribeToTask" => (V10, Self::Subscribe),
            "CreateTaskPushNotificationConfig" => (V10, Self::SetPush),
            "GetTaskPushNotificationConfig" => (V10, Self::GetPush),
            "ListTaskPushNotificationConfigs" => (V10, Self::ListPush),
            "DeleteTaskPushNotificationConfig" => (V10, Self::DeletePush),
            "GetExtendedAgentCard" => (V10, Self::ExtendedCard),
            _ => return None,
        })
    }

    /// Whether it is answered by a stream.
    pub fn streams(self) -> bool {
        matches!(self, Self::Stream | Self::Subscribe)
    }
}

/// A request that can be acted on.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Whose tasks, where one agent serves several; may be empty.
    pub tenant: String,
    /// What is asked for.
    pub call: A2aCall,
}

/// What is asked for, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum A2aCall {
    /// Send a message; followed or not is the binding's matter.
    Send(Box<SendParams>),
    /// Read a task.
    Get {
        /// Which.
        id: String,
        /// Its newest messages, at most; `None` = all.
        history: Option<usize>,
    },
    /// List tasks.
    List(ListParams),
    /// End a task.
    Cancel {
        /// Which.
        id: String,
    },
    /// Follow a task.
    Subscribe {
        /// Which.
        id: String,
    },
    /// Something about the webhooks of a task.
    Push(WebhookCall),
    /// Read the card for those who are known.
    ExtendedCard,
    /// Send a message in the words of before 0.3.
    LegacySend(Box<SendParams>),
}

/// A message to send.
#[derive(Clone, Debug, PartialEq)]
pub struct SendParams {
    /// What is said.
    pub message: v1::Message,
    /// The task and conversation that it names.
    pub context: TaskContext,
    /// Labels for the task.
    pub labels: BTreeMap<String, String>,
    /// Whether the answer waits until the task has ended or asks for something.
    pub wait: bool,
    /// The newest messages in the answer, at most; `None` = all.
    pub history: Option<usize>,
    /// Where the client wants to be told of changes, and in what.
    pub push: Option<(Webhook, Version)>,
}

/// Which tasks to list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListParams {
    /// Only those of this conversation; empty = any.
    pub context_id: String,
    /// Only those in this state.
    pub status: Option<TaskStatus>,
    /// Only those that changed after this, Unix time in milliseconds.
    pub after: Option<i64>,
    /// At most this many, 1 to 100.
    pub page_size: usize,
    /// Only those behind this place of the list.
    pub from: Option<ListPosition>,
    /// The newest messages of each, at most; `None` = all.
    pub history: Option<usize>,
    /// With what came out.
    pub artifacts: bool,
}

/// A place in the list of tasks, newest change first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPosition {
    /// When the task there changed last, Unix time in milliseconds.
    pub changed: i64,
    /// Which it is.
    pub id: String,
}

impl ListPosition {
    fn read(token: &str) -> Option<Self> {
        let (changed, id) = token.split_once(':')?;
        Some(Self {
            changed: changed.parse().ok().filter(|changed| *changed >= 0)?,
            id: id.to_owned(),
        })
    }

    /// The page token that stands for it.
    pub fn token(&self) -> String {
        format!("{}:{}", self.changed, self.id)
    }

    /// That of this task.
    pub fn from_task(task: &v1::Task) -> Self {
        Self {
            changed: task.updated_at.as_ref().map(time::millis).unwrap_or_default(),
            id: task.task_id.clone(),
        }
    }

    /// Whether a task at `other` comes later in the list.
    pub fn is_before(&self, other: &Self) -> bool {
        (other.changed, &other.id) < (self.changed, &self.id)
    }
}

/// Reads the parameters of a method.
pub fn read(version: Version, method: Method, params: Value) -> Result<Request, A2aError> {
    let params = if params.is_null() {
        Value::Object(serde_json::Map::new())
    } else {
        params
    };
    let mut fields = ObjectReader::new(params, "params")?;
    let tenant = fields.text_or_empty("tenant")?;
    let call = match method {
        Method::Send | Method::Stream => A2aCall::Send(Box::new(read_send(version, fields)?)),
        Method::Get => A2aCall::Get {
            id: id(&mut fields)?,
            history: fields.count("historyLength")?,
        },
        Method::Cancel => A2aCall::Cancel { id: id(&mut fields)? },
        Method::Subscribe => A2aCall::Subscribe { id: id(&mut fields)? },
        Method::List => A2aCall::List(read_list(fields)?),
        Method::SetPush | Method::GetPush | Method::ListPush | Method::DeletePush => {
            A2aCall::Push(webhook::read(version, method, fields)?)
        }
        Method::ExtendedCard => A2aCall::ExtendedCard,
        Method::LegacySend => A2aCall::LegacySend(Box::new(pre_v0_3::read(fields)?)),
    };
    Ok(Request { tenant, call })
}

fn id(fields: &mut ObjectReader) -> Result<String, A2aError> {
    named(fields, "id")
}

/// A field that must be there.
fn named(fields: &mut ObjectReader, name: &str) -> Result<String, A2aError> {
    let id = fields.text_or_empty(name)?;
    if id.is_empty() {
        return Err(A2aError::params(format!("{} is missing", fields.path(name))));
    }
    Ok(id)
}

fn read_send(version: Version, mut fields: ObjectReader) -> Result<SendParams, A2aError> {
    let message = fields
        .object("message")?
        .ok_or_else(|| A2aError::params("params.message is missing"))?;
    let (message, place) = message::read(version, Value::Object(message), "message", BadParts::Refuse)?;
    check_message(&message)?;
    let mut annex = ExtraFields::new();
    let mut labels = metadata::from_metadata(fields.object("metadata")?, &mut annex);
    task::attach(&mut labels, annex);
    check_for_node(&place, &labels)?;
    let mut send = SendParams {
        message,
        context: place,
        labels,
        wait: true,
        history: None,
        push: None,
    };
    let Some(mut configuration) = fields.nested("configuration")? else {
        return Ok(send);
    };
    send.history = configuration.count("historyLength")?;
    send.wait = match version {
        Version::V10 => !configuration.flag("returnImmediately")?.unwrap_or_default(),
        Version::V03 => configuration.flag("blocking")?.unwrap_or(true),
    };
    let accepted = configuration.list("acceptedOutputModes")?;
    if !accepted.is_empty() {
        send.labels
            .insert(ACCEPTED.to_owned(), Value::Array(accepted).to_string());
    }
    let push = match version {
        Version::V10 => "taskPushNotificationConfig",
        Version::V03 => "pushNotificationConfig",
    };
    if let Some(webhook) = configuration.object(push)? {
        let path = configuration.path(push);
        send.push = Some((webhooks::read(version, webhook, &path)?, version));
    }
    Ok(send)
}

/// What a node would refuse in its own words.
fn check_for_node(place: &TaskContext, labels: &BTreeMap<String, String>) -> Result<(), A2aError> {
    if place.context_id.len() > LONGEST_ID {
        return Err(A2aError::params(format!(
            "message.contextId has {} bytes; it may have {LONGEST_ID}",
            place.context_id.len()
        )));
    }
    if labels.get(DEADLINE).is_some_and(|text| read_time(text).is_none()) {
        return Err(A2aError::params(
            "params.metadata.deadline must be a time such as 2030-01-31T12:00:00Z; the task fails when it passes",
        ));
    }
    Ok(())
}

/// What a message must have before anyone is troubled with it.
fn check_message(message: &v1::Message) -> Result<(), A2aError> {
    let missing = |what: &str| Err(A2aError::params(format!("message.{what} is missing")));
    if message.message_id.is_empty() {
        return missing("messageId");
    }
    match message.role() {
        MessageRole::User => {}
        MessageRole::Unspecified => return missing("role"),
        // The protocol: `ROLE_USER` is from the client to the server, `ROLE_AGENT` the other way.
        MessageRole::Agent => {
            return Err(A2aError::params(
                "message.role must be that of a user (ROLE_USER, in 0.3 user): it is for the agent, not by it",
            ));
        }
    }
    let empty = |part: &v1::Part| part.content.is_none();
    if let Some(at) = message.parts.iter().position(empty) {
        if let Some(why) = part::unknown_kind(&message.parts[at]) {
            return Err(A2aError::params(format!("message.parts[{at}].{why}")));
        }
        // A message without parts may have one that holds its annex.
        let text = if message.parts.len() == 1 {
            "message.parts must have a part with text, a file or data".to_owned()
        } else {
            format!("message.parts[{at}] has neither text nor a file nor data")
        };
        return Err(A2aError::params(text));
    }
    if message.parts.is_empty() {
        return missing("parts");
    }
    Ok(())
}

fn page_size(fields: &mut ObjectReader) -> Result<usize, A2aError> {
    let size = fields.count("pageSize")?.unwrap_or(DEFAULT_PAGE);
    if (1..=MAX_PAGE).contains(&size) {
        return Ok(size);
    }
    Err(A2aError::params(format!(
        "params.pageSize must be from 1 to {MAX_PAGE}"
    )))
}

fn read_list(mut fields: ObjectReader) -> Result<ListParams, A2aError> {
    let status = fields.raw("status").and_then(task::state_word);
    let status = match status.as_deref() {
        None | Some("") => None,
        Some(word) => {
            let known = task::read_state(word).ok_or_else(|| {
                let shown: String = word.chars().take(LONGEST_STATE).collect();
                A2aError::params(format!(
                    "params.status must be a state such as TASK_STATE_WORKING, not {shown:?}"
                ))
            })?;
            (known != TaskStatus::Unspecified).then_some(known)
        }
    };
    let after = match fields.text("statusTimestampAfter")? {
        None => None,
        Some(text) => Some(read_time(&text).ok_or_else(|| {
            A2aError::params("params.statusTimestampAfter must be a time such as 2025-01-02T03:04:05Z")
        })?),
    };
    let page_size = page_size(&mut fields)?;
    let from = match fields.text_or_empty("pageToken")?.as_str() {
        "" => None,
        token => Some(
            ListPosition::read(token)
                .ok_or_else(|| A2aError::params("params.pageToken is none that was given here"))?,
        ),
    };
    Ok(ListParams {
        context_id: fields.text_or_empty("contextId")?,
        status,
        after: after.as_ref().map(time::millis),
        page_size,
        from,
        history: fields.count("historyLength")?,
        artifacts: fields.flag("includeArtifacts")?.unwrap_or_default(),
    })
}

/// The error of a method that nobody knows.
pub fn unknown_method(name: &str) -> A2aError {
    let shown: String = name.chars().take(64).collect();
    A2aError::new(Reason::MethodNotFound, format!("there is no method {shown:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(version: Version) -> Value {
        match version {
            Version::V10 => json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}),
            Version::V03 => {
                json!({"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]})
            }
        }
    }

    fn send(version: Version, configuration: &Value) -> Result<SendParams, A2aError> {
        let params = json!({"message": message(version), "configuration": configuration});
        match read(version, Method::Send, params)?.call {
            A2aCall::Send(send) => Ok(*send),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn waiting_is_the_default() {
        let wait = |version, configuration| send(version, &configuration).unwrap().wait;
        assert!(wait(Version::V10, json!(null)));
        assert!(!wait(Version::V10, json!({"returnImmediately": true})));
        assert!(wait(Version::V03, json!({})));
        assert!(!wait(Version::V03, json!({"blocking": false})));
    }

    #[test]
    fn a_history_is_counted() {
        let history =
            |length: Value| send(Version::V10, &json!({ "historyLength": length })).map(|send| send.history);
        assert_eq!(history(json!(null)).unwrap(), None);
        assert_eq!(history(json!(0)).unwrap(), Some(0));
        assert!(history(json!(-1)).is_err());
    }

    #[test]
    fn what_is_missing_is_named() {
        for (message, named) in [
            (
                json!({"role": "ROLE_USER", "parts": [{"text": "x"}]}),
                "messageId",
            ),
            (json!({"messageId": "m", "parts": [{"text": "x"}]}), "role"),
            (json!({"messageId": "m", "role": "ROLE_USER"}), "parts"),
            (
                json!({"messageId": "m", "role": "ROLE_USER", "parts": []}),
                "parts",
            ),
            (
                json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"x": 1}]}),
                "parts",
            ),
            (
                json!({"messageId": "m", "role": "ROLE_KING", "parts": [{"text": "x"}]}),
                "role",
            ),
            (
                json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}),
                "role",
            ),
            (
                json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "extensions": "urn:x"}),
                "extensions",
            ),
            (
                json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "referenceTaskIds": [7]}),
                "referenceTaskIds",
            ),
            (json!(null), "message"),
            (json!("x"), "message"),
        ] {
            let error = read(Version::V10, Method::Send, json!({"message": message})).unwrap_err();
            assert_eq!(error.reason(), Reason::InvalidParams);
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn what_a_node_would_refuse_is_refused_in_the_words_of_a2a() {
        let said = |context: &str| json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "contextId": context});
        let long = "x".repeat(257);
        for (params, named) in [
            (json!({"message": said(&long)}), "message.contextId"),
            (
                json!({"message": said("c"), "metadata": {"deadline": "soon"}}),
                "metadata.deadline",
            ),
            (
                json!({"message": said("c"), "metadata": {"deadline": 7}}),
                "metadata.deadline",
            ),
        ] {
            let error = read(Version::V10, Method::Send, params).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        let good = json!({"message": said("c"), "metadata": {"deadline": "2030-01-31T12:00:00Z"}});
        assert!(read(Version::V10, Method::Send, good).is_ok());
    }

    #[test]
    fn pages_have_bounds() {
        let list = |params| match read(Version::V10, Method::List, params) {
            Ok(Request {
                call: A2aCall::List(list),
                ..
            }) => Ok(list),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        assert_eq!(list(json!(null)).unwrap().page_size, 50);
        assert_eq!(list(json!({"pageSize": "100"})).unwrap().page_size, 100);
        for word in ["TASK_STATE_CANCELED", "TASK_STATE_CANCELLED", "canceled"] {
            let status = list(json!({"status": word})).unwrap().status;
            assert_eq!(status, Some(TaskStatus::Canceled));
        }
        assert_eq!(
            list(json!({"status": 2})).unwrap().status,
            Some(TaskStatus::Working)
        );
        assert_eq!(list(json!({"status": "unspecified"})).unwrap().status, None);
        let error = list(json!({"status": "busy"})).unwrap_err().to_string();
        assert!(error.contains("not \"busy\""), "{error}");
        for bad in [
            json!({"pageSize": 0}),
            json!({"pageSize": 101}),
            json!({"pageToken": "x"}),
            json!({"pageToken": "-5:x"}),
            json!({"status": "busy"}),
            json!({"statusTimestampAfter": "now"}),
        ] {
            assert!(list(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_page_goes_on_where_the_last_one_ended() {
        let at = |changed, id: &str| ListPosition {
            changed,
            id: id.to_owned(),
        };
        let position = at(7, "b:c");
        assert_eq!(ListPosition::read(&position.token()), Some(position.clone()));
        assert!(position.is_before(&at(6, "z")) && position.is_before(&at(7, "a")));
        assert!(!position.is_before(&position) && !position.is_before(&at(8, "a")));
    }
}
