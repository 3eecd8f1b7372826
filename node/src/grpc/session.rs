//! SessionService: many calls on one stream. Each call is what NodeService makes of it; here it is begun, bounded and
//! answered, nothing else.
//!
//! A session is one stream of answers that is polled by the gRPC library when there is room to send: it reads the next
//! request only then, and only below its bounds. So whoever does not read its answers is not read either. Calls begin in
//! the order of their requests, because each is polled before the next is read; answers leave as they are ready.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use agentanycast_core::task::Task;
use agentanycast_core::{EndReceiver, WaitResult};
use agentanycast_proto::{
    MAX_GRPC_MESSAGE,
    v1::{
        self, CancelTaskResponse, CompleteTaskResponse, FailTaskResponse, GetTaskRequest, GetTaskResponse,
        SendTaskRequest, SendTaskResponse, SessionRequest, SessionResponse, UpdateTaskStatusResponse,
        session_request::Call, session_response::Answer, session_service_server::SessionService,
    },
};
use futures::{Stream, StreamExt as _, stream::FuturesUnordered};
use prost::Message as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::unconstrained,
};
use tonic::{Code, Request, Response, Status, Streaming};

use super::{GrpcFace, ResponseStream, caller::caller_of, size_errors};
use crate::service::{Caller, Service, ServiceError, is_follow_up};

/// Calls in progress, besides waits: more than that wait for one barrier hardly make it cheaper.
const MAX_CALLS: usize = 256;

/// Calls in progress whose answer is a whole task, ends of waits among them: what a client that does not read its
/// answers can make us hold, in tasks.
const MAX_FULL_TASKS: usize = 64;

/// Bytes of requests in progress; a single one may be larger.
const MAX_BYTES: usize = 64 << 20;

/// Open waits: as many as a connection may have streams. One takes a few KiB.
const MAX_WAITS: usize = 4096;

/// How long after its acceptance a task that is run is answered with its end.
const RUN_INLINE_WAIT: Duration = Duration::from_secs(1);

/// Requests that are begun before other sessions have their turn.
const BURST: usize = 128;

#[tonic::async_trait]
impl SessionService for GrpcFace {
    type SessionStream = ResponseStream<SessionResponse>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let task_permits = Arc::new(Semaphore::new(MAX_FULL_TASKS));
        let calls = Arc::new(SessionCalls {
            caller: caller_of(&request),
            service: self.service.clone(),
            task_permits: Arc::clone(&task_permits),
        });
        // A call that gave way to other tasks before it reached the engine would be overtaken; a session as a whole
        // gives way after each burst.
        let run = move |work| unconstrained(run(Arc::clone(&calls), work));
        let session = Session {
            requests: request.into_inner(),
            held: None,
            closed: false,
            end: None,
            last: 0,
            calls: FuturesUnordered::new(),
            run,
            progress: LoadCounter::default(),
            waits: HashMap::new(),
            task_permits,
            begun: 0,
        };
        session.calls.push((session.run)(SessionWork::UntilStopped));
        Ok(Response::new(Box::pin(session)))
    }
}

/// The node, and who calls it.
struct SessionCalls {
    service: Service,
    caller: Caller,
    task_permits: Arc<Semaphore>,
}

/// Room for one whole task, kept until the answer is handed on.
type TaskPermit = OwnedSemaphorePermit;

/// A whole task as an answer, with the room that it takes.
type FullTask = (GetTaskResponse, Option<TaskPermit>);

/// What a session does at the same time.
enum SessionWork {
    Call {
        id: u64,
        load: LoadGuard,
        call: Box<Call>,
        room: Option<TaskPermit>,
    },
    Wait {
        id: u64,
        task: GetTaskRequest,
        room: TaskPermit,
        unwanted: oneshot::Receiver<()>,
    },
    /// A call until the task is accepted, then a wait.
    Run {
        id: u64,
        task: Box<SendTaskRequest>,
        load: LoadGuard,
        unwanted: oneshot::Receiver<()>,
    },
    UntilStopped,
}

/// What has been done.
enum FinishedWork {
    Call {
        id: u64,
        answer: Result<Answer, Status>,
        /// Held until the answer is handed on.
        _held: (LoadGuard, Option<TaskPermit>),
    },
    Wait {
        id: u64,
        answer: Result<(Answer, Option<TaskPermit>), Status>,
    },
    Stopped,
}

