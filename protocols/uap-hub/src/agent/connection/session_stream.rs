//! The stream of one session, in a task of its own: opens the call, waits for what is to be done, has the
//! runner carry it out and sends its end. The Listen stream begins it; nothing of it reaches other sessions.
//!
//! ACKNOWLEDGED is in the outgoing channel before the call is made: a server may send its response headers
//! with its first message only, and a hub may wait for the agent's first one.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future, stream::BoxStream};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use super::{
    AgentState,
    registered::{RegisteredConnection, header},
};
use crate::{
    agent::{
        outgoing::{Event, Outgoing},
        proposal::{Domain, Proposal},
        session::{AgentSession, SessionProgress},
        session_end::SessionEnd,
    },
    v1::{Payload, TestInit, TranslationInit},
};

/// Messages of a session that wait until they are sent. Then its runner waits.
const WAITING_MESSAGES: usize = 16;

/// How long a hub may take to say what is to be done, from its SessionReady on: 64 MiB at 560 KB/s.
const INIT_WITHIN: Duration = Duration::from_mins(2);

/// How long what carries out a cancelled session has to clean up.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(10);

/// How long a hub may take to read the result and end the call: 64 MiB at 230 KB/s. The slot is free already.
const RESULT_WITHIN: Duration = Duration::from_mins(5);

/// Longest text of a panic that is sent to the hub, in bytes.
const PANIC_TEXT: usize = 1024;

/// What a session is to do: TestInit and TranslationInit.
#[derive(Debug)]
struct SessionInit {
    kind: String,
    payloads: Vec<Payload>,
}

impl From<TestInit> for SessionInit {
    fn from(init: TestInit) -> Self {
        Self {
            kind: init.test_type,
            payloads: init.payloads,
        }
    }
}

impl From<TranslationInit> for SessionInit {
    fn from(init: TranslationInit) -> Self {
        Self {
            kind: init.target_format,
            payloads: init.payloads,
        }
    }
}

type SessionInits = BoxStream<'static, Result<SessionInit, Status>>;

/// Gives a session's slot back.
struct SlotGuard {
    agent: Arc<AgentState>,
    session_id: String,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.agent.slots().ended(&self.session_id);
    }
}

/// Begins the session of `proposal`, whose slot runs already.
pub(super) fn spawn(agent: Arc<AgentState>, registered: RegisteredConnection, proposal: Proposal) {
    let slot = SlotGuard {
        agent: agent.clone(),
        session_id: proposal.session_id.clone(),
    };
    agent.sessions.clone().spawn(async move {
        let (domain, session_id) = (proposal.domain, proposal.session_id.clone());
        let (events, outgoing) = mpsc::channel(WAITING_MESSAGES);
        // The channel is new: there is room.
        let _ = events.try_send(Outgoing::new(domain, Event::Acknowledged, SystemTime::now()));
        let begun = tokio::select! {
            biased;
            () = agent.stopped.cancelled() => return,
            begun = timeout(INIT_WITHIN, begin(&agent, registered, &proposal, outgoing)) => begun,
        };
        let (init, mut inits) = match begun {
            Ok(Ok(begun)) => begun,
            Ok(Err(status)) => {
                let (code, message) = (status.code(), status.message());
                tracing::warn!(session_id, ?code, message, "the session did not begin");
                return;
            }
            Err(_) => {
                tracing::warn!(
                    session_id,
                    "the session did not begin: the hub did not say what to do in {INIT_WITHIN:?}"
                );
                return;
            }
        };
        if let Some(end) = carry_out(&agent, proposal, init, &events, &mut inits).await {
            tracing::debug!(session_id, state = ?end.state, message = end.message, "the session has ended");
            // The hub may propose the next session as soon as it has this one's end.
            drop(slot);
            let _ = timeout(RESULT_WITHIN, send_end(domain, end, events, inits)).await;
        } else {
            tracing::info!(session_id, "the hub has ended the session");
        }
    });
}

