//! The commands of an agent: it listens for tasks, moves them on and ends them.

use std::sync::Arc;

use agentanycast_proto::v1::{Artifact, Message, StreamStart};
use tokio::sync::mpsc;

use super::{ArtifactSender, Engine, EngineCall, SendError, artifacts, stopping};
use crate::{
    coordinator::{CompleteOutcome, ListenRequest},
    subscriptions::Subscriptions,
    task::{Status, Task},
    transaction::{EngineError, ListenerId},
    types::{LISTENER_CREDIT, OfferedTask},
    wire,
};

impl Engine {
    /// Listens for tasks of an agent. When the listener is dropped, `has_ended` tells whether that is because the agent has
    /// ended.
    pub async fn listen(
        &self,
        request: ListenRequest,
        has_ended: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<AgentListener, EngineError> {
        let (sender, tasks) = mpsc::channel(LISTENER_CREDIT);
        let id = self
            .call_with(move |_, _| {
                (Ok(()), move |audience: &mut Subscriptions, ()| {
                    audience.add_listener(sender)
                })
            })
            .await??;
        let mut listener = AgentListener {
            id,
            agent: None,
            tasks,
            read: 0,
            is_given: false,
            engine: self.clone(),
            has_ended: Box::new(has_ended),
        };
        listener.agent = self.call(move |core, now| core.listen(now, id, &request)).await?;
        Ok(listener)
    }

    /// UpdateTaskStatus. `connection` is the caller's.
    pub async fn update(
        &self,
        id: String,
        next: Status,
        message: Option<Message>,
        connection: u64,
    ) -> Result<(), EngineError> {
        self.call(move |core, now| core.update(now, &id, next, message, connection))
            .await
    }

    /// UpdateTaskStatus by which an agent begins work that must not be done twice.
    pub async fn begin(&self, id: String, connection: u64) -> Result<(), EngineError> {
        self.call(move |core, now| core.begin(now, &id, connection)).await
    }

    /// UpdateTaskStatus by which an agent gives back a task that it has claimed, and on which it has done nothing.
    pub async fn give_back(&self, id: String, connection: u64) -> Result<(), EngineError> {
        self.call(move |core, now| core.give_back(now, &id, connection))
            .await
    }

    /// UpdateTaskStatus by which the agent's library claims a task before the agent has said anything.
    pub async fn claim_for_agent(&self, id: String, connection: u64) -> Result<(), EngineError> {
        self.call(move |core, now| core.claim_for_agent(now, &id, connection))
            .await
    }

    /// A gRPC connection is gone.
    pub fn connection_closed(&self, connection: u64) {
        self.post(Box::new(move |core, now| {
            core.on_connection_closed(now, connection);
            Box::new(|_| ())
        }));
    }

    /// CompleteTask. Artifacts that were streamed for an originator that does not know streams, or of a sealed task, go
    /// along whole. `unclaimed` is the connection of an agent that has not claimed the task: refused if another one has;
    /// `connection` is the caller's.
    pub async fn complete(
        &self,
        id: String,
        artifacts: Vec<Artifact>,
        message: Option<Message>,
        unclaimed: Option<u64>,
        connection: u64,
    ) -> Result<(), EngineError> {
        self.streams().end_of_others(&id, connection).await;
        let task = id.clone();
        let outcome = self
            .call(move |core, now| {
                core.check_is_its_agent(&task, connection)?;
                core.check_unclaimed(&task, unclaimed)?;
                core.complete_unless_streams_are_due(now, &task, artifacts, message)
            })
            .await?;
        let CompleteOutcome::StreamsDue {
            streams,
            mut artifacts,
            message,
        } = outcome
        else {
            return Ok(());
        };
        for streamed in streams {
            artifacts.push(
                artifacts::assembled(&self.parts.spool, &id, &streamed, wire::MAX_ENVELOPE as u64).await?,
            );
        }
        self.call(move |core, now| {
            core.check_unclaimed(&id, unclaimed)?;
            core.complete(now, &id, artifacts, message)
        })
        .await
    }

    /// FailTask; `unclaimed` and `connection` as in [`Engine::complete`].
    pub async fn fail(
        &self,
        id: String,
        error: String,
        unclaimed: Option<u64>,
        connection: u64,
    ) -> Result<(), EngineError> {
        self.call(move |core, now| {
            core.check_is_its_agent(&id, connection)?;
            core.check_unclaimed(&id, unclaimed)?;
            core.fail(now, &id, &error)
        })
        .await
    }

    /// SendStreamingArtifact: the sender of one artifact. `connection` is the caller's.
    pub async fn stream_artifact(
        &self,
        start: StreamStart,
        connection: u64,
    ) -> Result<ArtifactSender, SendError> {
        let open = self.streams().begin_send(&start.task_id, connection);
        let engine = self.clone();
        // A task of its own: an agent that goes away meanwhile leaves no artifact without a sender.
        let opening = tokio::spawn(async move {
            let begun = start.clone();
            let route = engine
                .call(move |core, now| core.start_stream(now, &begun, connection))
                .await?;
            ArtifactSender::open(engine, start, route, open).await
        });
        opening.await.unwrap_or_else(|_| Err(stopping().into()))
    }
}

/// An agent that listens. Dropping it stops that.
pub struct AgentListener {
    id: ListenerId,
    agent: Option<Arc<str>>,
    tasks: mpsc::Receiver<OfferedTask>,
    /// Tasks that were read since the core was told.
    read: usize,
    /// One more was given to whoever reads, and may not have been taken yet.
    is_given: bool,
    engine: Engine,
    has_ended: Box<dyn Fn() -> bool + Send + Sync>,
}

impl AgentListener {
    /// The name of the agent that listens; None: the primary one, which is not registered.
    pub fn agent(&self) -> Option<&Arc<str>> {
        self.agent.as_ref()
    }

    /// The next task, or the next news of one. None: the daemon stops. Whoever asks for it has taken the one before: a stream does
    /// when the flow control of its connection has let that pass.
    pub async fn next(&mut self) -> Option<OfferedTask> {
        self.read += usize::from(std::mem::take(&mut self.is_given));
        // What is read is room for as much more, which the core delivers: told when nothing more is here, or of many at once.
        if self.read > 0 && (self.tasks.is_empty() || self.read >= LISTENER_CREDIT / 4) {
            let (id, read) = (self.id, std::mem::take(&mut self.read));
            let call: EngineCall = Box::new(move |core, now| {
                let _ = core.credit(now, id, read);
                Box::new(|_| ())
            });
            self.engine.parts.calls.send(call).await.ok()?;
        }
        let incoming = self.tasks.recv().await?;
        self.is_given = true;
        Some(incoming)
    }

    /// The agent's client, on this connection, cannot take the task.
    pub async fn decline(&self, task: &Task, connection: u64, reason: String) -> Result<(), EngineError> {
        let (listener, id) = (self.id, task.id.clone());
        self.engine
            .call(move |core, now| core.decline(now, listener, connection, &id, &reason))
            .await
    }
}

impl Drop for AgentListener {
    fn drop(&mut self) {
        // One that was given and not followed by another question is with a client that does not read: it cannot have ended of
        // it. A client that reads asks for the next one at once.
        let read = self.read;
        let (id, has_ended) = (self.id, (self.has_ended)());
        self.engine.post(Box::new(move |core, now| {
            let _ = if has_ended {
                core.agent_ended(now, id, read)
            } else {
                core.detach(now, id)
            };
            Box::new(move |audience| {
                if let Ok(audience) = audience {
                    audience.remove_listener(id);
                }
            })
        }));
    }
}