async fn run(calls: Arc<SessionCalls>, work: SessionWork) -> FinishedWork {
    match work {
        SessionWork::Call { id, load, call, room } => FinishedWork::Call {
            id,
            answer: answer(&calls, *call).await,
            _held: (load, room),
        },
        SessionWork::Wait {
            id,
            task,
            room,
            unwanted,
        } => {
            let wait = wait_or_cancel(unwanted, wait(&calls, task, room)).await;
            let answer = wait.map(|(answer, room)| (Answer::WaitTask(answer), room));
            FinishedWork::Wait { id, answer }
        }
        SessionWork::Run {
            id,
            task,
            load,
            unwanted,
        } => {
            let run = run_task(&calls, *task, load, unwanted).await;
            let answer = run.map(|(answer, room)| (Answer::RunTask(answer), room));
            FinishedWork::Wait { id, answer }
        }
        SessionWork::UntilStopped => {
            calls.service.engine().stopped().await;
            FinishedWork::Stopped
        }
    }
}

async fn answer(calls: &SessionCalls, call: Call) -> Result<Answer, Status> {
    let SessionCalls { service, caller, .. } = calls;
    Ok(match call {
        Call::SendTask(request) => {
            let task = Some(service.send_task(request, caller).await?);
            Answer::SendTask(SendTaskResponse { task })
        }
        // Boxed: every call carries the room for the largest of them.
        Call::GetTask(request) => {
            let task = Some(Box::pin(service.get_task(request, caller)).await?);
            Answer::GetTask(GetTaskResponse { task })
        }
        Call::CancelTask(request) => {
            let task = Some(Box::pin(service.cancel_task(request, caller)).await?);
            Answer::CancelTask(CancelTaskResponse { task })
        }
        Call::UpdateTaskStatus(request) => {
            service.update_task_status(request, caller).await?;
            Answer::UpdateTaskStatus(UpdateTaskStatusResponse {})
        }
        Call::CompleteTask(request) => {
            service.complete_task(request, caller).await?;
            Answer::CompleteTask(CompleteTaskResponse {})
        }
        Call::FailTask(request) => {
            service.fail_task(request, caller).await?;
            Answer::FailTask(FailTaskResponse {})
        }
        // These are begun otherwise.
        Call::WaitTask(_) | Call::RunTask(_) | Call::CancelCall(_) => {
            return Err(Status::internal("no such call"));
        }
    })
}

/// The task, once its wait is over. Until there is room for its answer no more of it is held than a few KiB.
async fn wait(calls: &SessionCalls, request: GetTaskRequest, room: TaskPermit) -> Result<FullTask, Status> {
    let wait = calls.service.wait_task(request.task_id.clone(), request.or_input);
    match wait.await? {
        WaitResult::Ended(task) => Ok(full_task(calls, &task, Some(room)).await),
        WaitResult::Pending(over) => {
            drop(room);
            wait_for_end(calls, request, over).await
        }
    }
}

/// The task, once it is accepted and has ended; `load` until it is accepted. What is not known soon after that is answered
/// with the id: whoever has that can ask as often as it takes.
async fn run_task(
    calls: &SessionCalls,
    request: SendTaskRequest,
    load: LoadGuard,
    unwanted: oneshot::Receiver<()>,
) -> Result<FullTask, Status> {
    let accepted = calls.service.run_task(request, &calls.caller).await;
    drop(load);
    let (task_id, wait) = accepted?;
    let request = GetTaskRequest {
        task_id,
        ..GetTaskRequest::default()
    };
    let over = match wait {
        None => return Ok(task_id_only(request)),
        Some(WaitResult::Pending(over)) => over,
        Some(WaitResult::Ended(task)) => {
            // It is read when there is room.
            drop(task);
            let (known, over) = oneshot::channel();
            let _ = known.send(None);
            over
        }
    };
    let asked = request.clone();
    let end = async {
        match tokio::time::timeout(RUN_INLINE_WAIT, wait_for_end(calls, asked, over)).await {
            Ok(Ok(whole)) => Ok(whole),
            // The daemon stops, say: the task is accepted all the same.
            Ok(Err(_)) | Err(_) => Ok(task_id_only(request)),
        }
    };
    wait_or_cancel(unwanted, end).await
}

/// A task of which only that it is accepted is told.
fn task_id_only(GetTaskRequest { task_id, .. }: GetTaskRequest) -> FullTask {
    let task = v1::Task {
        task_id,
        ..v1::Task::default()
    };
    (GetTaskResponse { task: Some(task) }, None)
}

