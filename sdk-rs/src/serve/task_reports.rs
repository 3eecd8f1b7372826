//! The calls by which an agent moves its task on. Each may be made again after a lost answer: when the
//! daemon then refuses the change, the task tells whether the first attempt did it.

use std::time::Duration;

use agentanycast_proto::v1;

use crate::{
    error::{Error, ErrorKind, Subject},
    message::{Artifact, Message},
    node::Node,
    session::{Backoff, CallFailure, TaskCall},
    task::{Task, TaskStatus},
    task_handle::get_task,
};

/// How long a refused claim is made again after one without an answer: the time in which a daemon notices that
/// a connection is gone.
const CLAIM_RETRY_LIMIT: Duration = Duration::from_secs(2);

/// Claims a new task: the first to say WORKING has it. When a claim got no answer, it is made again. A daemon
/// that was restarted, or has noticed that our connection was lost, then says OK even if the first one had
/// taken effect. A refusal means that another agent has the task, or that the daemon still believes in our
/// lost connection; only the latter passes. Whether an earlier claim got no answer is `in_doubt`; says the same for the next.
pub(super) async fn claim(node: &Node, id: &str, in_doubt: bool) -> (Result<(), Error>, bool) {
    claim_as(node, id, ClaimKind::Automatic, in_doubt).await
}

/// Says that the handler of a claimed task still runs, on a connection that the claim was not made on. It is a report of
/// the agent, so the daemon neither counts the loss of the former connection for the task again nor hands it out again.
pub(super) async fn renew_claim(node: &Node, id: &str) -> Result<(), Error> {
    claim_as(node, id, ClaimKind::Working, true).await.0
}

/// Says that the agent begins work that must not be done twice.
pub(super) async fn begin(node: &Node, id: &str) -> Result<(), Error> {
    claim_as(node, id, ClaimKind::Begun, true).await.0
}

/// UpdateTaskStatus by which a task is given back; as [`change`].
async fn hand_back(node: &Node, id: &str) -> (Result<(), Error>, bool) {
    let request = v1::UpdateTaskStatusRequest {
        give_back: true,
        ..state(id, TaskStatus::Submitted, None)
    };
    change(node, request).await
}

/// Gives a task back that is claimed.
pub(super) async fn give_back(node: &Node, id: &str) -> Result<(), Error> {
    match hand_back(node, id).await {
        // An earlier attempt may have done it: then another agent may have the task since.
        (Err(error), true) if error.kind() == ErrorKind::Conflict => match renew_claim(node, id).await {
            Ok(()) => Err(error),
            Err(_) => Ok(()),
        },
        (answer, _) => answer,
    }
}

/// Gives a task back that was handed over and is not claimed. A daemon of an older version refuses: the task stays with this
/// process until its stream of tasks ends.
pub(super) async fn pass_on(node: &Node, id: &str) {
    if let (Err(error), _) = hand_back(node, id).await {
        tracing::debug!(task = id, %error, "a task is not passed on");
    }
}

/// How WORKING is said without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimKind {
    /// Before the agent itself has said anything.
    Automatic,
    /// The agent works on it.
    Working,
    /// The agent begins work that must not be done twice.
    Begun,
}

