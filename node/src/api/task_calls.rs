//! The calls that move one task, as functions from request to response: NodeService and SessionService are two
//! ways to make the same calls. Translate, ask the engine, translate back; nothing is decided here.
//!
//! `most` is the largest message that the caller takes, `connection` the gRPC connection that it is on.

use agentanycast_core::task::{self, MAX_ID, Task};
use agentanycast_core::{SEALED_NEEDS_URL, SendTask, Subscription, WaitResult, WaitUntil};
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    CancelTaskRequest, CancelTaskResponse, CompleteTaskRequest, CompleteTaskResponse, FailTaskRequest,
    FailTaskResponse, GetTaskRequest, GetTaskResponse, SendTaskRequest, SendTaskResponse,
    UpdateTaskStatusRequest, UpdateTaskStatusResponse, send_task_request::Target,
};
use tonic::Status;

use super::{
    Api, peer_of, status_for_asker, status_of, status_of_search, task_list::group_of, task_notes,
    task_updates,
};

/// Whether this is a message for a task that there is.
pub(super) fn is_follow_up(request: &SendTaskRequest) -> bool {
    !request.task_id.is_empty() || request.metadata.contains_key("task_id")
}

/// Whom a task is for.
enum TaskTarget {
    Peer(PeerId),
    /// Anybody with it.
    Skill(String),
    Url(String),
    /// The assignee of a task that there is.
    ExistingTask,
}

/// What a request comes to.
enum SendPlan {
    /// A task, or a message of one.
    New(Box<SendTask>),
    /// Nothing: it was sent before, with the same idempotency key.
    AlreadySent(Box<Task>),
}

/// What is sent, without whom it is for.
fn read_request(request: SendTaskRequest) -> Result<SendTask, Status> {
    let sealed_for = match request.sealed_for.as_str() {
        "" => None,
        text => Some(peer_of(text)?),
    };
    let message = request
        .message
        .ok_or_else(|| Status::invalid_argument("the task has no message"))?;
    Ok(SendTask {
        sealed_for,
        allow_private: request.allow_private,
        message,
        metadata: request.metadata,
        context_id: request.context_id,
        task_id: request.task_id,
        idempotency_key: request.idempotency_key,
        note: request.note.map(task_notes::from_proto),
        group: group_of(&request.group)?,
        target_agent: request.target_agent,
        ..SendTask::default()
    })
}

impl Api {
    /// SendTask.
    pub(super) async fn submit(
        &self,
        request: SendTaskRequest,
        connection: u64,
        most: usize,
    ) -> Result<SendTaskResponse, Status> {
        let brief = request.brief;
        let task = match self.plan_send(request, connection).await? {
            SendPlan::New(sent) => self.engine().send_task(sent).await,
            SendPlan::AlreadySent(task) => Ok(task),
        };
        let task = task.map_err(|error| status_for_asker(&error))?;
        Ok(self.send_response(&task, brief, most).await)
    }

    /// Sends a task, and waits for its end; tells its id, and no wait if nobody else may wait for it.
    pub(super) async fn run(
        &self,
        request: SendTaskRequest,
        connection: u64,
    ) -> Result<(String, Option<WaitResult>), Status> {
        let run = match self.plan_send(request, connection).await? {
            SendPlan::New(sent) => self.engine().run_task(sent).await,
            SendPlan::AlreadySent(task) => {
                let id = task.id.clone();
                drop(task); // It is not held meanwhile.
                let wait = self.engine().wait(id.clone(), WaitUntil::End).await;
                Ok((id, wait.ok()))
            }
        };
        run.map_err(|error| status_for_asker(&error))
    }