/// What a wait comes to, unless it is taken back.
async fn wait_or_cancel(
    unwanted: oneshot::Receiver<()>,
    wait: impl Future<Output = Result<FullTask, Status>>,
) -> Result<FullTask, Status> {
    tokio::select! {
        biased;
        Ok(()) = unwanted => Err(Status::cancelled("the wait was canceled")),
        answer = wait => answer,
    }
}

async fn wait_for_end(
    calls: &SessionCalls,
    request: GetTaskRequest,
    over: EndReceiver,
) -> Result<FullTask, Status> {
    let ended = over.await.map_err(|_| ServiceError::stopping())?;
    // It fails when it is closed, which it never is.
    let room = Arc::clone(&calls.task_permits).acquire_owned().await.ok();
    if let Some(task) = ended {
        return Ok(full_task(calls, &task, room).await);
    }
    let task = calls.service.get_task(request, &calls.caller);
    let task = Some(Box::pin(task).await?);
    Ok((GetTaskResponse { task }, room))
}

async fn full_task(calls: &SessionCalls, task: &Task, room: Option<TaskPermit>) -> FullTask {
    let task = calls.service.fit_task(task, calls.caller.max_answer);
    let task = Some(task.await);
    (GetTaskResponse { task }, room)
}

/// What is in progress: calls, and the bytes of their requests.
#[derive(Clone, Default)]
struct LoadCounter(Arc<(AtomicUsize, AtomicUsize)>);

/// A part of it, until it is dropped.
struct LoadGuard {
    progress: LoadCounter,
    bytes: usize,
}

impl LoadCounter {
    fn add(&self, bytes: usize) -> LoadGuard {
        let (calls, all) = &*self.0;
        calls.fetch_add(1, Relaxed);
        all.fetch_add(bytes, Relaxed);
        LoadGuard {
            progress: self.clone(),
            bytes,
        }
    }

    fn has_room(&self) -> bool {
        let (calls, bytes) = &*self.0;
        calls.load(Relaxed) < MAX_CALLS && bytes.load(Relaxed) < MAX_BYTES
    }

    fn is_empty(&self) -> bool {
        self.0.0.load(Relaxed) == 0
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        let (calls, all) = &*self.progress.0;
        calls.fetch_sub(1, Relaxed);
        all.fetch_sub(self.bytes, Relaxed);
    }
}

struct Session<R, F> {
    requests: Streaming<SessionRequest>,
    /// Read, but not begun: there is no room for another whole task.
    held: Option<SessionRequest>,
    /// No more requests are read; when all calls are answered the session ends.
    closed: bool,
    /// What it ends with then.
    end: Option<Status>,
    /// The number of the last call.
    last: u64,
    /// Besides the calls and the waits it has [`SessionWork::UntilStopped`].
    calls: FuturesUnordered<F>,
    run: R,
    progress: LoadCounter,
    /// The open waits, and tasks that are run; each is told here that it is unwanted.
    waits: HashMap<u64, oneshot::Sender<()>>,
    task_permits: Arc<Semaphore>,
    /// Requests begun since this task last gave way to others.
    begun: usize,
}

