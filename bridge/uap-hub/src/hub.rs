//! The hub: the fleet, the streams of its clients and the tasks that wait for them. `service` brings clients to it, `session` tasks.
//!
//! Invariant: what the fleet decides is carried out before the lock is given back, so that streams and tasks see decisions in their order.

mod counters;
pub(crate) mod message_budget;
pub(crate) mod service;
pub(crate) mod session;

use agentanycast_uap_hub::v1::{
    ListenResponse, Payload, SessionProposal, SessionReady, TestProposalDetails, TranslationProposalDetails,
    listen_response::Event, session_proposal::Details,
};

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentanycast_proto::v1::Skill;
use futures::stream::BoxStream;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

pub(crate) use counters::{HubCounters, WAITS};

use crate::{
    capability::{CheckedRegistration, Domain, Kind},
    fleet::{Action, ClientId, Fleet, FleetCounts, Listener, OpenRefusal, SessionId, TaskNumber, Time, Told},
    payloads::Input,
    results::Report,
};

/// What waits for a client on its Listen: each is bounded in number by its slots, so a client that reads has room.
const UNREAD: usize = 64;

/// What goes to a client on its Listen.
pub(crate) type ListenSender = mpsc::Sender<Result<ListenResponse, Status>>;

/// The hub.
pub(crate) struct Hub {
    state: Mutex<HubState>,
    begun: Instant,
    /// The next time of the fleet is another one.
    times: Notify,
    skills: watch::Sender<()>,
    counters: HubCounters,
}

struct HubState {
    fleet: Fleet,
    listens: HashMap<Listener, ListenSender>,
    tasks: HashMap<TaskNumber, TaskSeat>,
}

/// A task as its session finds it.
struct TaskSeat {
    kind: Kind,
    payloads: Arc<[Payload]>,
    /// A task gets few events: a stream for each session that it has, and its end.
    events: mpsc::UnboundedSender<TaskEvent>,
    since: Instant,
}

/// What a task that was submitted hears.
pub(crate) enum TaskEvent {
    /// A client has opened the stream of its session.
    Opened(SessionStream),
    /// What became of it otherwise.
    Told(Told),
}

/// The stream of a session.
pub(crate) struct SessionStream {
    /// Which session it is.
    pub(crate) session: SessionId,
    /// What the client says; ends when the client has nothing more to say.
    pub(crate) reports: BoxStream<'static, Result<Report, Status>>,
    /// What the client is told.
    pub(crate) control: mpsc::Sender<SessionControl>,
}

/// What a client is told on the stream of its session, beside its end.
#[derive(Debug)]
pub(crate) enum SessionControl {
    /// What is to be done.
    Start,
    /// The session is ended before its time.
    Reset(Status),
}

/// What a session begins with.
pub(crate) struct SessionInit {
    /// The type, as the client calls it.
    pub(crate) name: Arc<str>,
    /// What the task has given.
    pub(crate) payloads: Vec<Payload>,
}

/// A task that waits for a session, or has one. Dropping it ends it for the fleet.
pub(crate) struct SubmittedTask {
    hub: Arc<Hub>,
    number: TaskNumber,
    events: mpsc::UnboundedReceiver<TaskEvent>,
}