    /// What a request asks for, with the peers that it is for.
    async fn plan_send(&self, mut request: SendTaskRequest, connection: u64) -> Result<SendPlan, Status> {
        let whom = self.take_target(&mut request)?;
        let skill_of_peer = std::mem::take(&mut request.skill_of_peer);
        let mut sent = Box::new(read_request(request)?);
        sent.sender = Some(connection);
        if !sent.target_agent.is_empty() && matches!(whom, TaskTarget::Skill(_) | TaskTarget::Url(_)) {
            return Err(Status::invalid_argument(
                "target_agent names an agent of a node: set peer_id too",
            ));
        }
        match whom {
            TaskTarget::Peer(peer) => {
                sent.peer = Some(peer);
                sent.skill = skill_of_peer;
            }
            TaskTarget::Url(url) => sent.url = url,
            TaskTarget::ExistingTask => {}
            TaskTarget::Skill(skill) => {
                // Boxed, as what follows is where it is rare: a call that has none should not carry the room for it.
                if let Some(task) = Box::pin(self.find_candidates(skill, &mut sent)).await? {
                    return Ok(SendPlan::AlreadySent(Box::new(task)));
                }
            }
        }
        Ok(SendPlan::New(sent))
    }

    /// Whom a task is for; takes that out of the request.
    fn take_target(&self, request: &mut SendTaskRequest) -> Result<TaskTarget, Status> {
        let further = is_follow_up(request);
        if !request.sealed_for.is_empty() && !further && !matches!(request.target, Some(Target::Url(_))) {
            // The engine says the same, once an agent with the skill was looked for.
            return Err(Status::invalid_argument(SEALED_NEEDS_URL));
        }
        match request.target.take() {
            Some(Target::PeerId(text)) => peer_of(&text).map(TaskTarget::Peer),
            // An answer goes where its task is, whatever skill that was sent for.
            Some(Target::SkillId(_)) | None if further => Ok(TaskTarget::ExistingTask),
            Some(Target::SkillId(skill)) if skill.is_empty() => {
                Err(Status::invalid_argument("skill_id is empty"))
            }
            Some(Target::SkillId(skill)) if skill.len() > MAX_ID => Err(Status::invalid_argument(format!(
                "skill_id has {} bytes, it may have {MAX_ID}",
                skill.len()
            ))),
            Some(Target::SkillId(skill)) => Ok(TaskTarget::Skill(skill)),
            Some(Target::Url(text)) => match &self.node.limits.no_outbound {
                Some(why) => Err(Status::failed_precondition(why)),
                None if text.is_empty() => Err(Status::invalid_argument("url is empty")),
                None => Ok(TaskTarget::Url(text)),
            },
            None => Err(Status::invalid_argument(
                "the task has no target: set peer_id, skill_id or url",
            )),
        }
    }

    /// Names the peers that a task for a skill goes to; or gives the task that was sent with the same idempotency key.
    async fn find_candidates(&self, skill: String, sent: &mut SendTask) -> Result<Option<Task>, Status> {
        // Whoever can do it now has nothing to do with a task that was sent before.
        if let Some(task) = self.find_by_idempotency_key(sent).await? {
            return Ok(Some(task));
        }
        let local = self
            .engine()
            .local_agents_with(skill.clone(), sent.sender, sent.is_of_stranger())
            .await;
        let local = local.map_err(|error| status_for_asker(&error))?;
        let me = self.engine().me();
        let mut candidates = if local.is_some() && self.node.limits.prefer_local {
            vec![me]
        } else {
            match self.anycast().candidates(&skill).await {
                Ok(candidates) => candidates,
                Err(_) if local.is_some() => vec![me],
                Err(error) if sent.is_of_stranger() => return Err(status_of_search(&error.without_hint())),
                Err(error) => return Err(status_of_search(&error)),
            }
        };
        sent.peer = Some(candidates.remove(0));
        sent.others = Some(candidates);
        sent.skill = skill;
        Ok(None)
    }

    async fn send_response(&self, task: &Task, brief: bool, most: usize) -> SendTaskResponse {
        let task = if brief {
            self.fit_task_head(task, most)
        } else {
            Box::pin(self.fit_task(task, most)).await
        };
        SendTaskResponse { task: Some(task) }
    }

