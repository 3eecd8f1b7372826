//! One gRPC stream that carries many calls: a caller's request gets a number and goes into a short queue, a reader
//! task hands each answer to the caller whose number it has. It may touch nothing but its stream.
//!
//! The rule: every caller hears one thing. When the stream breaks, all that are open hear that it was lost; whether
//! their calls took effect is not known.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use agentanycast_proto::v1::{
    CancelCall, GetTaskRequest, SendTaskRequest, SessionRequest, SessionResponse, Task,
    session_request::Call as Packed, session_response::Answer as PackedAnswer,
};
use futures::Stream;
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};
use tonic::{Code, Status, Streaming};

use super::{SessionClient, task_calls::TaskCall};

/// Requests on their way to the connection; more wait at their callers.
const QUEUE: usize = 256;

/// Waits that are open at a time: half of what a daemon takes, since it hears later than we do that one is
/// unwanted. More are made in the unary way.
const MAX_WAITS: usize = 2048;

/// How often the reader's own timer goes off, whatever the limit of calls is.
const MIN_TIMER: Duration = Duration::from_millis(10);
const MAX_TIMER: Duration = Duration::from_hours(1);

/// How a call ended without its answer.
#[derive(Debug)]
pub(crate) enum CallStreamError {
    /// The stream had broken before; nothing was sent.
    Broken,
    /// The stream broke; whether the call took effect is not known.
    Lost(Status),
    /// The daemon refused it.
    Refused(Status),
}

/// The stream, from its opening until it breaks. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct CallStream {
    queue: mpsc::Sender<Box<SessionRequest>>,
    open: Arc<SharedCalls>,
    reader: AbortHandle,
    /// The daemon is one that does not know [`CallStream::run`].
    no_runs: AtomicBool,
}

/// What the callers, the queue's end and the reader share.
#[derive(Debug, Default)]
struct SharedCalls(Mutex<OpenCalls>);

#[derive(Debug, Default)]
struct OpenCalls {
    /// The number of the last call.
    last: u64,
    callers: HashMap<u64, oneshot::Sender<SessionResponse>>,
    waits: usize,
    /// Waits that nobody wants and the daemon has not been told about, for want of room in the queue. At most
    /// [`MAX_WAITS`].
    unwanted: Vec<u64>,
    /// Why the stream is over.
    broken: Option<Status>,
}

impl SharedCalls {
    fn lock(&self) -> MutexGuard<'_, OpenCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn break_off(&self, status: Status) {
        let mut calls = self.lock();
        calls.broken.get_or_insert(status);
        calls.callers.clear();
    }

    fn lost(&self) -> CallStreamError {
        CallStreamError::Lost(self.lock().broken.clone().unwrap_or_else(ended))
    }
}

impl CallStream {
    /// Opens it, for calls that may take so long; `None` if the daemon does not know call streams.
    pub(crate) async fn open(mut client: SessionClient, limit: Duration) -> Result<Option<Self>, Status> {
        let (queue, requests) = mpsc::channel(QUEUE);
        let open = Arc::new(SharedCalls::default());
        let outgoing = RequestStream {
            requests,
            open: Arc::clone(&open),
        };
        let answers = match client.session(outgoing).await {
            Ok(answers) => answers.into_inner(),
            Err(status) if status.code() == Code::Unimplemented => return Ok(None),
            Err(status) => return Err(status),
        };
        let reader = AnswerReader(Arc::clone(&open));
        let reader = tokio::spawn(reader.run(answers, limit)).abort_handle();
        Ok(Some(Self {
            queue,
            open,
            reader,
            no_runs: AtomicBool::new(false),
        }))
    }

    /// Whether no call can be made on it any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.open.lock().broken.is_some()
    }

    /// Makes a call. Dropping the future takes nothing back.
    pub(crate) async fn call<C: TaskCall>(&self, request: &C) -> Result<C::Answer, CallStreamError> {
        let answer = self
            .begin(to_send(request.clone().pack()))
            .await?
            .answer()
            .await?;
        answer.and_then(C::unpack).ok_or_else(answered_otherwise)
    }

    /// Waits for the end of a task, or as the request says; `None` if there is no room for another wait. Dropping the future tells the
    /// daemon that nobody waits any more.
    pub(crate) async fn wait(&self, request: GetTaskRequest) -> Result<Option<Task>, CallStreamError> {
        let Some(_room) = self.wait_permit() else {
            return Ok(None);
        };
        let request = to_send(Packed::WaitTask(request));
        self.end_of(request).await.map(Some)
    }

    /// Whether a task can be sent and waited for in one call, as far as is known.
    pub(crate) fn takes_runs(&self) -> bool {
        !self.no_runs.load(Ordering::Relaxed)
    }

    /// Sends a task and waits for its end for a moment, after which the answer is its id alone. `None`, and nothing is sent: there is no room
    /// for another wait, or the daemon does not know this. Dropping the future tells the daemon that nobody waits any more.
    pub(crate) async fn run(&self, request: SendTaskRequest) -> Result<Option<Task>, CallStreamError> {
        let Some(_room) = self.wait_permit() else {
            return Ok(None);
        };
        let request = to_send(Packed::RunTask(request));
        match self.end_of(request).await {
            Err(CallStreamError::Refused(status)) if status.code() == Code::Unimplemented => {
                self.no_runs.store(true, Ordering::Relaxed);
                Ok(None)
            }
            end => end.map(Some),
        }
    }

    /// The task that such a call is answered with in the end.
    async fn end_of(&self, request: Box<SessionRequest>) -> Result<Task, CallStreamError> {
        let mut wait = PendingWait(self.begin(request).await?);
        let task = match wait.0.answer().await? {
            Some(PackedAnswer::WaitTask(answer) | PackedAnswer::RunTask(answer)) => answer.task,
            _ => None,
        };
        task.ok_or_else(answered_otherwise)
    }

    async fn begin(&self, mut request: Box<SessionRequest>) -> Result<PendingCall<'_>, CallStreamError> {
        // Numbers have to rise along the queue, so they are drawn where nothing waits any more.
        let place = self.queue.reserve().await.map_err(|_| CallStreamError::Broken)?;
        let (caller, answer) = oneshot::channel();
        let mut calls = self.open.lock();
        if calls.broken.is_some() {
            return Err(CallStreamError::Broken);
        }
        calls.last += 1;
        let id = calls.last;
        calls.callers.insert(id, caller);
        request.call_id = id;
        place.send(request);
        drop(calls);
        Ok(PendingCall {
            stream: self,
            id,
            answer,
        })
    }

    fn wait_permit(&self) -> Option<WaitPermit<'_>> {
        let mut calls = self.open.lock();
        (calls.waits < MAX_WAITS).then(|| {
            calls.waits += 1;
            WaitPermit(&self.open)
        })
    }
}