impl Hub {
    /// Without clients; each may have so many sessions at a time.
    pub(crate) fn new(sessions_per_client: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(HubState {
                fleet: Fleet::new(sessions_per_client),
                listens: HashMap::new(),
                tasks: HashMap::new(),
            }),
            begun: Instant::now(),
            times: Notify::new(),
            skills: watch::Sender::new(()),
            counters: HubCounters::default(),
        })
    }

    // Each change of the state is whole when it could panic.
    fn state(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        self.begun.elapsed()
    }

    /// Lets the fleet decide, and carries out what it has decided.
    fn decide<R>(&self, decide: impl FnOnce(&mut HubState, Time) -> R) -> R {
        let now = self.now();
        let mut state = self.state();
        let before = state.fleet.next_time();
        let decided = decide(&mut state, now);
        self.carry_out(&mut state, now);
        let is_sooner = state.fleet.next_time() < before || before.is_none();
        drop(state);
        if is_sooner {
            self.times.notify_one();
        }
        decided
    }

    fn carry_out(&self, state: &mut HubState, now: Time) {
        loop {
            let actions = state.fleet.take_actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                if let Some(deaf) = self.act(state, action) {
                    tracing::warn!("an agent of the hub does not read what it is told; its Listen is ended");
                    state.listens.remove(&deaf);
                    state.fleet.listen_ended(&deaf, now);
                }
            }
        }
    }

    /// Does one thing; the Listen on which a client does not read what it is told.
    fn act(&self, state: &mut HubState, action: Action) -> Option<Listener> {
        match action {
            Action::Propose(listener, session, kind) => {
                let r#type = kind.name.to_string();
                let details = match kind.domain {
                    Domain::Test => Details::Test(TestProposalDetails { r#type }),
                    Domain::Translation => Details::Translation(TranslationProposalDetails { r#type }),
                };
                let proposal = SessionProposal {
                    session_id: session.to_string(),
                    details: Some(details),
                };
                tell(state, listener, Event::SessionProposal(proposal))
            }
            Action::Ready(listener, session) => {
                let session_id = session.to_string();
                tell(state, listener, Event::SessionReady(SessionReady { session_id }))
            }
            Action::EndListen(listener) => {
                if let Some(sender) = state.listens.remove(&listener) {
                    let newer = Status::aborted("this agent has opened a newer Listen");
                    // One that does not read it sees the end of the stream.
                    let _ = sender.try_send(Err(newer));
                }
                None
            }
            Action::Tell(task, told) => {
                let is_end = !matches!(told, Told::WaitsAgain(_));
                if let Some(seat) = state.tasks.get(&task) {
                    let _ = seat.events.send(TaskEvent::Told(told));
                }
                if is_end {
                    state.tasks.remove(&task);
                }
                None
            }
            Action::SkillsChanged => {
                self.skills.send_replace(());
                None
            }
            Action::Answered(answer) => {
                self.counters.answered(answer);
                None
            }
        }
    }

    /// Registers a client.
    ///
    /// # Errors
    /// Why it is not taken.
    pub(crate) fn register(&self, registration: CheckedRegistration) -> Result<ClientId, String> {
        let id = ClientId::random();
        let registered = self.decide(|state, now| state.fleet.register(id.clone(), registration, now));
        registered.map(|()| id)
    }

    /// The Listen of a client, and what it is told on it.
    ///
    /// # Errors
    /// There is no such client.
    pub(crate) fn listen(
        &self,
        id: &ClientId,
    ) -> Result<(Listener, mpsc::Receiver<Result<ListenResponse, Status>>), ()> {
        let (sender, receiver) = mpsc::channel(UNREAD);
        let listener = self.decide(|state, now| {
            let listener = state.fleet.listen(id, now)?;
            state.listens.insert(listener.clone(), sender);
            Ok::<_, ()>(listener)
        })?;
        Ok((listener, receiver))
    }

    /// The client of this Listen is ready.
    pub(crate) fn ready(&self, listener: &Listener) {
        self.decide(|state, now| state.fleet.ready(listener, now));
    }

    /// The client of this Listen answers a proposal.
    pub(crate) fn answer(&self, listener: &Listener, session: &SessionId, accepts: bool, reason: &str) {
        self.decide(|state, now| state.fleet.answer(listener, session, accepts, reason, now));
    }

    /// This Listen has ended.
    pub(crate) fn listen_ended(&self, listener: &Listener) {
        self.decide(|state, now| {
            state.listens.remove(listener);
            state.fleet.listen_ended(listener, now);
        });
    }

    /// A client opens the stream of a session: what that begins with, once it is told to start.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn open(
        &self,
        session: &SessionId,
        client: Option<&str>,
        domain: Domain,
        reports: BoxStream<'static, Result<Report, Status>>,
        control: mpsc::Sender<SessionControl>,
    ) -> Result<SessionInit, OpenRefusal> {
        self.decide(|state, _| {
            let task = state.fleet.open(session, client, domain)?;
            let types = state.fleet.payload_types(task);
            let seat = state.tasks.get(&task).ok_or(OpenRefusal::Unknown)?;
            self.counters.waited(seat.since.elapsed());
            let named = seat.payloads.iter().zip(types);
            let init = SessionInit {
                name: Arc::clone(&seat.kind.name),
                payloads: named
                    .map(|(payload, r#type)| Payload {
                        r#type,
                        ..payload.clone()
                    })
                    .collect(),
            };
            let stream = SessionStream {
                session: session.clone(),
                reports,
                control,
            };
            let _ = seat.events.send(TaskEvent::Opened(stream));
            Ok(init)
        })
    }

    /// The stream of a session has ended.
    pub(crate) fn session_ended(&self, session: &SessionId, reason: &str) {
        self.decide(|state, now| state.fleet.session_ended(session, reason, now));
    }

    /// A new task, which may be given again so many times.
    pub(crate) fn submit(self: &Arc<Self>, kind: Kind, inputs: Vec<Input>, retries: u32) -> SubmittedTask {
        let (sender, events) = mpsc::unbounded_channel();
        let parts = inputs.iter().map(|input| input.shape.clone()).collect();
        let payloads = inputs.into_iter().map(|input| input.payload).collect();
        let number = self.decide(|state, now| {
            let number = state.fleet.next_task();
            let seat = TaskSeat {
                kind: kind.clone(),
                payloads,
                events: sender,
                since: Instant::now(),
            };
            // It may be told its end at once.
            state.tasks.insert(number, seat);
            state.fleet.submit(number, kind, parts, retries, now);
            number
        });
        SubmittedTask {
            hub: Arc::clone(self),
            number,
            events,
        }
    }

    /// The skills of the clients that listen.
    pub(crate) fn skills(&self) -> Vec<Skill> {
        self.state().fleet.skills()
    }

    /// Changes when the skills do.
    pub(crate) fn skill_changes(&self) -> watch::Receiver<()> {
        self.skills.subscribe()
    }

    /// How many clients and sessions there are.
    pub(crate) fn counts(&self) -> FleetCounts {
        self.state().fleet.counts()
    }

    /// What has happened so far.
    pub(crate) fn counters(&self) -> &HubCounters {
        &self.counters
    }

    /// Sees to what does not happen in time, until `stop`.
    pub(crate) async fn watch_times(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.state().fleet.next_time();
            let due = async {
                match next {
                    Some(time) => tokio::time::sleep_until(self.begun + time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.times.notified() => {}
                () = due => self.decide(|state, now| state.fleet.expire(now)),
            }
        }
    }
}

/// Tells a client something; the Listen on which it is not read.
fn tell(state: &HubState, listener: Listener, event: Event) -> Option<Listener> {
    // One that has ended meanwhile is told nothing: the fleet hears of its end.
    let sender = state.listens.get(&listener)?;
    match sender.try_send(Ok(ListenResponse { event: Some(event) })) {
        Err(mpsc::error::TrySendError::Full(_)) => Some(listener),
        _ => None,
    }
}

impl SubmittedTask {
    /// The next thing that it hears.
    pub(crate) async fn next(&mut self) -> TaskEvent {
        match self.events.recv().await {
            Some(event) => event,
            // The hub keeps the other end until it has told the end, which is read before.
            None => TaskEvent::Told(Told::Failed("the hub has forgotten the task".to_owned())),
        }
    }

    /// The client of its session, for people.
    pub(crate) fn client_name(&self) -> String {
        self.hub.state().fleet.client_name(self.number)
    }

    /// It has ended: its session counts as open until its stream has ended.
    pub(crate) fn end(&self) {
        self.hub.decide(|state, now| {
            state.tasks.remove(&self.number);
            state.fleet.end_task(self.number, now);
        });
    }
}

impl Drop for SubmittedTask {
    fn drop(&mut self) {
        self.end();
    }
}

/// How long a client may take to end its stream after it has told the end of its session.
pub(crate) const END_WITHIN: Duration = Duration::from_secs(5);
