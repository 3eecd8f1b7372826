//! The tasks of an agent, as they are handed to it.

use agentanycast_core::{ListenRequest, wire::timestamp};
use agentanycast_proto::v1::{SubscribeIncomingTasksRequest, SubscribeIncomingTasksResponse};
use futures::Stream;

use super::{Caller, Service, ServiceError, ServiceResult};

impl Service {
    /// Listens for the tasks of an agent, until the stream is dropped; `has_ended` tells then whether the agent has ended.
    /// The engine hands over no more tasks than the stream is asked for.
    pub(crate) async fn subscribe_incoming_tasks<F: Fn() -> bool + Send + Sync + 'static>(
        &self,
        request: SubscribeIncomingTasksRequest,
        caller: &Caller,
        has_ended: F,
    ) -> ServiceResult<impl Stream<Item = ServiceResult<SubscribeIncomingTasksResponse>> + Send + use<F>>
    {
        let SubscribeIncomingTasksRequest { agent, program, ends } = request;
        let (connection, most) = (caller.connection, caller.max_answer);
        let listen = ListenRequest {
            connection: Some(connection),
            caller: caller.key.clone(),
            wants_ends: ends || !agent.is_empty(),
            agent,
        };
        let listening = self.engine().listen(listen, has_ended).await;
        let mut listener = listening.map_err(ServiceError::while_away)?;
        let served = listener.agent().map_or("", |name| name);
        let listed = self
            .programs()
            .listens(served, caller.program(program), caller.is_in_process);
        // The agent may have come with a card; registries need not be waited for.
        let publisher = self.clone();
        tokio::spawn(async move { publisher.publish_if_changed().await });
        let service = self.clone();
        Ok(async_stream::try_stream! {
            let _listed = listed;
            while let Some(incoming) = listener.next().await {
                let card = incoming.sender_card.as_deref();
                let task = match service.fit_task_for_agent(&incoming.task, card, most).await {
                    Ok(task) => task,
                    Err(reason) => {
                        let declined = listener.decline(&incoming.task, connection, reason).await;
                        declined.map_err(ServiceError::while_away)?;
                        continue;
                    }
                };
                let sender_card = incoming.sender_card.map(|card| (*card).clone());
                yield SubscribeIncomingTasksResponse {
                    task: Some(task),
                    sender_card,
                    exclusive_since: incoming.exclusive_since.map(timestamp),
                };
            }
            Err(ServiceError::stopping())?;
        })
    }
}
