//! SessionService: many calls on one stream. Each call is what NodeService makes of it (`tasks`); here it is begun,
//! bounded and answered, nothing else.
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

use agentanycast_proto::{
    MAX_GRPC_MESSAGE,
    v1::{
        self, GetTaskRequest, GetTaskResponse, SendTaskRequest, SessionRequest, SessionResponse,
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

use super::{Api, node_service::connection_of, present::max_message, tasks::is_further, too_large, updates};
use crate::{
    engine::{Over, Wait},
    task::Task,
};

/// Calls in progress, besides waits: more than that wait for one barrier hardly make it cheaper.
const MAX_CALLS: usize = 256;

/// Calls in progress whose answer is a whole task, ends of waits among them: what a client that does not read its
/// answers can make us hold, in tasks.
const MAX_WHOLE_TASKS: usize = 64;

/// Bytes of requests in progress; a single one may be larger.
const MAX_BYTES: usize = 64 << 20;

/// Open waits: as many as a connection may have streams. One takes a few KiB.
const MAX_WAITS: usize = 4096;

/// How long after its acceptance a task that is run is answered with its end.
const SOON: Duration = Duration::from_secs(1);

/// Requests that are begun before other sessions have their turn.
const BURST: usize = 128;

#[tonic::async_trait]
impl SessionService for Api {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let caller = Caller {
            most: max_message(&request),
            connection: connection_of(&request),
        };
        let api = self.clone();
        // A call that gave way to other tasks before it reached the engine would be overtaken; a session as a whole
        // gives way after each burst.
        let run = move |work| unconstrained(run(api.clone(), caller, work));
        let session = Session {
            requests: request.into_inner(),
            held: None,
            closed: false,
            end: None,
            last: 0,
            calls: FuturesUnordered::new(),
            run,
            progress: Progress::default(),
            waits: HashMap::new(),
            whole: Arc::new(Semaphore::new(MAX_WHOLE_TASKS)),
            begun: 0,
        };
        session.calls.push((session.run)(Work::UntilStopped));
        Ok(Response::new(Box::pin(session)))
    }
}

/// Who calls.
#[derive(Clone, Copy)]
struct Caller {
    most: usize,
    connection: u64,
}

/// Room for one whole task, kept until the answer is handed on.
type Room = OwnedSemaphorePermit;

/// A whole task as an answer, with the room that it takes.
type Whole = (GetTaskResponse, Option<Room>);

/// What a session does at the same time.
enum Work {
    Call {
        id: u64,
        load: Load,
        call: Box<Call>,
        room: Option<Room>,
    },
    Wait {
        id: u64,
        task: GetTaskRequest,
        room: Room,
        whole: Arc<Semaphore>,
        unwanted: oneshot::Receiver<()>,
    },
    /// A call until the task is accepted, then a wait.
    Run {
        id: u64,
        task: Box<SendTaskRequest>,
        load: Load,
        whole: Arc<Semaphore>,
        unwanted: oneshot::Receiver<()>,
    },
    UntilStopped,
}

/// What has been done.
enum Done {
    Call {
        id: u64,
        answer: Result<Answer, Status>,
        /// Held until the answer is handed on.
        _held: (Load, Option<Room>),
    },
    Wait {
        id: u64,
        answer: Result<(Answer, Option<Room>), Status>,
    },
    Stopped,
}

async fn run(api: Api, caller: Caller, work: Work) -> Done {
    match work {
        Work::Call { id, load, call, room } => Done::Call {
            id,
            answer: answer(&api, caller, *call).await,
            _held: (load, room),
        },
        Work::Wait {
            id,
            task,
            room,
            whole,
            unwanted,
        } => {
            let wait = unless(unwanted, wait(&api, caller, task, room, whole)).await;
            let answer = wait.map(|(answer, room)| (Answer::WaitTask(answer), room));
            Done::Wait { id, answer }
        }
        Work::Run {
            id,
            task,
            load,
            whole,
            unwanted,
        } => {
            let run = run_task(&api, caller, *task, load, whole, unwanted).await;
            let answer = run.map(|(answer, room)| (Answer::RunTask(answer), room));
            Done::Wait { id, answer }
        }
        Work::UntilStopped => {
            api.engine().stopped().await;
            Done::Stopped
        }
    }
}

async fn answer(api: &Api, caller: Caller, call: Call) -> Result<Answer, Status> {
    match call {
        Call::SendTask(request) => api.submit(request, caller.most).await.map(Answer::SendTask),
        // Boxed: every call carries the room for the largest of them.
        Call::GetTask(request) => Box::pin(api.read(request, caller.most))
            .await
            .map(Answer::GetTask),
        Call::CancelTask(request) => Box::pin(api.cancel(request, caller.most))
            .await
            .map(Answer::CancelTask),
        Call::UpdateTaskStatus(request) => {
            let updated = api.update(request, caller.connection).await;
            updated.map(Answer::UpdateTaskStatus)
        }
        Call::CompleteTask(request) => {
            let completed = api.complete(request, caller.connection).await;
            completed.map(Answer::CompleteTask)
        }
        Call::FailTask(request) => api.fail(request, caller.connection).await.map(Answer::FailTask),
        // These are begun otherwise.
        Call::WaitTask(_) | Call::RunTask(_) | Call::CancelCall(_) => Err(Status::internal("no such call")),
    }
}

/// The task, once its wait is over. Until there is room for its answer no more of it is held than a few KiB.
async fn wait(
    api: &Api,
    caller: Caller,
    request: GetTaskRequest,
    room: Room,
    whole: Arc<Semaphore>,
) -> Result<Whole, Status> {
    match api.wait(request.task_id.clone(), request.or_input).await? {
        Wait::Over(task) => Ok(shown(api, caller, &task, Some(room)).await),
        Wait::Open(over) => {
            drop(room);
            over_at_last(api, caller, request, over, whole).await
        }
    }
}

/// The task, once it is accepted and has ended; `load` until it is accepted. What is not known soon after that is answered
/// with the id: whoever has that can ask as often as it takes.
async fn run_task(
    api: &Api,
    caller: Caller,
    request: SendTaskRequest,
    load: Load,
    whole: Arc<Semaphore>,
    unwanted: oneshot::Receiver<()>,
) -> Result<Whole, Status> {
    let accepted = api.run(request).await;
    drop(load);
    let (task_id, wait) = accepted?;
    let request = GetTaskRequest {
        task_id,
        ..GetTaskRequest::default()
    };
    let over = match wait {
        None => return Ok(id_alone(request)),
        Some(Wait::Open(over)) => over,
        Some(Wait::Over(task)) => {
            // It is read when there is room.
            drop(task);
            let (known, over) = oneshot::channel();
            let _ = known.send(None);
            over
        }
    };
    let asked = request.clone();
    let end = async {
        match tokio::time::timeout(SOON, over_at_last(api, caller, asked, over, whole)).await {
            Ok(Ok(whole)) => Ok(whole),
            // The daemon stops, say: the task is accepted all the same.
            Ok(Err(_)) | Err(_) => Ok(id_alone(request)),
        }
    };
    unless(unwanted, end).await
}

/// A task of which only that it is accepted is told.
fn id_alone(GetTaskRequest { task_id, .. }: GetTaskRequest) -> Whole {
    let task = v1::Task {
        task_id,
        ..v1::Task::default()
    };
    (GetTaskResponse { task: Some(task) }, None)
}

/// What a wait comes to, unless it is taken back.
async fn unless(
    unwanted: oneshot::Receiver<()>,
    wait: impl Future<Output = Result<Whole, Status>>,
) -> Result<Whole, Status> {
    tokio::select! {
        biased;
        Ok(()) = unwanted => Err(Status::cancelled("the wait was canceled")),
        answer = wait => answer,
    }
}

async fn over_at_last(
    api: &Api,
    caller: Caller,
    request: GetTaskRequest,
    over: Over,
    whole: Arc<Semaphore>,
) -> Result<Whole, Status> {
    let ended = over.await.map_err(|_| updates::stopping())?;
    // It fails when it is closed, which it never is.
    let room = whole.acquire_owned().await.ok();
    match ended {
        Some(task) => Ok(shown(api, caller, &task, room).await),
        None => Ok((Box::pin(api.read(request, caller.most)).await?, room)),
    }
}

async fn shown(api: &Api, caller: Caller, task: &Task, room: Option<Room>) -> Whole {
    let task = Some(api.present_task(task, caller.most).await);
    (GetTaskResponse { task }, room)
}

/// What is in progress: calls, and the bytes of their requests.
#[derive(Clone, Default)]
struct Progress(Arc<(AtomicUsize, AtomicUsize)>);

/// A part of it, until it is dropped.
struct Load {
    progress: Progress,
    bytes: usize,
}

impl Progress {
    fn begin(&self, bytes: usize) -> Load {
        let (calls, all) = &*self.0;
        calls.fetch_add(1, Relaxed);
        all.fetch_add(bytes, Relaxed);
        Load {
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

impl Drop for Load {
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
    /// Besides the calls and the waits it has [`Work::UntilStopped`].
    calls: FuturesUnordered<F>,
    run: R,
    progress: Progress,
    /// The open waits, and tasks that are run; each is told here that it is unwanted.
    waits: HashMap<u64, oneshot::Sender<()>>,
    whole: Arc<Semaphore>,
    /// Requests begun since this task last gave way to others.
    begun: usize,
}

impl<R, F> Session<R, F>
where
    R: Fn(Work) -> F,
    F: Future<Output = Done>,
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
        let room = if needs_room(&request) {
            let Ok(room) = Arc::clone(&self.whole).try_acquire_owned() else {
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
                let whole = Arc::clone(&self.whole);
                Work::Wait {
                    id,
                    task,
                    room,
                    whole,
                    unwanted,
                }
            }
            (Some(Call::RunTask(task)), _) => Work::Run {
                id,
                task: Box::new(task),
                load: self.progress.begin(bytes),
                whole: Arc::clone(&self.whole),
                unwanted: self.begin_wait(id),
            },
            (Some(call), room) => Work::Call {
                id,
                load: self.progress.begin(bytes),
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
    fn finish(&mut self, done: Done) -> Option<SessionResponse> {
        match done {
            Done::Call { id, answer, _held } => Some(response(id, answer)),
            Done::Wait { id, answer } => {
                self.waits.remove(&id);
                Some(response(id, answer.map(|(answer, _)| answer)))
            }
            Done::Stopped => {
                self.held = None;
                self.closed = true;
                self.end = Some(updates::stopping());
                None
            }
        }
    }

    /// Ends the session at once: what is under way takes effect or not, and nobody is told.
    fn break_off(&mut self, status: Status) -> Poll<Option<Result<SessionResponse, Status>>> {
        self.closed = true;
        self.calls.clear();
        self.waits.clear();
        Poll::Ready(Some(Err(status)))
    }
}

impl<R, F> Stream for Session<R, F>
where
    R: Fn(Work) -> F + Unpin,
    F: Future<Output = Done>,
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
                    Poll::Ready(Some(Err(status))) => return session.break_off(too_large::restated(status)),
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
                Err(status) => return session.break_off(status),
            }
        }
    }
}

/// Whether the answer may be a task with all that it holds.
fn needs_room(request: &SessionRequest) -> bool {
    match &request.call {
        Some(Call::GetTask(_) | Call::CancelTask(_) | Call::WaitTask(_)) => true,
        Some(Call::SendTask(request)) => is_further(request),
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
