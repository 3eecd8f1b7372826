//! The calls by which an agent moves its task on. Each may be made again after a lost answer: when the
//! daemon then refuses the change, the task tells whether the first attempt did it.

use std::time::Duration;

use agentanycast_proto::v1;

use crate::{
    error::{Error, ErrorKind, Subject},
    handle::get_task,
    message::{Artifact, Message},
    node::Node,
    serve::board::Outcome,
    session::Backoff,
    task::TaskStatus,
};

/// How long a refused claim is made again after one without an answer: the time in which a daemon notices that
/// a connection is gone.
const DOUBT: Duration = Duration::from_secs(2);

/// Claims a new task: the first to say WORKING has it. When a claim got no answer, it is made again. A daemon
/// that was restarted, or has noticed that our connection was lost, then says OK even if the first one had
/// taken effect. A refusal means that another agent has the task, or that the daemon still believes in our
/// lost connection; only the latter passes.
pub(super) async fn claim(node: &Node, id: &str) -> Result<(), Error> {
    let mut lost = false;
    let mut backoff = Backoff::new(Some(DOUBT));
    loop {
        let (answer, unanswered) = change(node, id, TaskStatus::Working, None).await;
        lost |= unanswered;
        match answer {
            Err(error) if lost && error.kind() == ErrorKind::Conflict => {
                let open = get_task(node, id).await?.status == TaskStatus::Working;
                if !open || !backoff.pause().await {
                    return Err(error);
                }
            }
            answer => return answer,
        }
    }
}

/// Reports a state with a message.
pub(super) async fn update(
    node: &Node,
    id: &str,
    status: TaskStatus,
    message: Option<Message>,
) -> Result<(), Error> {
    let answer = change(node, id, status, message).await;
    settle(node, id, status, answer).await
}

/// UpdateTaskStatus; also says whether an earlier attempt may have taken effect unanswered.
async fn change(
    node: &Node,
    id: &str,
    status: TaskStatus,
    message: Option<Message>,
) -> (Result<(), Error>, bool) {
    let message = message.map(v1::Message::from);
    let request = v1::UpdateTaskStatusRequest {
        task_id: id.to_owned(),
        status: status.into(),
        message,
    };
    let (answer, unanswered) = node.session().task_call_knowing(Subject::Task, request).await;
    (answer.map(drop), unanswered)
}

pub(super) async fn complete(
    node: &Node,
    id: &str,
    artifacts: Vec<Artifact>,
    message: Option<Message>,
) -> Result<(), Error> {
    let request = v1::CompleteTaskRequest {
        task_id: id.to_owned(),
        artifacts: artifacts.into_iter().map(Into::into).collect(),
        message: message.map(Into::into),
        unclaimed: false,
    };
    let answer = node.session().task_call_knowing(Subject::Task, request).await;
    settle(node, id, TaskStatus::Completed, answer).await
}

pub(super) async fn fail(node: &Node, id: &str, reason: &str) -> Result<(), Error> {
    let request = v1::FailTaskRequest {
        task_id: id.to_owned(),
        error_message: reason.to_owned(),
        unclaimed: false,
    };
    let answer = node.session().task_call_knowing(Subject::Task, request).await;
    settle(node, id, TaskStatus::Failed, answer).await
}

/// Fails a task where nobody can be told that it did not work.
pub(super) async fn fail_quietly(node: &Node, id: &str, reason: &str) -> Outcome {
    let Err(error) = fail(node, id, reason).await else {
        return Outcome::Over;
    };
    // If it is a conflict somebody else was quicker to end it.
    if error.kind() != ErrorKind::Conflict {
        tracing::warn!(task = id, %error, "the task could not be ended as failed");
    }
    Outcome::after(&error)
}

/// Resolves a refusal after a lost answer.
async fn settle<T>(
    node: &Node,
    id: &str,
    wanted: TaskStatus,
    answer: (Result<T, Error>, bool),
) -> Result<(), Error> {
    match answer {
        (Ok(_), _) => Ok(()),
        (Err(error), true) if error.kind() == ErrorKind::Conflict => {
            let task = get_task(node, id).await?;
            if task.status == wanted { Ok(()) } else { Err(error) }
        }
        (Err(error), _) => Err(error),
    }
}
