//! The two roles of a bare node: asking (beside the sender) and answering (beside the agent). Each question
//! is one frame there and one frame back on the long stream; each artifact has a stream of its own.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use agentanycast_tests::bare_grpc::{BareGrpc, BareGrpcClient, BarePayload};
use anyhow::Context as _;
use bytes::Bytes;
use futures::{FutureExt as _, SinkExt, StreamExt as _, future::BoxFuture, stream::BoxStream};
use libp2p::{PeerId, Stream};
use libp2p_stream::{Control, IncomingStreams};
use tokio::sync::{mpsc, oneshot};
use tonic::{Status, Streaming};

use crate::{STREAM, frames};

type PendingQuestions = Arc<Mutex<HashMap<u64, oneshot::Sender<Bytes>>>>;

/// Beside the sender.
#[derive(Clone)]
pub(crate) struct SenderSide {
    last: Arc<AtomicU64>,
    waiting: PendingQuestions,
    questions: mpsc::UnboundedSender<(u64, Bytes)>,
    streams: Arc<tokio::sync::Mutex<IncomingStreams>>,
}

impl SenderSide {
    /// The road, and what moves frames over the long stream.
    pub(crate) fn new(
        stream: Stream,
        streams: IncomingStreams,
    ) -> (Self, impl Future<Output = anyhow::Result<()>>) {
        let (questions, queue) = mpsc::unbounded_channel();
        let (mut reader, writer) = frames::split(stream);
        let road = Self {
            last: Arc::default(),
            waiting: PendingQuestions::default(),
            questions,
            streams: Arc::new(tokio::sync::Mutex::new(streams)),
        };
        let waiting = Arc::clone(&road.waiting);
        let read = async move {
            while let Some((number, answer)) = frames::next(&mut reader).await? {
                let asker = lock(&waiting).remove(&number).context("an answer to nothing")?;
                let _ = asker.send(answer);
            }
            anyhow::Ok(())
        };
        let pumps = async move { tokio::try_join!(read, frames::write(queue, writer)).map(drop) };
        (road, pumps)
    }
}

fn lock(waiting: &PendingQuestions) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Bytes>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BareGrpc for SenderSide {
    fn carry(&self, payload: Bytes) -> BoxFuture<'static, Result<Bytes, Status>> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (asker, answer) = oneshot::channel();
        lock(&self.waiting).insert(number, asker);
        let _ = self.questions.send((number, payload));
        async {
            answer
                .await
                .map_err(|_| Status::unavailable("the stream is over"))
        }
        .boxed()
    }

    fn pull(&self) -> BoxFuture<'static, Result<BoxStream<'static, Result<BarePayload, Status>>, Status>> {
        let streams = Arc::clone(&self.streams);
        async move {
            let next = streams.lock().await.next().await;
            let (_, stream) = next.ok_or_else(|| Status::unavailable("the swarm is gone"))?;
            let (reader, _) = frames::split(stream);
            let payloads = reader.map(|frame| match frame {
                Ok(frame) => Ok(BarePayload::from(frame.freeze())),
                Err(error) => Err(Status::aborted(error.to_string())),
            });
            Ok(payloads.boxed())
        }
        .boxed()
    }
}

/// Beside the agent.
#[derive(Clone)]
pub(crate) struct AgentSide {
    pub(crate) twin: PeerId,
    pub(crate) control: Control,
}

impl BareGrpc for AgentSide {
    fn carry(&self, _payload: Bytes) -> BoxFuture<'static, Result<Bytes, Status>> {
        async { Err(Status::unimplemented("questions go the other way")) }.boxed()
    }

    fn push(&self, mut payloads: Streaming<BarePayload>) -> BoxFuture<'static, Result<Bytes, Status>> {
        let (twin, mut control) = (self.twin, self.control.clone());
        async move {
            let stream = control.open_stream(twin, STREAM).await;
            let stream = stream.map_err(|error| Status::unavailable(error.to_string()))?;
            let (_reader, mut writer) = frames::split(stream);
            while let Some(payload) = payloads.message().await? {
                writer.feed(payload.bytes).await?;
            }
            SinkExt::<Bytes>::close(&mut writer).await?;
            Ok(Bytes::new())
        }
        .boxed()
    }
}

/// Passes each question to the agent, and its answer back.
pub(crate) async fn answer(stream: Stream, agent: PathBuf) -> anyhow::Result<()> {
    let client = BareGrpcClient::new(agent);
    let (answers, queue) = mpsc::unbounded_channel();
    let (mut reader, writer) = frames::split(stream);
    let read = async {
        while let Some((number, question)) = frames::next(&mut reader).await? {
            let (mut client, answers) = (client.clone(), answers.clone());
            tokio::spawn(async move {
                if let Ok(answer) = client.carry(question).await {
                    let _ = answers.send((number, answer));
                }
            });
        }
        anyhow::Ok(())
    };
    tokio::try_join!(read, frames::write(queue, writer)).map(drop)
}
