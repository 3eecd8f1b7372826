//! The calls that move one task. Translate, ask the engine, translate back; nothing is decided here.

use agentanycast_core::task::{self, MAX_ID, Task};
use agentanycast_core::{SEALED_NEEDS_URL, SendTask, WaitResult, WaitUntil};
use agentanycast_identity::PeerId;
use agentanycast_proto::v1::{
    self, CancelTaskRequest, CompleteTaskRequest, FailTaskRequest, GetTaskRequest, SendTaskRequest,
    UpdateTaskStatusRequest, send_task_request::Target,
};

use super::{
    Caller, Service, ServiceError, ServiceErrorKind, ServiceResult, peer_of, task_list::group_of, task_notes,
};

/// Whether this is a message for a task that there is.
pub(crate) fn is_follow_up(request: &SendTaskRequest) -> bool {
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
fn read_request(request: SendTaskRequest) -> ServiceResult<SendTask> {
    let sealed_for = match request.sealed_for.as_str() {
        "" => None,
        text => Some(peer_of(text)?),
    };
    let message = request
        .message
        .ok_or_else(|| ServiceError::invalid("the task has no message"))?;
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

impl Service {
    /// SendTask.
    pub(crate) async fn send_task(
        &self,
        request: SendTaskRequest,
        caller: &Caller,
    ) -> ServiceResult<v1::Task> {
        let brief = request.brief;
        let task = match self.plan_send(request, caller.connection).await? {
            SendPlan::New(sent) => self.engine().send_task(sent).await?,
            SendPlan::AlreadySent(task) => task,
        };
        Ok(if brief {
            self.fit_task_head(&task, caller.max_answer)
        } else {
            Box::pin(self.fit_task(&task, caller.max_answer)).await
        })
    }

    /// Sends a task, and waits for its end; tells its id, and no wait if nobody else may wait for it.
    pub(crate) async fn run_task(
        &self,
        request: SendTaskRequest,
        caller: &Caller,
    ) -> ServiceResult<(String, Option<WaitResult>)> {
        match self.plan_send(request, caller.connection).await? {
            SendPlan::New(sent) => Ok(self.engine().run_task(sent).await?),
            SendPlan::AlreadySent(task) => {
                let id = task.id.clone();
                drop(task); // It is not held meanwhile.
                let wait = self.engine().wait(id.clone(), WaitUntil::End).await;
                Ok((id, wait.ok()))
            }
        }
    }

    /// What a request asks for, with the peers that it is for.
    async fn plan_send(&self, mut request: SendTaskRequest, connection: u64) -> ServiceResult<SendPlan> {
        let whom = self.take_target(&mut request)?;
        let skill_of_peer = std::mem::take(&mut request.skill_of_peer);
        let mut sent = Box::new(read_request(request)?);
        sent.sender = Some(connection);
        if !sent.target_agent.is_empty() && matches!(whom, TaskTarget::Skill(_) | TaskTarget::Url(_)) {
            return Err(ServiceError::invalid(
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
    fn take_target(&self, request: &mut SendTaskRequest) -> ServiceResult<TaskTarget> {
        let further = is_follow_up(request);
        if !request.sealed_for.is_empty() && !further && !matches!(request.target, Some(Target::Url(_))) {
            // The engine says the same, once an agent with the skill was looked for.
            return Err(ServiceError::invalid(SEALED_NEEDS_URL));
        }
        match request.target.take() {
            Some(Target::PeerId(text)) => peer_of(&text).map(TaskTarget::Peer),
            // An answer goes where its task is, whatever skill that was sent for.
            Some(Target::SkillId(_)) | None if further => Ok(TaskTarget::ExistingTask),
            Some(Target::SkillId(skill)) if skill.is_empty() => {
                Err(ServiceError::invalid("skill_id is empty"))
            }
            Some(Target::SkillId(skill)) if skill.len() > MAX_ID => Err(ServiceError::invalid(format!(
                "skill_id has {} bytes, it may have {MAX_ID}",
                skill.len()
            ))),
            Some(Target::SkillId(skill)) => Ok(TaskTarget::Skill(skill)),
            Some(Target::Url(text)) => match &self.node.limits.no_outbound {
                Some(why) => Err(ServiceError::new(ServiceErrorKind::Conflict, why)),
                None if text.is_empty() => Err(ServiceError::invalid("url is empty")),
                None => Ok(TaskTarget::Url(text)),
            },
            None => Err(ServiceError::invalid(
                "the task has no target: set peer_id, skill_id or url",
            )),
        }
    }

    /// Names the peers that a task for a skill goes to; or gives the task that was sent with the same idempotency key.
    async fn find_candidates(&self, skill: String, sent: &mut SendTask) -> ServiceResult<Option<Task>> {
        // Whoever can do it now has nothing to do with a task that was sent before.
        if let Some(task) = self.find_by_idempotency_key(sent).await? {
            return Ok(Some(task));
        }
        let local = self
            .engine()
            .local_agents_with(skill.clone(), sent.sender, sent.is_of_stranger())
            .await?;
        let me = self.engine().me();
        let mut candidates = if local.is_some() && self.node.limits.prefer_local {
            vec![me]
        } else {
            match self.anycast().candidates(&skill).await {
                Ok(candidates) => candidates,
                Err(_) if local.is_some() => vec![me],
                Err(error) if sent.is_of_stranger() => return Err(error.without_hint().into()),
                Err(error) => return Err(error.into()),
            }
        };
        sent.peer = Some(candidates.remove(0));
        sent.others = Some(candidates);
        sent.skill = skill;
        Ok(None)
    }

    /// The task that was sent with the same idempotency key.
    async fn find_by_idempotency_key(&self, sent: &SendTask) -> ServiceResult<Option<Task>> {
        let in_metadata = sent.metadata.get("idempotency_key");
        let key = Some(&sent.idempotency_key)
            .filter(|key| !key.is_empty())
            .or(in_metadata);
        let Some(key) = key.cloned() else {
            return Ok(None);
        };
        Ok(self.engine().task_by_idempotency_key(key).await?)
    }

    /// GetTask.
    pub(crate) async fn get_task(&self, request: GetTaskRequest, caller: &Caller) -> ServiceResult<v1::Task> {
        let task = self.engine().task(request.task_id).await?;
        Ok(self.fit_task(&task, caller.max_answer).await)
    }

    /// CancelTask.
    pub(crate) async fn cancel_task(
        &self,
        request: CancelTaskRequest,
        caller: &Caller,
    ) -> ServiceResult<v1::Task> {
        let task = self.engine().cancel(request.task_id).await?;
        Ok(self.fit_task(&task, caller.max_answer).await)
    }

    /// UpdateTaskStatus.
    pub(crate) async fn update_task_status(
        &self,
        request: UpdateTaskStatusRequest,
        caller: &Caller,
    ) -> ServiceResult<()> {
        let next = task::Status::from_wire(request.status).ok_or_else(|| {
            ServiceError::invalid(format!("status {} is none that a task can have", request.status))
        })?;
        let is_claim = next == task::Status::Working && request.message.is_none();
        let is_given_back = next == task::Status::Submitted && request.message.is_none();
        let (engine, id, connection) = (self.engine(), request.task_id, caller.connection);
        let updated = if is_given_back && request.give_back {
            engine.give_back(id, connection).await
        } else if is_claim && request.automatic {
            engine.claim_for_agent(id, connection).await
        } else if is_claim && request.begun {
            engine.begin(id, connection).await
        } else {
            engine.update(id, next, request.message, connection).await
        };
        updated.map_err(ServiceError::while_away)
    }

    /// CompleteTask.
    pub(crate) async fn complete_task(
        &self,
        request: CompleteTaskRequest,
        caller: &Caller,
    ) -> ServiceResult<()> {
        let (connection, unclaimed) = (caller.connection, request.unclaimed.then_some(caller.connection));
        let (id, artifacts, message) = (request.task_id, request.artifacts, request.message);
        let completed = self
            .engine()
            .complete(id, artifacts, message, unclaimed, connection)
            .await;
        completed.map_err(ServiceError::while_away)
    }

    /// FailTask.
    pub(crate) async fn fail_task(&self, request: FailTaskRequest, caller: &Caller) -> ServiceResult<()> {
        let (connection, unclaimed) = (caller.connection, request.unclaimed.then_some(caller.connection));
        let failed = self
            .engine()
            .fail(request.task_id, request.error_message, unclaimed, connection)
            .await;
        failed.map_err(ServiceError::while_away)
    }
}