    /// The task that was sent with the same idempotency key.
    async fn find_by_idempotency_key(&self, sent: &SendTask) -> Result<Option<Task>, Status> {
        let in_metadata = sent.metadata.get("idempotency_key");
        let key = Some(&sent.idempotency_key)
            .filter(|key| !key.is_empty())
            .or(in_metadata);
        let Some(key) = key.cloned() else {
            return Ok(None);
        };
        let known = self.engine().task_by_idempotency_key(key).await;
        known.map_err(|error| status_for_asker(&error))
    }

    /// GetTask.
    pub(super) async fn read(&self, request: GetTaskRequest, most: usize) -> Result<GetTaskResponse, Status> {
        let task = self.engine().task(request.task_id).await;
        let task = task.map_err(|error| status_for_asker(&error))?;
        Ok(GetTaskResponse {
            task: Some(self.fit_task(&task, most).await),
        })
    }

    /// CancelTask.
    pub(super) async fn cancel(
        &self,
        request: CancelTaskRequest,
        most: usize,
    ) -> Result<CancelTaskResponse, Status> {
        let task = self.engine().cancel(request.task_id).await;
        let task = task.map_err(|error| status_for_asker(&error))?;
        Ok(CancelTaskResponse {
            task: Some(self.fit_task(&task, most).await),
        })
    }

    /// UpdateTaskStatus.
    pub(super) async fn update(
        &self,
        request: UpdateTaskStatusRequest,
        connection: u64,
    ) -> Result<UpdateTaskStatusResponse, Status> {
        let next = task::Status::from_wire(request.status).ok_or_else(|| {
            Status::invalid_argument(format!("status {} is none that a task can have", request.status))
        })?;
        let is_claim = next == task::Status::Working && request.message.is_none();
        let is_given_back = next == task::Status::Submitted && request.message.is_none();
        let updated = if is_given_back && request.give_back {
            self.engine().give_back(request.task_id, connection).await
        } else if is_claim && request.automatic {
            self.engine().claim_for_agent(request.task_id, connection).await
        } else if is_claim && request.begun {
            self.engine().begin(request.task_id, connection).await
        } else {
            self.engine()
                .update(request.task_id, next, request.message, connection)
                .await
        };
        updated.map_err(|error| status_of(&error))?;
        Ok(UpdateTaskStatusResponse {})
    }

    /// CompleteTask.
    pub(super) async fn complete(
        &self,
        request: CompleteTaskRequest,
        connection: u64,
    ) -> Result<CompleteTaskResponse, Status> {
        let unclaimed = request.unclaimed.then_some(connection);
        self.engine()
            .complete(
                request.task_id,
                request.artifacts,
                request.message,
                unclaimed,
                connection,
            )
            .await
            .map_err(|error| status_of(&error))?;
        Ok(CompleteTaskResponse {})
    }

    /// FailTask.
    pub(super) async fn fail(
        &self,
        request: FailTaskRequest,
        connection: u64,
    ) -> Result<FailTaskResponse, Status> {
        let unclaimed = request.unclaimed.then_some(connection);
        self.engine()
            .fail(request.task_id, request.error_message, unclaimed, connection)
            .await
            .map_err(|error| status_of(&error))?;
        Ok(FailTaskResponse {})
    }

    /// Waits for a task.
    pub(super) async fn wait(&self, task_id: String, or_input: bool) -> Result<WaitResult, Status> {
        let wait = self.engine().wait(task_id, task_updates::until(or_input)).await;
        wait.map_err(|error| status_of(&error))
    }

    /// The task as it is, and its changes from then on.
    pub(super) async fn follow(&self, task_id: String) -> Result<(Task, Subscription), Status> {
        let followed = self.engine().subscribe(task_id).await;
        followed.map_err(|error| status_of(&error))
    }
}