impl<R, F> Session<R, F>
where
    R: Fn(SessionWork) -> F,
    F: Future<Output = FinishedWork>,
{
    /// Begins a request; gives an answer that needs no work.
    #[allow(clippy::result_large_err, reason = "a status is what the client gets")]
    fn begin(&mut self, request: SessionRequest) -> Result<Option<SessionResponse>, Status> {
        let id = request.call_id;
        if let Some(Call::CancelCall(_)) = request.call {
            if let Some(unwanted) = self.waits.get_mut(&id) {
                // Its place is kept until it is answered.
                let (spent, _) = oneshot::channel();
                let _ = std::mem::replace(unwanted, spent).send(());
            }
            return Ok(None);
        }
        if id <= self.last {
            return Err(Status::invalid_argument(format!(
                "call_id {id} came after {}; each call needs a greater one than the call before",
                self.last
            )));
        }
        let room = if needs_task_permit(&request) {
            let Ok(room) = Arc::clone(&self.task_permits).try_acquire_owned() else {
                self.held = Some(request);
                return Ok(None);
            };
            Some(room)
        } else {
            None
        };
        self.last = id;
        let bytes = request.encoded_len();
        let work = match (request.call, room) {
            (Some(Call::WaitTask(_) | Call::RunTask(_)), _) if self.waits.len() >= MAX_WAITS => {
                let text = format!("this session has {MAX_WAITS} open waits, which is the limit");
                return Ok(Some(refusal(id, &Status::resource_exhausted(text))));
            }
            (Some(Call::WaitTask(task)), Some(room)) => {
                let unwanted = self.begin_wait(id);
                SessionWork::Wait {
                    id,
                    task,
                    room,
                    unwanted,
                }
            }
            (Some(Call::RunTask(task)), _) => SessionWork::Run {
                id,
                task: Box::new(task),
                load: self.progress.add(bytes),
                unwanted: self.begin_wait(id),
            },
            (Some(call), room) => SessionWork::Call {
                id,
                load: self.progress.add(bytes),
                call: Box::new(call),
                room,
            },
            (None, _) => {
                let status = Status::unimplemented("a session of this daemon does not carry this call");
                return Ok(Some(refusal(id, &status)));
            }
        };
        self.calls.push((self.run)(work));
        Ok(None)
    }

    /// What tells this wait that it is unwanted.
    fn begin_wait(&mut self, id: u64) -> oneshot::Receiver<()> {
        let (wanted, unwanted) = oneshot::channel();
        self.waits.insert(id, wanted);
        unwanted
    }

    /// The answer of what has been done.
    fn finish(&mut self, done: FinishedWork) -> Option<SessionResponse> {
        match done {
            FinishedWork::Call { id, answer, _held } => Some(response(id, answer)),
            FinishedWork::Wait { id, answer } => {
                self.waits.remove(&id);
                Some(response(id, answer.map(|(answer, _)| answer)))
            }
            FinishedWork::Stopped => {
                self.held = None;
                self.closed = true;
                self.end = Some(ServiceError::stopping().into());
                None
            }
        }
    }

    /// Ends the session at once: what is under way takes effect or not, and nobody is told.
    fn abort(&mut self, status: Status) -> Poll<Option<Result<SessionResponse, Status>>> {
        self.closed = true;
        self.calls.clear();
        self.waits.clear();
        Poll::Ready(Some(Err(status)))
    }
}

impl<R, F> Stream for Session<R, F>
where
    R: Fn(SessionWork) -> F + Unpin,
    F: Future<Output = FinishedWork>,
{
    type Item = Result<SessionResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let session = self.get_mut();
        loop {
            if let Poll::Ready(Some(done)) = session.calls.poll_next_unpin(context) {
                if let Some(response) = session.finish(done) {
                    return Poll::Ready(Some(Ok(response)));
                }
                continue;
            }
            if session.closed {
                if !session.progress.is_empty() || !session.waits.is_empty() {
                    return Poll::Pending;
                }
                return Poll::Ready(session.end.take().map(Err));
            }
            if !session.progress.has_room() {
                return Poll::Pending;
            }
            if session.begun >= BURST {
                session.begun = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let request = match session.held.take() {
                Some(request) => request,
                None => match session.requests.poll_next_unpin(context) {
                    Poll::Ready(Some(Ok(request))) => request,
                    Poll::Ready(Some(Err(status))) => {
                        return session.abort(size_errors::to_resource_exhausted(status));
                    }
                    Poll::Ready(None) => {
                        session.closed = true;
                        continue;
                    }
                    Poll::Pending => {
                        session.begun = 0;
                        return Poll::Pending;
                    }
                },
            };
            session.begun += 1;
            match session.begin(request) {
                Ok(Some(response)) => return Poll::Ready(Some(Ok(response))),
                // A whole task that is answered makes room, and wakes this task.
                Ok(None) if session.held.is_some() => return Poll::Pending,
                Ok(None) => {}
                Err(status) => return session.abort(status),
            }
        }
    }
}

/// Whether the answer may be a task with all that it holds.
fn needs_task_permit(request: &SessionRequest) -> bool {
    match &request.call {
        Some(Call::GetTask(_) | Call::CancelTask(_) | Call::WaitTask(_)) => true,
        Some(Call::SendTask(request)) => is_follow_up(request),
        _ => false,
    }
}

fn response(call_id: u64, answer: Result<Answer, Status>) -> SessionResponse {
    let answer = match answer {
        Ok(answer) => answer,
        Err(status) => return refusal(call_id, &status),
    };
    let response = SessionResponse {
        call_id,
        answer: Some(answer),
        ..SessionResponse::default()
    };
    // What cannot be sent would end the session.
    if response.encoded_len() > MAX_GRPC_MESSAGE {
        let text = "the task is larger than one message may be; read its artifacts as streams";
        return refusal(call_id, &Status::resource_exhausted(text));
    }
    response
}

fn refusal(call_id: u64, status: &Status) -> SessionResponse {
    debug_assert_ne!(status.code(), Code::Ok);
    SessionResponse {
        call_id,
        code: status.code() as i32,
        message: status.message().to_owned(),
        answer: None,
    }
}
