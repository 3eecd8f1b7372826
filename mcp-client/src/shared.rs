//! What the reader of a connection and its callers share: the requests under way, and what the server said
//! besides.

use std::sync::{Mutex, MutexGuard, PoisonError};

use agentanycast_readers::{excerpt::excerpt, lines::Piece};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    failure::{FailureKind, McpFailure},
    identity::ClientIdentity,
    message::{self, Message, messages},
    open_calls::OpenCalls,
    outline::Outline,
};

/// What a server says to a call before it answers.
#[derive(Debug)]
pub(crate) enum ServerEvent {
    /// How far it is.
    Progress(String),
    /// `elicitation/create`: the id of the request and its parameters.
    Question(Value, Value),
}

/// Events of a call that wait to be read. More progress is dropped: newer one follows.
const MOST_EVENTS: usize = 32;

/// A request that is under way.
#[derive(Debug)]
struct OpenRequest {
    outcome: oneshot::Sender<Result<Value, McpFailure>>,
    /// Where what the server says before goes; `None`: it may not say anything.
    events: Option<mpsc::Sender<ServerEvent>>,
    /// It is answered when the connection ends.
    is_lasting: bool,
}

/// What a request needs besides its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// It is answered soon.
    Plain,
    /// It has progress and questions.
    Call,
    /// It is answered at the end, and notifications come before.
    Lasting,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    pub(crate) client: ClientIdentity,
    calls: Mutex<OpenCalls<OpenRequest>>,
    /// How often the server said that its tools have changed.
    pub(crate) tools_changed: watch::Sender<u64>,
    /// Why the connection has ended.
    pub(crate) ended: watch::Sender<Option<String>>,
}

/// A request as its caller holds it.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) outcome: oneshot::Receiver<Result<Value, McpFailure>>,
    pub(crate) events: mpsc::Receiver<ServerEvent>,
}

impl ConnectionState {
    pub(crate) fn new(client: ClientIdentity) -> Self {
        Self {
            client,
            calls: Mutex::default(),
            tools_changed: watch::Sender::new(0),
            ended: watch::Sender::new(None),
        }
    }

    fn calls(&self) -> MutexGuard<'_, OpenCalls<OpenRequest>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request.
    ///
    /// # Errors
    /// When the connection has ended.
    pub(crate) fn open(&self, id: u64, kind: RequestKind) -> Result<Waiting, McpFailure> {
        let (outcome, answered) = oneshot::channel();
        let (events, waiting) = mpsc::channel(MOST_EVENTS);
        let mut calls = self.calls();
        if let Some(reason) = &*self.ended.borrow() {
            return Err(McpFailure::new(FailureKind::NotDone, reason.clone()));
        }
        calls.open(
            id,
            OpenRequest {
                outcome,
                events: (kind == RequestKind::Call).then_some(events),
                is_lasting: kind == RequestKind::Lasting,
            },
        );
        Ok(Waiting {
            outcome: answered,
            events: waiting,
        })
    }

    /// Ends a request with this outcome. One that has ended already keeps its own.
    pub(crate) fn finish(&self, id: u64, outcome: Result<Value, McpFailure>) {
        let mut calls = self.calls();
        if let Some(request) = calls.close(id) {
            // Its caller may have gone.
            let _ = request.outcome.send(outcome);
        }
        settle(&mut calls);
    }

    /// Forgets a request whose caller has gone; whether it was under way.
    pub(crate) fn forget(&self, id: u64) -> bool {
        let mut calls = self.calls();
        let was_open = calls.close(id).is_some();
        settle(&mut calls);
        was_open
    }

    pub(crate) fn is_open(&self, id: u64) -> bool {
        self.calls().get(id).is_some()
    }

