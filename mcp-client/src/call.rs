//! A call of a tool: progress, questions, and the result. In the revision 2026-07-28 a call that asks
//! something is answered by its questions, and is sent once more with the answers.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    connection::{Connection, PendingRequest, of_outcome},
    failure::{FailureKind, McpFailure},
    message, param_headers,
    shared::{RequestKind, ServerEvent},
    tools::Tool,
};

/// Most times that a call is sent.
const MOST_ROUNDS: u32 = 32;

/// Most questions of one round.
const MOST_QUESTIONS: usize = 32;

/// The pause before a call is sent once more that asked nothing: a server that has too much to do answers so.
const PAUSE: Duration = Duration::from_millis(500);

/// What a call says.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallEvent {
    /// How far it is, for people.
    Progress(String),
    /// It asks something; [`ToolCall::answer`] answers.
    Question(Question),
    /// Its result: an object, as the server gives it.
    Done(Map<String, Value>),
}

/// A question of a tool.
#[derive(Debug)]
pub struct Question {
    /// What it asks.
    pub message: String,
    /// The schema of the answer; an object of flat properties.
    pub schema: Option<Value>,
    /// A page on which a person does what is asked, in place of an answer.
    pub url: Option<String>,
    reply: Reply,
}

impl Question {
    /// A question that is answered by an object of this schema; its answer goes nowhere. For tests of what
    /// asks.
    pub fn form(message: impl Into<String>, schema: Option<Value>) -> Self {
        Self {
            message: message.into(),
            schema,
            url: None,
            reply: Reply::Request(Value::Null),
        }
    }

    /// The content of an answer, with the defaults of what is left out.
    #[must_use]
    pub fn with_defaults(&self, mut content: Map<String, Value>) -> Map<String, Value> {
        let properties = self
            .schema
            .as_ref()
            .and_then(|schema| schema.get("properties")?.as_object());
        for (name, property) in properties.into_iter().flatten() {
            if let Some(default) = property.get("default")
                && !content.contains_key(name)
            {
                content.insert(name.clone(), default.clone());
            }
        }
        content
    }

    /// As [`form`](Self::form), for a page that is to be visited.
    pub fn page(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            url: Some(url.into()),
            ..Self::form(message, None)
        }
    }
}

