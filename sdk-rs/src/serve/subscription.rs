//! What the daemon hands over, as one stream over lost connections.

use std::time::Duration;

use agentanycast_proto::v1;
use async_stream::stream;

use crate::{
    box_stream::BoxStream,
    card::AgentCard,
    error::{self, Error, ErrorKind, Subject},
    node::Node,
    serve::{open_tasks::DeliveredTask, task_claim::ConnectionTime},
    session::{Backoff, CallFailure, NodeClient},
    task::Task,
};

/// The agent whose tasks are wanted.
#[derive(Clone)]
pub(super) struct ServedAgent {
    /// How it is registered.
    pub(super) registration: v1::RegisterAgentRequest,
    /// What serves it, for people.
    pub(super) program: Option<v1::AgentProgram>,
}

/// Something from the daemon.
pub(super) enum SubscriptionEvent {
    /// A task: new, further along, or canceled.
    Task(Box<DeliveredTask>),
    /// The subscription was lost: others may be given what was handed over.
    Lost,
    /// It is open again; what happened between was not handed over.
    Resumed,
}

/// Subscribes, and again after each loss, until the daemon has been away for longer than `patience`.
/// With an `agent`: as that one, which is registered each time.
pub(super) fn subscribe_with_retries(
    node: Node,
    agent: Option<ServedAgent>,
    patience: Option<Duration>,
) -> BoxStream<Result<SubscriptionEvent, Error>> {
    Box::pin(stream! {
           let mut backoff = Backoff::new(patience);
           let (mut opened, mut lost) = (false, false);
           loop {
               let loss = match subscribe(&node, agent.as_ref()).await {
                   Ok(mut events) => {
                       if opened {
                           yield Ok(SubscriptionEvent::Resumed);
                       }
                       (opened, lost) = (true, false);
                       let connection = node.session().connections();
                       loop {
                           match events.message().await {
                               Ok(Some(answer)) => {
                                   backoff.reset();
                                   if let Some(task) = translate(answer, connection) {
    yield Ok(SubscriptionEvent::Task(Box::new(task)));
                                   }
                               }
                               Ok(None) => break node.session().unavailable(),
                               Err(status) if error::is_stream_loss(&status) => {
                                   break node.session().unavailable().because(status);
                               }
                               Err(status) => {
                                   yield Err(error::from_status(status, Subject::Node));
                                   return;
                               }
                           }
                       }
                   }
                   Err(error) if matches!(error.kind(), ErrorKind::DaemonUnavailable | ErrorKind::Timeout) => error,
                   Err(error) => {
                       yield Err(error);
                       return;
                   }
               };
               if !lost {
                   lost = true;
                   yield Ok(SubscriptionEvent::Lost);
                   tracing::warn!(error = %loss, "no tasks come in; subscribing again");
               }
               if !backoff.pause().await {
                   yield Err(loss);
                   return;
               }
           }
       })
}

/// Once: how long a lost daemon is waited for is not this call's to say.
async fn subscribe(
    node: &Node,
    agent: Option<&ServedAgent>,
) -> Result<tonic::Streaming<v1::SubscribeIncomingTasksResponse>, Error> {
    let failed = |(CallFailure::Lost(error) | CallFailure::Answered(error))| error;
    let mut name = String::new();
    if let Some(agent) = agent {
        // Each time: the daemon may have lost what it knew, or somebody removed the agent.
        let registration = node.session().current_registration(&agent.registration);
        let registered = node.session().register_agent_once(registration).await;
        name = registered.map_err(failed)?.name;
    }
    let rpc = |mut client: NodeClient, request| async move { client.subscribe_incoming_tasks(request).await };
    node.session()
        .call_once(
            Subject::Node,
            v1::SubscribeIncomingTasksRequest {
                agent: name,
                program: agent.and_then(|agent| agent.program.clone()),
                ends: true,
            },
            rpc,
        )
        .await
        .map_err(failed)
}

/// What was handed over on this connection, translated.
fn translate(answer: v1::SubscribeIncomingTasksResponse, connection: u64) -> Option<DeliveredTask> {
    let task = Task::from(answer.task?);
    let since = answer.exclusive_since.and_then(|since| since.try_into().ok());
    (!task.id.is_empty()).then(|| DeliveredTask {
        task,
        sender_card: answer.sender_card.map(AgentCard::from),
        exclusive_since: since.map(|time| ConnectionTime { time, connection }),
    })
}