    /// Whether a call is under way.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls().all().any(|request| request.events.is_some())
    }

    /// The connection has ended for this reason.
    pub(crate) fn end(&self, reason: &str) {
        let mut calls = self.calls();
        self.ended.send_modify(|ended| {
            ended.get_or_insert_with(|| reason.to_owned());
        });
        for request in calls.close_all() {
            let _ = request.outcome.send(Err(McpFailure::ended(reason)));
        }
    }

    /// Takes a document, which was read from these bytes and came beside the request `origin`, if beside any;
    /// what is answered to it.
    pub(crate) fn take(
        &self,
        document: Result<Value, serde_json::Error>,
        bytes: &[u8],
        origin: Option<u64>,
    ) -> Vec<Value> {
        match document {
            Ok(Value::String(inner)) => {
                self.take_unreadable(inner.as_bytes(), "it is a text, and has to be an object", origin);
                Vec::new()
            }
            Ok(document) => {
                let all = messages(document).into_iter();
                all.filter_map(|message| self.take_one(message, bytes, origin))
                    .collect()
            }
            Err(error) => {
                self.take_unreadable(bytes, &error.to_string(), origin);
                Vec::new()
            }
        }
    }

    /// A text is no document of JSON: the request that it answers ends.
    fn take_unreadable(&self, text: &[u8], error: &str, origin: Option<u64>) {
        let outline = Outline::of_broken(text, |id| self.is_open(id));
        self.take_outlined(&outline, text, error, origin);
    }

    /// As [`Self::take_unreadable`], for a line that is none of MCP for this reason.
    pub(crate) fn take_unreadable_line(&self, piece: &Piece, fault: &str) {
        let outline = Outline::of_broken(piece.message(), |id| self.is_open(id));
        // A log may show messages of other connections.
        if matches!(piece, Piece::Prefixed { .. }) && !outline.ids.iter().any(|id| self.is_open(*id)) {
            return;
        }
        self.take_outlined(&outline, piece.text(), fault, None);
    }

    fn take_outlined(&self, outline: &Outline, text: &[u8], error: &str, origin: Option<u64>) {
        if !outline.may_be_answer() {
            tracing::debug!(
                line = excerpt(text),
                "an MCP server wrote a line that is no message"
            );
            return;
        }
        let text = format!(
            "the MCP server sent a line that cannot be read: {error}: {}",
            excerpt(text)
        );
        self.lose(&outline.ids, &McpFailure::unreadable(text), origin);
    }

    /// A message has more than `max` bytes; its beginning and its end.
    pub(crate) fn take_too_large(&self, max: usize, head: &[u8], tail: &[u8]) {
        let outline = Outline::of_ends(head, tail);
        let text = format!("the MCP server sent a message of more than {max} bytes; it was dropped");
        if outline.may_be_answer() || !outline.ids.is_empty() {
            self.lose(&outline.ids, &McpFailure::unreadable(text), None);
        } else {
            tracing::warn!("{text}");
        }
    }

    fn lose(&self, ids: &[u64], failure: &McpFailure, origin: Option<u64>) {
        let mut calls = self.calls();
        let may_be = |request: &OpenRequest| !request.is_lasting;
        // Its line may hold secrets: the call that it ends is told it, and the log is not.
        let text = "an answer of an MCP server cannot be used; the call that it is for fails";
        let is_told = {
            let mut open = calls.all().filter(|request| may_be(request)).peekable();
            open.peek().is_some() && open.all(|request| request.events.is_none())
        };
        if is_told {
            // Who lists tools or agrees on a revision logs it, once.
            tracing::debug!("{text}");
        } else {
            tracing::warn!("{text}");
        }
        match origin {
            Some(origin) if !ids.iter().any(|id| calls.get(*id).is_some()) => {
                calls.lose(&[origin], failure, may_be);
            }
            _ => calls.lose(ids, failure, may_be),
        }
        settle(&mut calls);
    }

    fn take_one(&self, message: Message, bytes: &[u8], origin: Option<u64>) -> Option<Value> {
        match message {
            Message::Answer(id, outcome) => self.take_answer(id, outcome, bytes, origin),
            Message::Notification { method, params } => self.take_notification(&method, &params),
            Message::Request { id, method, params } => return self.take_request(id, &method, params, origin),
            Message::Other if Outline::of(bytes).may_be_answer() => {
                self.take_unreadable(bytes, "it is no message of JSON-RPC", origin);
            }
            Message::Other => {
                tracing::debug!(
                    line = excerpt(bytes),
                    "an MCP server wrote a line that is no message"
                );
            }
        }
        None
    }

    fn take_answer(
        &self,
        id: Option<u64>,
        outcome: Result<Value, McpFailure>,
        bytes: &[u8],
        origin: Option<u64>,
    ) {
        match (id, &outcome, origin) {
            (Some(id), ..) if self.is_open(id) => self.finish(id, outcome),
            (Some(id), ..) if self.calls().has_ended(id) => {}
            // An error without an id is that of the request whose answer this is.
            (None, Err(_), Some(origin)) => self.finish(origin, outcome),
            _ => {
                let line = excerpt(bytes);
                let text = format!("the MCP server answered with an id that no request has: {line}");
                self.lose(&[], &McpFailure::unreadable(text), origin);
            }
        }
    }

    fn take_notification(&self, method: &str, params: &Value) {
        match method {
            "notifications/progress" => {
                let token = params.get("progressToken").and_then(message::own_id);
                let calls = self.calls();
                let events = token.and_then(|id| calls.get(id)?.events.as_ref());
                if let (Some(events), Some(text)) = (events, message::progress_text(params)) {
                    let _ = events.try_send(ServerEvent::Progress(text));
                }
            }
            "notifications/tools/list_changed" => self.tools_changed.send_modify(|count| *count += 1),
            _ => tracing::debug!(method, "an MCP server sent a notification"),
        }
    }

    fn take_request(&self, id: Value, method: &str, params: Value, origin: Option<u64>) -> Option<Value> {
        match method {
            "ping" => Some(message::answer(&id, &json!({}))),
            "elicitation/create" if self.client.asks => {
                let calls = self.calls();
                let mut callers = calls.all().filter_map(|request| request.events.as_ref());
                let of_origin = origin.and_then(|origin| calls.get(origin)?.events.as_ref());
                let caller = of_origin.or_else(|| match (callers.next(), callers.next()) {
                    (Some(only), None) => Some(only),
                    _ => None,
                });
                let refused = message::answer(&id, &json!({"action": "cancel"}));
                let Some(caller) = caller else {
                    tracing::warn!(
                        "an MCP server asks something and does not say for which of its calls; the question is \
                         canceled: run it with --concurrency 1"
                    );
                    return Some(refused);
                };
                caller
                    .try_send(ServerEvent::Question(id, params))
                    .is_err()
                    .then_some(refused)
            }
            method => Some(message::no_such_method(
                &id,
                &method.chars().take(100).collect::<String>(),
            )),
        }
    }
}

/// Ends the requests whose answers are known to be lost.
fn settle(calls: &mut OpenCalls<OpenRequest>) {
    for (request, failure) in calls.settled() {
        let _ = request.outcome.send(Err(failure));
    }
}
