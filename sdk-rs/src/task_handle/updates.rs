//! Following a task over lost connections: the daemon sends the current state first on each new
//! subscription, so nothing final is missed; a state that was already seen is not handed out twice.

use agentanycast_proto::v1;
use async_stream::stream;

use crate::{
    box_stream::BoxStream,
    error::{self, Error, Subject},
    node::Node,
    session::NodeClient,
    task::{Task, TaskStatus, TaskUpdate},
    task_handle::{drain, get_task},
};

pub(super) fn updates(node: Node, task_id: String) -> BoxStream<Result<TaskUpdate, Error>> {
    Box::pin(stream! {
        let mut backoff = node.session().backoff();
        let mut last: Option<(TaskStatus, Option<String>)> = None;
        let mut again = false;
        loop {
            let mut events = match subscribe(&node, &task_id, None).await {
                Ok(events) => events,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            };
            let mut first = true;
            let loss = loop {
                let mut update = match events.message().await {
                    Ok(Some(update)) => TaskUpdate::from(update),
                    Ok(None) => break None,
                    Err(status) if error::is_stream_loss(&status) => break Some(status),
                    Err(status) => {
                        yield Err(error::from_status(status, Subject::Task));
                        return;
                    }
                };
                backoff.reset();
                update.resumed = std::mem::take(&mut again);
                if update.status.is_terminal() {
                    drain(&mut events).await;
                    yield Ok(update);
                    return;
                }
                let mark = Some((update.status, update.message.as_ref().map(|message| message.id.clone())));
                let seen = first && mark == last;
                (first, last) = (false, mark);
                if !seen {
                    yield Ok(update);
                }
            };
            tracing::debug!(task = task_id, ?loss, "the updates broke off; subscribing again");
            again = true;
            if !backoff.pause().await {
                yield Err(node.session().unavailable());
                return;
            }
        }
    })
}

/// The task whole, once it has ended or, with `or_input`, asks for input.
pub(super) async fn end(node: &Node, task_id: &str, or_input: bool) -> Result<Task, Error> {
    if let Some(task) = node.session().wait_task(task_id, or_input).await? {
        // A daemon that does not know `or_input` waits for the end, which is over it too.
        return Ok(task.into());
    }
    Box::pin(end_of_subscription(node, task_id, or_input)).await
}

async fn end_of_subscription(node: &Node, task_id: &str, or_input: bool) -> Result<Task, Error> {
    let is_over =
        |status: TaskStatus| status.is_terminal() || (or_input && status == TaskStatus::InputRequired);
    let mut backoff = node.session().backoff();
    loop {
        let mut events = subscribe(node, task_id, Some(or_input)).await?;
        backoff.reset();
        let loss = loop {
            match events.message().await {
                Ok(Some(update)) if is_over(TaskStatus::from(update.status)) => {
                    drain(&mut events).await;
                    // A daemon that does not know `end_only` tells every state, and no whole task.
                    return match update.task {
                        Some(task) => Ok(task.into()),
                        None => get_task(node, task_id).await,
                    };
                }
                Ok(Some(_)) => backoff.reset(),
                Ok(None) => break None,
                Err(status) if error::is_stream_loss(&status) => break Some(status),
                Err(status) => return Err(error::from_status(status, Subject::Task)),
            }
        };
        tracing::debug!(
            task = task_id,
            ?loss,
            "the wait for a task broke off; subscribing again"
        );
        if !backoff.pause().await {
            return Err(node.session().unavailable());
        }
    }
}

/// All changes, or the end alone; then whether a question counts as one.
async fn subscribe(
    node: &Node,
    task_id: &str,
    end_or_input: Option<bool>,
) -> Result<tonic::Streaming<v1::SubscribeTaskUpdatesResponse>, Error> {
    let rpc = |mut client: NodeClient, request| async move { client.subscribe_task_updates(request).await };
    let request = v1::SubscribeTaskUpdatesRequest {
        task_id: task_id.to_owned(),
        end_only: end_or_input.is_some(),
        or_input: end_or_input.unwrap_or_default(),
    };
    node.session().call(Subject::Task, request, rpc).await
}