/// Opens the call; gives what is to be done, and the rest of the stream.
async fn begin(
    agent: &AgentState,
    registered: RegisteredConnection,
    proposal: &Proposal,
    outgoing: mpsc::Receiver<Outgoing>,
) -> Result<(SessionInit, SessionInits), Status> {
    let mut inits = open(agent, registered, proposal, outgoing).await?;
    match inits.next().await {
        Some(init) => Ok((init?, inits)),
        None => Err(Status::aborted(
            "the hub closed the stream before it said what to do",
        )),
    }
}

async fn open(
    agent: &AgentState,
    registered: RegisteredConnection,
    proposal: &Proposal,
    outgoing: mpsc::Receiver<Outgoing>,
) -> Result<SessionInits, Status> {
    let session_id = header(&proposal.session_id)
        .ok_or_else(|| Status::invalid_argument("the session id is no header"))?;
    let mut client = registered.session_client();
    let mut request: Request<()> = agent.endpoint.request(());
    request.metadata_mut().insert("x-session-id", session_id);
    request.metadata_mut().insert("x-client-id", registered.client_id);
    let outgoing = ReceiverStream::new(outgoing);
    Ok(match proposal.domain {
        Domain::Test => {
            let responses = outgoing.filter_map(|message| {
                future::ready(match message {
                    Outgoing::Test(response) => Some(response),
                    Outgoing::Translation(_) => None,
                })
            });
            let answer = client.execute(request.map(|()| responses)).await?;
            answer.into_inner().map_ok(SessionInit::from).boxed()
        }
        Domain::Translation => {
            let responses = outgoing.filter_map(|message| {
                future::ready(match message {
                    Outgoing::Translation(response) => Some(response),
                    Outgoing::Test(_) => None,
                })
            });
            let answer = client.translate(request.map(|()| responses)).await?;
            answer.into_inner().map_ok(SessionInit::from).boxed()
        }
    })
}

/// Has the runner carry the session out. `None` if the hub ended it before.
async fn carry_out(
    agent: &AgentState,
    proposal: Proposal,
    init: SessionInit,
    events: &mpsc::Sender<Outgoing>,
    inits: &mut SessionInits,
) -> Option<SessionEnd> {
    let cancelled = CancellationToken::new();
    let session = AgentSession {
        session_id: proposal.session_id,
        domain: proposal.domain,
        kind: if init.kind.is_empty() {
            proposal.kind
        } else {
            init.kind
        },
        payloads: init.payloads,
        progress: SessionProgress::new(proposal.domain, events, cancelled.clone()),
        cancelled: cancelled.clone(),
    };
    // The session is the closure's own: nothing that a panic left half done is used afterwards.
    let work = AssertUnwindSafe(agent.runner.carry_out(session)).catch_unwind();
    tokio::pin!(work);
    tokio::select! {
        biased;
        end = &mut work => Some(end.unwrap_or_else(|panic| panicked(panic.as_ref()))),
        () = ended_by_hub(inits) => {
            cancelled.cancel();
            let _ = timeout(CLEAN_UP_WITHIN, work).await;
            None
        }
        () = agent.stopped.cancelled() => {
            cancelled.cancel();
            let _ = timeout(CLEAN_UP_WITHIN, work).await;
            Some(SessionEnd::failed("the agent stops"))
        }
    }
}

/// Resolves when the hub has ended the call, in whatever way. A second init changes nothing.
async fn ended_by_hub(inits: &mut SessionInits) {
    while let Some(Ok(_)) = inits.next().await {}
}

/// Sends the end of a session, closes the agent's side and waits until the hub has closed its own: a call
/// that is dropped before may lose what is still to be sent.
async fn send_end(domain: Domain, end: SessionEnd, events: mpsc::Sender<Outgoing>, mut inits: SessionInits) {
    for message in Outgoing::end(domain, end, SystemTime::now()) {
        if events.send(message).await.is_err() {
            break;
        }
    }
    drop(events);
    ended_by_hub(&mut inits).await;
}

fn panicked(panic: &(dyn Any + Send)) -> SessionEnd {
    let text = (panic.downcast_ref::<&str>().copied())
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text");
    let text = &text[..text.floor_char_boundary(PANIC_TEXT)];
    SessionEnd::failed(format!("the agent panicked: {text}"))
}
