//! Those who work: bare agents, which come back on a new connection after each loss and go on with what they
//! have claimed, and the SDK's. Sometimes a bare one leaves by itself.

use std::{
    collections::HashSet,
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast::{Artifact, Node};
use agentanycast_proto::v1::{self, TaskStatus};
use agentanycast_tests::{
    agent::TestAgent,
    rpc::{self, Rpc},
};
use rand::{RngExt as _, rngs::StdRng};
use tokio::{sync::watch, task::JoinSet};
use tonic::{Code, Status, Streaming};

use super::{
    NUMBER, answer,
    grpc_connection::{GrpcConnection, connect_grpc, is_connection_lost},
    history::CrashHistory,
};

/// One in so many tasks makes a bare agent leave and come back.
const LEAVES: u32 = 20;

/// Longest time that a bare agent thinks between two calls, in milliseconds.
const THINKS: u64 = 10;

/// How long until a bare agent asks again for a task that its daemon does not have yet.
const COMES_AGAIN: Duration = Duration::from_millis(20);

/// The SDK's agent. Every other task it ends without having said anything of it: where it is alone, unclaimed.
pub(super) fn serve(node: &Node, ledger: &Arc<CrashHistory>) -> TestAgent {
    let ledger = Arc::clone(ledger);
    let begun = Arc::new(AtomicUsize::new(0));
    TestAgent::serve(node, move |task| {
        let ledger = Arc::clone(&ledger);
        let is_quiet = begun.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        async move {
            if is_quiet {
                ledger.began(task.id());
            } else {
                ledger.asks(task.id());
                task.working("by the SDK").await?;
                ledger.ran(task.id());
            }
            let result = answer(&task.metadata()[NUMBER]);
            task.complete([Artifact::text(result)]).await?;
            Ok(())
        }
    })
}

/// A bare agent.
pub(super) struct BareAgent {
    number: usize,
    socket: PathBuf,
    ledger: Arc<CrashHistory>,
    dice: StdRng,
    wire: watch::Sender<Option<GrpcConnection>>,
}

impl BareAgent {
    pub(super) fn new(number: usize, socket: PathBuf, ledger: &Arc<CrashHistory>, dice: StdRng) -> Self {
        Self {
            number,
            socket,
            ledger: Arc::clone(ledger),
            dice,
            wire: watch::channel(None).0,
        }
    }

    /// Works for ever.
    pub(super) async fn work(mut self) -> Infallible {
        let mut jobs = JoinSet::new();
        let mut open = HashSet::new();
        loop {
            let mut wire = connect_grpc(&self.socket, &self.ledger).await;
            let request = v1::SubscribeIncomingTasksRequest::default();
            match wire.rpc.subscribe_incoming_tasks(request).await {
                Ok(answer) => {
                    self.wire.send_replace(Some(wire.clone()));
                    self.listen(&wire, answer.into_inner(), &mut jobs, &mut open)
                        .await;
                    self.wire.send_replace(None);
                }
                Err(status) => assert!(is_connection_lost(&status), "SubscribeIncomingTasks: {status}"),
            }
        }
    }

    /// Takes tasks until the connection is lost, or left.
    async fn listen(
        &mut self,
        wire: &GrpcConnection,
        mut incoming: Streaming<v1::SubscribeIncomingTasksResponse>,
        jobs: &mut JoinSet<String>,
        open: &mut HashSet<String>,
    ) {
        loop {
            let event = tokio::select! {
                Some(done) = jobs.join_next() => {
                    let id = done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
                    open.remove(&id);
                    continue;
                }
                event = incoming.message() => event,
            };
            let Ok(Some(event)) = event else { return };
            let task = event.task.unwrap();
            let new = self
                .ledger
                .handed(&task.task_id, task.status(), self.number, wire);
            // It may come again while the claim is being repeated.
            if new && open.insert(task.task_id.clone()) {
                jobs.spawn(self.job(task, wire.life).run());
            }
            if self.dice.random_ratio(1, LEAVES) {
                self.ledger.closes(wire);
                return;
            }
        }
    }

    fn job(&mut self, task: v1::Task, life: i32) -> BareAgentJob {
        let steps = self.dice.random_range(0..3);
        BareAgentJob {
            agent: self.number,
            ledger: Arc::clone(&self.ledger),
            wire: self.wire.subscribe(),
            life,
            id: task.task_id,
            result: answer(&task.metadata[NUMBER]),
            pauses: (0..=steps)
                .map(|_| Duration::from_millis(self.dice.random_range(0..THINKS)))
                .collect(),
        }
    }
}

/// One task in the hands of a bare agent.
struct BareAgentJob {
    agent: usize,
    ledger: Arc<CrashHistory>,
    wire: watch::Receiver<Option<GrpcConnection>>,
    /// The process that has handed it over.
    life: i32,
    id: String,
    result: String,
    /// Before the first report of progress, the second …, the end.
    pauses: Vec<Duration>,
}

/// What the daemon answered.
struct DaemonReply<T> {
    outcome: Result<T, Status>,
    /// Where.
    wire: GrpcConnection,
    /// An earlier attempt got no answer, and may have taken effect.
    repeated: bool,
}

impl BareAgentJob {
    /// Claims the task, does it, ends it; its id.
    async fn run(mut self) -> String {
        self.work().await;
        self.id
    }

    async fn work(&mut self) {
        let id = self.id.clone();
        let claim = loop {
            let claim =
                self.call(|mut rpc, id| async move { rpc::update(&mut rpc, &id, TaskStatus::Working).await });
            let claim = claim.await;
            let is_unknown = matches!(&claim.outcome, Err(status) if status.code() == Code::NotFound);
            if !is_unknown || claim.wire.life == self.life {
                break claim;
            }
            // It was handed over before it was durable, by a daemon that has died since: it comes again.
            tokio::time::sleep(COMES_AGAIN).await;
        };
        match claim.outcome {
            Ok(()) => self.ledger.claimed(&id, self.agent, &claim.wire, claim.repeated),
            // Somebody else's, or over.
            Err(status) if status.code() == Code::FailedPrecondition => return,
            Err(status) => panic!("the claim of {id}: {status}"),
        }
        let pauses = std::mem::take(&mut self.pauses);
        let (last, steps) = pauses.split_last().unwrap();
        for pause in steps {
            tokio::time::sleep(*pause).await;
            self.report().await;
        }
        tokio::time::sleep(*last).await;
        self.end().await;
    }

    /// Reports progress.
    async fn report(&mut self) {
        // The same one until there is an answer: the one without may be there, and is not to be there twice.
        let mut message = rpc::text("going on");
        message.set_role(v1::MessageRole::Agent);
        let said = message.message_id.clone();
        let report = self.call(|mut rpc, id| {
            let message = message.clone();
            async move { rpc::say(&mut rpc, &id, TaskStatus::Working, message).await }
        });
        let report = report.await;
        match report.outcome {
            Ok(()) => self.ledger.reported(&self.id, &said),
            // For the daemon the claim may still be with the connection that this agent has left, or with an
            // agent that claimed again after the daemon died. The end needs no claim.
            Err(status) => self.refused(&status, &report.wire),
        }
    }

    /// Ends the task.
    async fn end(&mut self) {
        let result = self.result.clone();
        let end = self.call(|mut rpc, id| {
            let result = result.clone();
            async move { rpc::complete(&mut rpc, &id, &result).await }
        });
        let end = end.await;
        match end.outcome {
            Ok(()) => return self.ledger.completed(&self.id),
            Err(status) if end.repeated => {
                assert_eq!(status.code(), Code::FailedPrecondition, "{}: {status}", self.id);
            }
            Err(status) => self.refused(&status, &end.wire),
        }
        // The end that got no answer had taken effect, or another agent's had.
        let read = self.call(|mut rpc, id| async move { rpc::get(&mut rpc, &id).await });
        let task = read.await.outcome.unwrap();
        assert_eq!(task.status(), TaskStatus::Completed, "{task:?}");
    }

    /// Not on the connection on which it was claimed.
    fn refused(&self, status: &Status, wire: &GrpcConnection) {
        assert_eq!(status.code(), Code::FailedPrecondition, "{}: {status}", self.id);
        self.ledger.refused(&self.id, self.agent, wire);
    }

    /// Calls until there is an answer.
    async fn call<T, F>(&mut self, mut call: impl FnMut(Rpc, String) -> F) -> DaemonReply<T>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut broken = 0;
        loop {
            let newer =
                |wire: &Option<GrpcConnection>| wire.as_ref().is_some_and(|wire| wire.opened > broken);
            let wire = self.wire.wait_for(newer).await.unwrap().clone().unwrap();
            match call(wire.rpc.clone(), self.id.clone()).await {
                Err(status) if is_connection_lost(&status) => broken = wire.opened,
                outcome => {
                    return DaemonReply {
                        outcome,
                        repeated: broken > 0,
                        wire,
                    };
                }
            }
        }
    }
}