#[derive(Debug)]
enum Reply {
    /// It is a request of this id.
    Request(Value),
    /// It has this name among the questions of a round.
    Round(String),
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationAnswer {
    /// What was asked for; nothing, where a page was to be visited.
    Accept(Option<Map<String, Value>>),
    /// No.
    Decline,
    /// Neither.
    Cancel,
}

impl ElicitationAnswer {
    fn to_json(&self) -> Value {
        match self {
            Self::Accept(Some(content)) => json!({"action": "accept", "content": content}),
            Self::Accept(None) => json!({"action": "accept"}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}

/// The questions of a call that is sent once more.
#[derive(Debug, Default)]
struct Round {
    questions: VecDeque<Question>,
    /// How many questions have no answer yet.
    open: usize,
    answers: Map<String, Value>,
    state: Option<Value>,
}

/// A call of a tool. Dropping it cancels it at the server.
#[derive(Debug)]
pub struct ToolCall {
    connection: Arc<Connection>,
    params: Map<String, Value>,
    headers: Vec<(String, String)>,
    pending: Option<PendingRequest>,
    /// What the next request has besides the arguments.
    round: Round,
    rounds: u32,
}

impl ToolCall {
    pub(crate) fn new(connection: Arc<Connection>, tool: &Tool, arguments: Map<String, Value>) -> Self {
        Self {
            connection,
            headers: param_headers::of_call(&tool.input_schema, &arguments),
            params: Map::from_iter([
                ("name".to_owned(), tool.name.clone().into()),
                ("arguments".to_owned(), arguments.into()),
            ]),
            pending: None,
            round: Round::default(),
            rounds: 0,
        }
    }

    /// What the call says next; after [`CallEvent::Done`] and after an error nothing. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn next(&mut self) -> Result<CallEvent, McpFailure> {
        loop {
            if let Some(question) = self.round.questions.pop_front() {
                return Ok(CallEvent::Question(question));
            }
            if self.round.open > 0 {
                // An answer is on its way.
                std::future::pending::<()>().await;
            }
            let pending = match &mut self.pending {
                Some(pending) => pending,
                None => self.send().await?,
            };
            let event = tokio::select! {
                biased;
                Some(event) = pending.events.recv() => event,
                outcome = &mut pending.outcome => {
                    let result = of_outcome(outcome);
                    self.pending = None;
                    if let Some(done) = self.take_result(result?)? {
                        return Ok(CallEvent::Done(done));
                    }
                    continue;
                }
            };
            return Ok(match event {
                ServerEvent::Progress(text) => CallEvent::Progress(text),
                ServerEvent::Question(id, params) => {
                    CallEvent::Question(question(&params, Reply::Request(id)))
                }
            });
        }
    }

    async fn send(&mut self) -> Result<&mut PendingRequest, McpFailure> {
        if self.rounds == MOST_ROUNDS {
            let text = format!("the tool asked more than {MOST_ROUNDS} times");
            return Err(McpFailure::new(FailureKind::Refused, text));
        }
        let mut params = self.params.clone();
        if self.rounds > 0 {
            if self.round.answers.is_empty() {
                tokio::time::sleep(PAUSE).await;
            } else {
                params.insert("inputResponses".to_owned(), self.round.answers.clone().into());
            }
            if let Some(state) = &self.round.state {
                params.insert("requestState".to_owned(), state.clone());
            }
        }
        let headers = self.headers.clone();
        let pending = self
            .connection
            .request("tools/call", params, RequestKind::Call, headers)
            .await?;
        self.rounds += 1;
        self.round = Round::default();
        Ok(self.pending.insert(pending))
    }

    /// The result, if it is one; else the questions of the next round are known.
    fn take_result(&mut self, result: Value) -> Result<Option<Map<String, Value>>, McpFailure> {
        let Value::Object(mut result) = result else {
            let shown: String = result.to_string().chars().take(300).collect();
            let text =
                format!("the MCP server answered with something else than the result of a tool: {shown}");
            return Err(McpFailure::unreadable(text));
        };
        match result.get("resultType") {
            None | Some(Value::Null) => return Ok(Some(result)),
            Some(Value::String(kind)) if kind == "complete" => return Ok(Some(result)),
            Some(Value::String(kind)) if kind == "input_required" => {}
            Some(other) => {
                let shown: String = other.to_string().chars().take(100).collect();
                let text =
                    format!("the MCP server answered with a result of a kind that is not known: {shown}");
                return Err(McpFailure::unreadable(text));
            }
        }
        let state = result.remove("requestState").filter(|state| !state.is_null());
        let asked = match result.remove("inputRequests") {
            Some(Value::Object(asked)) => asked,
            _ if state.is_some() => Map::new(),
            _ => {
                return Err(McpFailure::unreadable(
                    "the tool wants input and does not say which",
                ));
            }
        };
        let mut questions = VecDeque::new();
        for (name, request) in asked {
            let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
            let is_offered = method == "elicitation/create" && self.connection.shared.client.asks;
            if !is_offered || questions.len() == MOST_QUESTIONS {
                let method: String = method.chars().take(100).collect();
                let text = format!("the tool wants input by {method:?}, which is not offered here");
                return Err(McpFailure::new(FailureKind::Refused, text));
            }
            questions.push_back(question(&request["params"], Reply::Round(name)));
        }
        self.round = Round {
            open: questions.len(),
            questions,
            answers: Map::new(),
            state,
        };
        Ok(None)
    }

    /// Answers a question.
    pub async fn answer(&mut self, question: Question, answer: &ElicitationAnswer) {
        match question.reply {
            Reply::Request(id) => {
                let message = message::answer(&id, &answer.to_json());
                self.connection.tell(&self.connection.revision(), &message).await;
            }
            Reply::Round(name) => {
                self.round.answers.insert(name, answer.to_json());
                self.round.open = self.round.open.saturating_sub(1);
            }
        }
    }
}

fn question(params: &Value, reply: Reply) -> Question {
    let text = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
    Question {
        message: text("message").unwrap_or_default(),
        schema: params
            .get("requestedSchema")
            .filter(|schema| schema.is_object())
            .cloned(),
        url: text("url"),
        reply,
    }
}
