//! The threads that calls are answered on. A connection lives on one of them with all its calls: what reads it, what
//! answers and what writes it wake each other without waking another processor, which costs more than a call's work
//! (docs/design.md, "Directory").
//!
//! The one rule: nothing that takes long runs here without pausing, or the other connections of its thread wait.

use std::{future::Future, io, thread, time::Duration};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};

use crate::bounded_listener::{DetachedConnection, SlotConnection};

/// Connections that a thread may have waiting to be taken up; beyond that the listener waits.
const WAITING: usize = 64;

/// Most threads; more would serve no more than the network brings.
const MOST: usize = 16;

/// What a connection begins with, before anything is asked: the preface of HTTP/2 (RFC 9113, 3.4).
const PREFACE: usize = 24;

/// How long it may take.
const PREFACE_WITHIN: Duration = Duration::from_secs(10);

/// Threads that serve connections, one after the other given to the next.
pub(super) struct WorkerThreads {
    threads: Vec<WorkerThread>,
    next: usize,
}

struct WorkerThread {
    connections: mpsc::Sender<DetachedConnection>,
    ended: oneshot::Receiver<anyhow::Result<()>>,
}

impl WorkerThreads {
    /// As many as there are processors. `serve` makes what a thread does with its connections; it ends when it is
    /// stopped.
    pub(super) fn start<F>(serve: impl Fn(ThreadConnections) -> F) -> io::Result<Self>
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MOST);
        let threads = (0..count).map(|number| {
            let (connections, waiting) = mpsc::channel(WAITING);
            let serving = serve(ThreadConnections(ReceiverStream::new(waiting)));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let (end, ended) = oneshot::channel();
            thread::Builder::new()
                .name(format!("registry-{number}"))
                .spawn(move || {
                    // Nobody is left to tell when the relay has stopped waiting.
                    let _ = end.send(runtime.block_on(serving));
                })?;
            Ok(WorkerThread { connections, ended })
        });
        Ok(Self {
            threads: threads.collect::<io::Result<_>>()?,
            next: 0,
        })
    }

    /// Gives a connection to the next thread.
    pub(super) async fn assign(&mut self, connection: SlotConnection) {
        let thread = &self.threads[self.next];
        self.next = (self.next + 1) % self.threads.len();
        match connection.detach() {
            // A thread that has ended is noticed by `ended`.
            Ok(detached) => drop(thread.connections.send(detached).await),
            Err(error) => tracing::debug!(%error, "a connection was lost before it was served"),
        }
    }

    /// Waits until all have ended, or one has failed.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        let all = self.threads.iter_mut().map(|thread| async {
            let ended = (&mut thread.ended).await;
            ended.map_err(|_| anyhow::anyhow!("a thread of the gRPC server has panicked"))?
        });
        futures::future::try_join_all(all).await?;
        Ok(())
    }
}

/// The connections that one thread is given.
pub(super) struct ThreadConnections(ReceiverStream<DetachedConnection>);

impl ThreadConnections {
    /// For gRPC; to be awaited on the thread.
    pub(super) fn connections(self) -> impl Stream<Item = io::Result<SlotConnection>> {
        self.0.map(|detached| {
            let connection = detached.attach()?;
            Ok(connection.with_silence_timeout(PREFACE, PREFACE_WITHIN))
        })
    }
}
