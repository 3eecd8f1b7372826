//! What an agent said in one turn, and what of it is the result: its text is streamed, all else is kept for the end.
//! Used by `turn`.
//!
//! Invariant: what is kept of a turn is bounded by the largest result.

use agent_client_protocol::v1::schema::{ContentBlock, ContentChunk, SessionUpdate};
use agentanycast_gateway::agents::AgentTask;
use agentanycast_proto::v1;
use agentanycast_readers::excerpt::excerpt;

use super::content;
use crate::{
    RunError,
    parts::{data_part, text_message},
    result_stream::{ResultStream, stream_large, too_large},
    task_content::{artifact, shortened},
};

/// The name of what an agent says, as a result.
const ANSWER: &str = "answer";

/// Its media type: agents write Markdown.
const MARKDOWN: &str = "text/markdown";

/// What an update that is held costs besides its texts, in bytes.
const HELD_COST: usize = 256;

/// How much of the thoughts of a turn is kept, in bytes.
const MOST_THOUGHTS: usize = 2 << 10;

/// What an agent said in a turn: its text is streamed, everything else is kept for the end.
pub(super) struct Said<'a> {
    task: &'a dyn AgentTask,
    text: ResultStream<'a>,
    parts: Vec<v1::Part>,
    part_bytes: usize,
    max_output: usize,
    message_id: Option<String>,
    /// The next text begins a paragraph: the agent did something else meanwhile.
    is_paused: bool,
    /// The agent has said and done nothing.
    pub(super) is_untouched: bool,
    /// The agent has called a tool.
    pub(super) has_worked: bool,
    /// The beginning of its thoughts.
    thoughts: String,
    /// Parts of messages that an earlier turn had.
    pub(super) late: Vec<ContentChunk>,
    /// What it said and did while the sender was asked.
    pub(super) held: Vec<SessionUpdate>,
    pub(super) held_bytes: usize,
}

impl<'a> Said<'a> {
    pub(super) fn new(task: &'a dyn AgentTask, max_output: usize) -> Self {
        Self {
            task,
            text: ResultStream::new(task, ANSWER, MARKDOWN, max_output),
            parts: Vec::new(),
            part_bytes: 0,
            max_output,
            message_id: None,
            is_paused: false,
            is_untouched: true,
            has_worked: false,
            thoughts: String::new(),
            late: Vec::new(),
            held: Vec::new(),
            held_bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.parts.is_empty()
    }

    pub(super) fn late(&mut self, chunk: ContentChunk) -> Result<(), RunError> {
        self.count_held(&chunk)?;
        self.late.push(chunk);
        Ok(())
    }

    pub(super) fn hold(&mut self, update: SessionUpdate) -> Result<(), RunError> {
        self.count_held(&update)?;
        self.held.push(update);
        Ok(())
    }

    fn count_held(&mut self, held: &impl serde::Serialize) -> Result<(), RunError> {
        self.held_bytes += serde_json::to_string(held).map_or(0, |json| json.len()) + HELD_COST;
        if self.held_bytes > self.max_output {
            return Err(too_large(self.max_output));
        }
        Ok(())
    }

    pub(super) fn thought(&mut self, chunk: &ContentChunk) {
        // More than that is not shown.
        if let ContentBlock::Text(text) = &chunk.content
            && self.thoughts.len() < MOST_THOUGHTS
        {
            self.thoughts.push_str(&shortened(&text.text, MOST_THOUGHTS));
        }
    }

    /// The message of a turn without an answer: the thoughts of an agent that has worked. A turn of thoughts alone is no
    /// answer, as reasoning alone of a model is none.
    pub(super) fn without_answer(&self) -> Result<Option<v1::Message>, RunError> {
        let thoughts = self.thoughts.trim();
        if !self.is_empty() || thoughts.is_empty() {
            return Ok(None);
        }
        if self.has_worked {
            let thoughts = shortened(thoughts, MOST_THOUGHTS);
            return Ok(Some(text_message(format!(
                "The agent ended its turn without an answer. Its thoughts were: {thoughts}"
            ))));
        }
        Err(RunError::new(format!(
            "the agent ended its turn without an answer, after these thoughts: {}",
            excerpt(thoughts.as_bytes())
        )))
    }

    pub(super) fn pause(&mut self) {
        self.is_paused = true;
    }

    pub(super) async fn chunk(&mut self, chunk: ContentChunk) -> Result<(), RunError> {
        self.is_untouched = false;
        let id = chunk.message_id.map(|id| id.0.to_string());
        let is_other = id.is_some() && self.message_id.is_some() && id != self.message_id;
        self.message_id = id.or(self.message_id.take());
        if let ContentBlock::Text(text) = &chunk.content {
            if text.text.is_empty() {
                return Ok(());
            }
            let is_new = std::mem::take(&mut self.is_paused) || is_other;
            if is_new && !self.text.is_empty() {
                self.text.send(b"\n\n").await?;
            }
            return self.text.send(text.text.as_bytes()).await;
        }
        // What cannot be read stays JSON.
        let part = content::part(&chunk.content)
            .unwrap_or_else(|| data_part(&serde_json::to_value(&chunk.content).unwrap_or_default()));
        self.part_bytes += prost::Message::encoded_len(&part);
        if self.part_bytes > self.max_output {
            return Err(too_large(self.max_output));
        }
        self.parts.push(part);
        Ok(())
    }

    pub(super) async fn finish(self) -> Result<Vec<v1::Artifact>, RunError> {
        let mut artifacts: Vec<v1::Artifact> = self.text.finish().await?.into_iter().collect();
        if !self.parts.is_empty() {
            artifacts.push(artifact("content", self.parts));
        }
        stream_large(self.task, artifacts, self.max_output).await
    }
}
