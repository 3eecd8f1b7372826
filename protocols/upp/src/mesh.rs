//! The provider `agentanycast`: asks agents of the mesh as if they were models.
//!
//! A request is a task with two parts: the request of UPP as data, and the last message as text, so that an
//! agent that knows no UPP answers too. Tools travel as schemas, and calls come back to the caller, who runs
//! them.
//!
//! ```no_run
//! use agentanycast_upp::{llm, mesh::agentanycast};
//!
//! # async fn run(node: agentanycast::Node) -> Result<(), agentanycast_upp::UppError> {
//! let model = llm(agentanycast(node, "skill:translate")).build()?;
//! println!("{}", model.generate("Good morning").await?.text());
//! # Ok(())
//! # }
//! ```

mod error;
mod running_task;
mod target;
mod task_codec;

use agentanycast::Node;
use async_trait::async_trait;
use futures::{StreamExt as _, stream};

use self::task_codec::{answer_of, request_message};
pub use self::{
    error::{error_of_task, node_error},
    running_task::RunningTask,
    target::MeshTarget,
    task_codec::{blocks_of_parts, parts_of_turn, request_of_parts},
};
use crate::{
    error::UppError,
    event::StreamEvent,
    provider::{ModelReference, Provider, ProviderEvent, ProviderStream, Request, Response},
    scripted::events_of,
    task_wire::event_of_line,
};

/// An agent of the mesh as a model. Its id is `peer:<id>`, `peer:<id>/<agent>`, `skill:<id>` or a DID; an id
/// of another form fails each request with `MODEL_NOT_FOUND`.
///
/// A question of the agent is its answer, as of any model; the task is cancelled, and the next request brings
/// the whole conversation. Dropping a request or its stream cancels the task.
pub fn agentanycast(node: Node, id: impl Into<String>) -> ModelReference {
    ModelReference::new(MeshProvider { node }, id)
}

#[derive(Clone, Debug)]
struct MeshProvider {
    node: Node,
}

impl MeshProvider {
    async fn send(&self, request: &Request) -> Result<RunningTask, UppError> {
        let target: MeshTarget = request.model.parse()?;
        RunningTask::send(&self.node, &target, request_message(request)?).await
    }
}

#[async_trait]
impl Provider for MeshProvider {
    fn name(&self) -> &'static str {
        "agentanycast"
    }

    async fn complete(&self, request: Request) -> Result<Response, UppError> {
        let task = self.send(&request).await?;
        answer(task).await
    }

    async fn stream(&self, request: Request) -> Result<ProviderStream, UppError> {
        let task = self.send(&request).await?;
        let lines = task.event_lines();
        let begin = StreamState::Events {
            task,
            lines: Box::pin(lines),
            seen: false,
        };
        Ok(stream::try_unfold(begin, next_piece).boxed())
    }
}

async fn answer(task: RunningTask) -> Result<Response, UppError> {
    let handle = task.handle().clone();
    answer_of(&handle, &task.wait().await?).await
}

type Lines = std::pin::Pin<Box<dyn futures::Stream<Item = Result<String, UppError>> + Send>>;

enum StreamState {
    /// The events of the agent.
    Events {
        task: RunningTask,
        lines: Lines,
        seen: bool,
    },
    /// The events of an answer whose agent had none.
    Made {
        events: std::vec::IntoIter<StreamEvent>,
        response: Box<Response>,
    },
    Over,
}

async fn next_piece(mut state: StreamState) -> Result<Option<(ProviderEvent, StreamState)>, UppError> {
    loop {
        state = match state {
            StreamState::Events {
                task,
                mut lines,
                seen,
            } => {
                let Some(line) = lines.next().await else {
                    drop(lines);
                    state = made(task, seen).await?;
                    continue;
                };
                if let Some(event) = event_of_line(line?.as_bytes())? {
                    let state = StreamState::Events {
                        task,
                        lines,
                        seen: true,
                    };
                    return Ok(Some((ProviderEvent::Event(event), state)));
                }
                StreamState::Events { task, lines, seen }
            }
            StreamState::Made { mut events, response } => {
                let piece = events.next();
                return Ok(Some(match piece {
                    Some(event) => (
                        ProviderEvent::Event(event),
                        StreamState::Made { events, response },
                    ),
                    None => (ProviderEvent::Done(response), StreamState::Over),
                }));
            }
            StreamState::Over => return Ok(None),
        };
    }
}

/// The end of the stream. An agent that had no events gets those of its answer.
async fn made(task: RunningTask, seen: bool) -> Result<StreamState, UppError> {
    let response = answer(task).await?;
    let events = if seen {
        Vec::new()
    } else {
        events_of(&response.message)
    };
    Ok(StreamState::Made {
        events: events.into_iter(),
        response: Box::new(response),
    })
}
