//! A language model behind the chat completions of OpenAI, which many servers speak: the answer is streamed as the
//! result, and earlier messages of the conversation go along.

use agentanycast_gateway::agents::AgentTask;
use async_trait::async_trait;
use reqwest::{
    Client, Response,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde_json::json;

use super::{
    answer_error, broken,
    chat::{self, ChatPiece},
    event_lines::EventLines,
    history::ChatHistories,
    media_type_of,
};
use crate::{
    Attempt, Backend, RunError, TaskResult,
    parts::JSON,
    result_stream::{ResultStream, too_large},
    task_content::{essence, newest_request},
};

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
}

impl OpenAiBackend {
    /// The model of this name at `url`, the part of the URL before `/chat/completions`.
    pub(super) fn new(
        http: Client,
        url: &str,
        model: Option<String>,
        key: Option<String>,
        max_output: usize,
    ) -> Self {
        Self {
            http,
            url: format!("{}/chat/completions", url.trim_end_matches('/')),
            model,
            key,
            max_output,
            histories: ChatHistories::default(),
        }
    }

    async fn complete(&self, task: &dyn AgentTask) -> Result<TaskResult, RunError> {
        let shown = task.task();
        let asked = chat::user_message(&newest_request(shown))?;
        let mut messages = self.histories.messages(&shown.context_id);
        messages.push(asked.clone());
        let mut body = json!({"messages": messages, "stream": true});
        if let Some(model) = &self.model {
            body["model"] = model.as_str().into();
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
        if !answer.status().is_success() {
            return Err(answer_error(answer, self.key.as_deref()).await);
        }
        let mut said = SaidText {
            result: ResultStream::new(task, ANSWER, MARKDOWN, self.max_output),
            text: String::new(),
            finish: None,
        };
        if essence(&media_type_of(&answer)) == JSON {
            self.read_whole(answer, &mut said).await?;
        } else {
            self.read_events(answer, &mut said).await?;
        }
        chat::check_finish(said.finish.as_deref(), said.text.is_empty())?;
        let artifact = said.result.finish().await?;
        let answer = json!({"role": "assistant", "content": said.text});
        self.histories.add(&shown.context_id, asked, answer);
        Ok(TaskResult::Completed {
            artifacts: artifact.into_iter().collect(),
            message: None,
        })
    }

    /// An answer of a server that does not stream.
    async fn read_whole(&self, mut answer: Response, said: &mut SaidText<'_>) -> Result<(), RunError> {
        let mut bytes = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| broken(&error))? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > self.max_output {
                return Err(too_large(self.max_output));
            }
        }
        said.take(&bytes).await
    }

    async fn read_events(&self, mut answer: Response, said: &mut SaidText<'_>) -> Result<(), RunError> {
        let mut lines = EventLines::default();
        while let Some(bytes) = answer.chunk().await.map_err(|error| broken(&error))? {
            let events = lines.take(&bytes, self.max_output);
            for event in events.map_err(|_| too_large(self.max_output))? {
                if event == b"[DONE]" {
                    return Ok(());
                }
                said.take(&event).await?;
            }
        }
        if said.finish.is_none() {
            return Err(RunError::new("the answer broke off before its end"));
        }
        Ok(())
    }
}

/// What a model has said.
struct SaidText<'a> {
    result: ResultStream<'a>,
    text: String,
    finish: Option<String>,
}

impl SaidText<'_> {
    async fn take(&mut self, json: &[u8]) -> Result<(), RunError> {
        let ChatPiece { text, finish } = chat::read(json)?;
        if !text.is_empty() {
            self.result.send(text.as_bytes()).await?;
            self.text.push_str(&text);
        }
        self.finish = finish.or(self.finish.take());
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