impl Drop for CallStream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

struct WaitPermit<'a>(&'a SharedCalls);

impl Drop for WaitPermit<'_> {
    fn drop(&mut self) {
        self.0.lock().waits -= 1;
    }
}

/// A call whose request is on its way.
struct PendingCall<'a> {
    stream: &'a CallStream,
    id: u64,
    answer: oneshot::Receiver<SessionResponse>,
}

impl PendingCall<'_> {
    async fn answer(&mut self) -> Result<Option<PackedAnswer>, CallStreamError> {
        let Ok(response) = (&mut self.answer).await else {
            return Err(self.stream.open.lost());
        };
        match Code::from_i32(response.code) {
            Code::Ok => Ok(response.answer),
            code => Err(CallStreamError::Refused(Status::new(code, response.message))),
        }
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        // An answer that comes later is nobody's.
        self.stream.open.lock().callers.remove(&self.id);
    }
}

/// A wait; dropped unanswered, the daemon is told.
struct PendingWait<'a>(PendingCall<'a>);

impl Drop for PendingWait<'_> {
    fn drop(&mut self) {
        let PendingCall { stream, id, .. } = self.0;
        let mut calls = stream.open.lock();
        // While nothing else can look at the queue's end, so that it is told sooner or later.
        if calls.callers.remove(&id).is_some() && stream.queue.try_send(cancel(id)).is_err() {
            calls.unwanted.push(id);
        }
    }
}

/// What the connection sends.
struct RequestStream {
    requests: mpsc::Receiver<Box<SessionRequest>>,
    open: Arc<SharedCalls>,
}

impl Stream for RequestStream {
    type Item = SessionRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<SessionRequest>> {
        let next = self.requests.poll_recv(context);
        if next.is_pending()
            && let Some(id) = self.open.lock().unwanted.pop()
        {
            return Poll::Ready(Some(*cancel(id)));
        }
        next.map(|request| request.map(|request| *request))
    }
}

fn cancel(call_id: u64) -> Box<SessionRequest> {
    let mut request = to_send(Packed::CancelCall(CancelCall {}));
    request.call_id = call_id;
    request
}

/// By itself, so that it is not moved with each of the futures around it. Its number is drawn when it is sent.
fn to_send(call: Packed) -> Box<SessionRequest> {
    Box::new(SessionRequest {
        call_id: 0,
        call: Some(call),
    })
}

/// Hands the answers out. However it ends, also with its runtime, the callers hear of it.
struct AnswerReader(Arc<SharedCalls>);

impl AnswerReader {
    /// `limit`: how long a call may take.
    async fn run(self, mut answers: Streaming<SessionResponse>, limit: Duration) {
        // Its runtime sleeps until the first of its timers, and is woken, by a call of the kernel, for each that is set before that. With
        // this one the timers of the calls come later.
        let mut sooner = tokio::time::interval((limit / 2).clamp(MIN_TIMER, MAX_TIMER));
        let end = loop {
            let message = tokio::select! {
                biased;
                message = answers.message() => message,
                _ = sooner.tick() => continue,
            };
            match message {
                Ok(Some(response)) => {
                    let caller = self.0.lock().callers.remove(&response.call_id);
                    if let Some(caller) = caller {
                        // Whoever gave up meanwhile needs no answer.
                        let _ = caller.send(response);
                    }
                }
                Ok(None) => break ended(),
                Err(status) => break status,
            }
        };
        self.0.break_off(end);
    }
}

impl Drop for AnswerReader {
    fn drop(&mut self) {
        self.0.break_off(ended());
    }
}

fn ended() -> Status {
    Status::unavailable("the stream of calls ended")
}

fn answered_otherwise() -> CallStreamError {
    CallStreamError::Refused(Status::internal("the daemon gave the answer of another call"))
}
