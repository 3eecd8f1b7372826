//! A language model behind the chat completions of OpenAI, which many servers speak: the answer is streamed as the
//! result, and earlier messages of the conversation go along.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use agentanycast_daemon_kit::address::join_path;
use agentanycast_gateway::agents::AgentTask;
use agentanycast_upp::{Response as ChatResponse, StreamEvent, providers::ChatAnswer};
use async_trait::async_trait;
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde_json::{Value, json};

use super::{
    AnswerError, answer_error, broken,
    chat::{self, ChatAsides},
    check_encoding,
    history::ChatHistories,
};
use crate::{
    Attempt, Backend, RunError, TaskResult, parts::JSON, result_stream::ResultStream,
    task_content::newest_request,
};

/// Where completions are below the URL.
const COMPLETIONS: &str = "/chat/completions";

/// How long is waited for more of an answer that has its end: its usage may follow. Some servers keep the
/// stream open.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The name of an answer as a result, and its media type: models write Markdown.
const ANSWER: &str = "answer";
const MARKDOWN: &str = "text/markdown";

/// A model.
pub(super) struct OpenAiBackend {
    http: Client,
    url: String,
    model: Option<String>,
    key: Option<String>,
    max_output: usize,
    histories: ChatHistories,
    /// The server does not know the option by which it tells of the tokens of a stream.
    without_usage: AtomicBool,
}

impl OpenAiBackend {
    /// The model of this name at `url`, the URL of its completions or the part before `/chat/completions`.
    pub(super) fn new(
        http: Client,
        url: &str,
        model: Option<String>,
        key: Option<String>,
        max_output: usize,
    ) -> Self {
        Self {
            http,
            url: completions_of(url),
            model,
            key,
            max_output,
            histories: ChatHistories::default(),
            without_usage: AtomicBool::new(false),
        }
    }

    async fn complete(&self, task: &dyn AgentTask) -> Result<TaskResult, RunError> {
        let shown = task.task();
        let asked = chat::user_message(&newest_request(shown))?;
        let mut messages = self.histories.messages(&shown.context_id);
        messages.push(asked.clone());
        let answer = self.ask(json!({"messages": messages, "stream": true})).await?;
        let mut said = SaidText {
            result: ResultStream::new(task, ANSWER, MARKDOWN, self.max_output),
            asides: ChatAsides::default(),
            text: String::new(),
        };
        let read = self.read(answer, &mut said).await;
        let response = read.map_err(|error| self.without_key(error))?;
        let artifact = said.result.finish().await?;
        let answer = json!({"role": "assistant", "content": said.text});
        self.histories.add(&shown.context_id, asked, answer);
        Ok(TaskResult::Completed {
            artifacts: artifact.into_iter().collect(),
            message: chat::usage_message(&response.usage),
        })
    }

    /// Sends a request, once more where the server refuses the option for the usage.
    async fn ask(&self, mut body: Value) -> Result<Response, RunError> {
        if let Some(model) = &self.model {
            body["model"] = model.as_str().into();
        }
        loop {
            let wants_usage = !self.without_usage.load(Ordering::Relaxed);
            if wants_usage {
                body["stream_options"] = json!({"include_usage": true});
            } else if let Value::Object(fields) = &mut body {
                fields.remove("stream_options");
            }
            let mut request = self
                .http
                .post(&self.url)
                .header(ACCEPT, "text/event-stream, application/json")
                .header(CONTENT_TYPE, JSON)
                .body(body.to_string());
            if let Some(key) = &self.key {
                request = request.bearer_auth(key);
            }
            let answer = request.send().await.map_err(|error| broken(&error))?;
            let status = answer.status();
            if status.is_success() {
                check_encoding(&answer)?;
                return Ok(answer);
            }
            let AnswerError { error, body } = answer_error(answer, self.key.as_deref()).await;
            let is_refused = matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY);
            if !(is_refused && wants_usage && body.contains("stream_options")) {
                return Err(error);
            }
            self.without_usage.store(true, Ordering::Relaxed);
        }
    }

    /// Reads an answer to its end. One that has its end is not lost by what follows.
    async fn read(&self, mut answer: Response, said: &mut SaidText<'_>) -> Result<ChatResponse, RunError> {
        let failure = |error| chat::failure(&error, self.max_output);
        let mut reader = ChatAnswer::new(self.max_output);
        let mut events = Vec::new();
        loop {
            let piece = match () {
                () if reader.is_over() => None,
                () if reader.is_whole() => {
                    let piece = tokio::time::timeout(LAST_WORDS, answer.chunk()).await;
                    piece.ok().and_then(Result::ok).flatten()
                }
                () => answer.chunk().await.map_err(|error| broken(&error))?,
            };
            let Some(bytes) = piece else { break };
            let taken = reader.take(&bytes, &mut events);
            said.take(&mut events).await?;
            taken.map_err(failure)?;
        }
        let response = reader.finish(&mut events).map_err(failure)?;
        said.take(&mut events).await?;
        said.asides.check(&response, !said.text.is_empty())?;
        Ok(response)
    }

    /// The error without the key, which a server may repeat.
    fn without_key(&self, error: RunError) -> RunError {
        match self.key.as_deref() {
            Some(key) if !key.is_empty() && error.to_string().contains(key) => {
                RunError::new(error.to_string().replace(key, "***"))
            }
            _ => error,
        }
    }
}

/// The URL of the completions, whether `url` is theirs or the one above.
fn completions_of(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let is_theirs = path.trim_end_matches('/').ends_with(COMPLETIONS);
    join_path(url, if is_theirs { "" } else { COMPLETIONS })
}

/// What a model has said.
struct SaidText<'a> {
    result: ResultStream<'a>,
    asides: ChatAsides,
    text: String,
}

impl SaidText<'_> {
    async fn take(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), RunError> {
        for event in events.drain(..) {
            if let Some(text) = self.asides.answer_in(&event) {
                self.result.send(text.as_bytes()).await?;
                self.text.push_str(&text);
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for OpenAiBackend {
    async fn run(&self, task: &dyn AgentTask, _: Attempt) -> Result<TaskResult, RunError> {
        let cancelled = task.cancelled();
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(RunError::new("the task was canceled")),
            done = self.complete(task) => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_below_the_url() {
        for (url, completions) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            (
                "http://h/v1/?api-version=1",
                "http://h/v1/chat/completions?api-version=1",
            ),
            (
                "http://h/d/chat/completions?api-version=1",
                "http://h/d/chat/completions?api-version=1",
            ),
        ] {
            assert_eq!(completions_of(url), completions);
        }
    }
}