async fn claim_as(node: &Node, id: &str, kind: ClaimKind, mut in_doubt: bool) -> (Result<(), Error>, bool) {
    let mut backoff = Backoff::new(Some(CLAIM_RETRY_LIMIT));
    loop {
        let request = v1::UpdateTaskStatusRequest {
            automatic: kind == ClaimKind::Automatic,
            begun: kind == ClaimKind::Begun,
            ..state(id, TaskStatus::Working, None)
        };
        let (answer, unanswered) = change(node, request).await;
        let Err(error) = answer else {
            return (answer, false);
        };
        in_doubt |= unanswered || error.kind() == ErrorKind::Timeout;
        if !in_doubt || error.kind() != ErrorKind::Conflict {
            return (Err(error), in_doubt);
        }
        match get_task(node, id).await {
            Ok(task) if task.status != TaskStatus::Working => return (Err(error), in_doubt),
            Ok(_) if backoff.pause().await => {}
            Ok(_) => return (Err(error), in_doubt),
            Err(error) => return (Err(error), in_doubt),
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
    let said = message.as_ref().map(|message| message.id.clone());
    let answer = change(node, state(id, status, message)).await;
    settle(node, id, answer, |task| match &said {
        // Another agent that has the task since may have brought it into the same state: the message tells whose report it was.
        Some(said) => task.messages.iter().any(|known| known.id == *said),
        None => task.status == status,
    })
    .await
}

fn state(id: &str, status: TaskStatus, message: Option<Message>) -> v1::UpdateTaskStatusRequest {
    v1::UpdateTaskStatusRequest {
        task_id: id.to_owned(),
        status: status.into(),
        message: message.map(v1::Message::from),
        ..v1::UpdateTaskStatusRequest::default()
    }
}

/// UpdateTaskStatus; also says whether an earlier attempt may have taken effect unanswered.
async fn change(node: &Node, request: v1::UpdateTaskStatusRequest) -> (Result<(), Error>, bool) {
    let (answer, unanswered) = node.session().task_call_with_doubt(Subject::Task, &request).await;
    (answer.map(drop), unanswered)
}

/// The request of an end.
pub(super) trait EndRequest: TaskCall {
    /// Whether the daemon is to refuse it while another agent's claim stands.
    fn set_unclaimed(&mut self, unclaimed: bool);
}

impl EndRequest for v1::CompleteTaskRequest {
    fn set_unclaimed(&mut self, unclaimed: bool) {
        self.unclaimed = unclaimed;
    }
}

impl EndRequest for v1::FailTaskRequest {
    fn set_unclaimed(&mut self, unclaimed: bool) {
        self.unclaimed = unclaimed;
    }
}

/// The end of a task, as it is reported.
pub(super) struct TaskEnd<C> {
    id: String,
    request: C,
    /// How the task stands after it.
    status: TaskStatus,
}

pub(super) fn complete(
    id: &str,
    artifacts: Vec<Artifact>,
    message: Option<Message>,
) -> TaskEnd<v1::CompleteTaskRequest> {
    let request = v1::CompleteTaskRequest {
        task_id: id.to_owned(),
        artifacts: artifacts.into_iter().map(Into::into).collect(),
        message: message.map(Into::into),
        unclaimed: false,
    };
    TaskEnd {
        id: id.to_owned(),
        request,
        status: TaskStatus::Completed,
    }
}

pub(super) fn fail(id: &str, reason: &str) -> TaskEnd<v1::FailTaskRequest> {
    let request = v1::FailTaskRequest {
        task_id: id.to_owned(),
        error_message: reason.to_owned(),
        unclaimed: false,
    };
    TaskEnd {
        id: id.to_owned(),
        request,
        status: TaskStatus::Failed,
    }
}

impl<C: EndRequest> TaskEnd<C> {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Reports it, of a task that is claimed, until it is answered; also says whether an earlier attempt may have taken
    /// effect unanswered.
    pub(super) async fn report(&mut self, node: &Node) -> (Result<(), Error>, bool) {
        self.request.set_unclaimed(false);
        let (answer, unanswered) = node
            .session()
            .task_call_with_doubt(Subject::Task, &self.request)
            .await;
        (answer.map(drop), unanswered)
    }

    /// Reports it once, of a task that is not claimed, if it is still `wanted` when there is a way to the daemon.
    pub(super) async fn report_once(
        &mut self,
        node: &Node,
        wanted: impl Fn() -> bool,
    ) -> Result<(), CallFailure> {
        self.request.set_unclaimed(true);
        let session = node.session();
        session
            .task_call_once(Subject::Task, &self.request, wanted)
            .await
            .map(drop)
    }

    /// Resolves a refusal after a lost answer.
    pub(super) async fn settle(&self, node: &Node, answer: (Result<(), Error>, bool)) -> Result<(), Error> {
        settle(node, &self.id, answer, |task| task.status == self.status).await
    }
}

/// Resolves a refusal after a lost answer: `is_done` says whether the task shows that the first attempt did it.
async fn settle(
    node: &Node,
    id: &str,
    answer: (Result<(), Error>, bool),
    is_done: impl FnOnce(&Task) -> bool,
) -> Result<(), Error> {
    match answer {
        (Err(error), true) if error.kind() == ErrorKind::Conflict => {
            let task = Box::pin(get_task(node, id)).await?;
            if is_done(&task) { Ok(()) } else { Err(error) }
        }
        (answer, _) => answer,
    }
}
