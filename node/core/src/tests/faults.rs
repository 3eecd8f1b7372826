//! The real shell and its writer over a network in memory and a store that fails at some moment: whatever anybody
//! was told before is durable at that very moment, nobody is told anything afterwards, and what is there
//! after reopening is exactly what was answered.
//!
//! `AGENTANYCAST_FAULT_CASES` is how many cases the property is tried with; default 64.

mod faulty_store;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_identity::Keypair;
use agentanycast_proto::v1::StreamStart;
use agentanycast_store::Store as _;
use futures::FutureExt as _;
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::faulty_store::{FaultPoint, FaultyStore, StoreFault};
use super::harness::{artifact, limits, peer, text};
use crate::{
    self as engine, Engine, EngineError, Now, OfferedTask, SendTask, Subscription,
    coordinator::{Coordinator, ListenRequest},
    link::memory::MemoryNetwork,
    spool::Spool,
    task::{Role, Status},
    transaction::{EngineLimits, TaskChange},
};

/// Far beyond what any step takes.
const DEADLINE: Duration = Duration::from_mins(1);

/// A node with everything but its gRPC face.
struct RunningEngine {
    engine: Engine,
    store: Arc<FaultyStore>,
    task: JoinHandle<()>,
    stop: CancellationToken,
    _home: TempDir,
}

impl RunningEngine {
    fn start(store: Arc<FaultyStore>, network: &MemoryNetwork) -> Self {
        let home = tempfile::tempdir().unwrap();
        let keypair = Keypair::generate_ed25519();
        let me = agentanycast_identity::peer_id(&keypair);
        let loaded = engine::start(engine::EngineParts {
            store: Arc::clone(&store) as Arc<dyn agentanycast_store::Store>,
            spool: Spool::open(home.path().join("artifacts")).unwrap(),
            limits: limits(),
            me,
            key: keypair,
            on_route: Arc::new(|_| ()),
            on_shown_card: Arc::new(|_| ()),
            on_span: Arc::new(|_| ()),
            on_card: Arc::new(|_, _| false),
            on_identity_needed: Arc::new(|_| ()),
        })
        .unwrap();
        let (link, inbox) = network.join(me);
        let stop = CancellationToken::new();
        let (engine, task) = loaded.run(link, inbox, stop.clone());
        Self {
            engine,
            store,
            task,
            stop,
            _home: home,
        }
    }

    /// Ends it; what is left is the store, as a crash leaves it.
    async fn end(self) -> Arc<FaultyStore> {
        self.stop.cancel();
        timeout(DEADLINE, self.task).await.expect("it ends").unwrap();
        self.store.crash();
        self.store
    }
}

/// What the reopened store has.
fn reopened(store: &Arc<FaultyStore>, me: agentanycast_identity::PeerId) -> Coordinator {
    let now = Now {
        mono: Duration::ZERO,
        unix: 1_767_225_600_000,
    };
    let limits = EngineLimits {
        // The calendar of the run is another one.
        offline_ttl: None,
        ..limits()
    };
    store.mend();
    Coordinator::load(
        me,
        limits,
        Arc::clone(store) as Arc<dyn agentanycast_store::Store>,
        now,
        1,
    )
    .unwrap()
}

/// One call of a client. A number names one of the tasks that were accepted in earlier rounds.
#[derive(Clone, Debug)]
enum ClientStep {
    /// A task for the node's own agent.
    Send,
    /// A task for a peer that nobody has heard of: its queue has to be read from the store.
    SendAway,
    Work(usize),
    Complete(usize),
    Fail(usize),
    Cancel(usize),
}

fn step() -> impl Strategy<Value = ClientStep> {
    prop_oneof![
        6 => Just(ClientStep::Send),
        2 => Just(ClientStep::SendAway),
        4 => (0_usize..64).prop_map(ClientStep::Work),
        4 => (0_usize..64).prop_map(ClientStep::Complete),
        1 => (0_usize..64).prop_map(ClientStep::Fail),
        1 => (0_usize..64).prop_map(ClientStep::Cancel),
    ]
}

fn fault() -> impl Strategy<Value = StoreFault> {
    let moment = prop_oneof![
        Just(FaultPoint::Apply),
        Just(FaultPoint::Barrier),
        Just(FaultPoint::Read)
    ];
    // The later ones are never reached: some runs have to end well.
    (moment, 0_usize..60, any::<bool>(), 0_u64..3).prop_map(|(moment, at, once, slow)| StoreFault {
        moment,
        at,
        once,
        slow: Duration::from_millis(slow),
    })
}

/// The tasks as they were answered: a status for each that was accepted, and who it is for.
#[derive(Default)]
struct AnswerLog {
    order: Vec<String>,
    tasks: BTreeMap<String, (Status, bool)>,
    failed: bool,
}

enum ClientAnswer {
    Accepted { id: String, away: bool },
    Is(String, Status),
    Refused(EngineError),
}

impl AnswerLog {
    /// A task of an earlier round, if there is one of the node's own.
    fn pick(&self, number: usize) -> Option<String> {
        let id = self.order.get(number % self.order.len().max(1))?;
        Some(id.clone()).filter(|id| !self.tasks[id].1)
    }

    fn note(&mut self, store: &FaultyStore, answer: ClientAnswer) {
        match answer {
            ClientAnswer::Accepted { id, away } => {
                self.order.push(id.clone());
                self.tasks.insert(id, (Status::Submitted, away));
            }
            ClientAnswer::Is(id, status) => {
                let away = self.tasks[&id].1;
                self.tasks.insert(id, (status, away));
            }
            // A bad step for this state, such as completing what has been canceled.
            ClientAnswer::Refused(EngineError::Precondition(_)) => {}
            ClientAnswer::Refused(EngineError::Store(why)) => {
                assert!(store.has_failed(), "refused without a reason: {why}");
                self.failed = true;
            }
            ClientAnswer::Refused(other) => panic!("{other:?}"),
        }
    }
}

/// Does one step. What is answered with OK is durable at that moment.
async fn carry_out(
    engine: Engine,
    store: Arc<FaultyStore>,
    step: ClientStep,
    task: Option<String>,
    away: u8,
) -> Option<ClientAnswer> {
    let told = |id: &str, status: Status| {
        assert_eq!(
            store.durable_status(id),
            Some(status),
            "{step:?} was answered, and {id} is not durable"
        );
        ClientAnswer::Is(id.to_owned(), status)
    };
    let answer = match &step {
        ClientStep::Send | ClientStep::SendAway => {
            let is_away = matches!(step, ClientStep::SendAway);
            let request = SendTask {
                peer: Some(if is_away { peer(away) } else { engine.me() }),
                message: text("m", "do it"),
                ..SendTask::default()
            };
            engine.send_task(request.into()).await.map(|task| {
                told(&task.id, Status::Submitted);
                ClientAnswer::Accepted {
                    id: task.id,
                    away: is_away,
                }
            })
        }
        ClientStep::Work(_) => {
            let id = task?;
            let done = engine.update(id.clone(), Status::Working, None, 1).await;
            done.map(|()| told(&id, Status::Working))
        }
        ClientStep::Complete(_) => {
            let id = task?;
            let done = engine
                .complete(id.clone(), vec![artifact("a", "done")], None, None, 1)
                .await;
            done.map(|()| told(&id, Status::Completed))
        }
        ClientStep::Fail(_) => {
            let id = task?;
            let done = engine.fail(id.clone(), "no".into(), None, 1).await;
            done.map(|()| told(&id, Status::Failed))
        }
        ClientStep::Cancel(_) => {
            let id = task?;
            engine.cancel(id.clone()).await.map(|task| told(&id, task.status))
        }
    };
    Some(answer.unwrap_or_else(ClientAnswer::Refused))
}

/// What a listener or a subscriber is shown is durable.
fn watch(store: &FaultyStore, id: &str, status: Status, who: &str) {
    let durable = store.durable_status(id);
    assert!(
        durable
            .is_some_and(|durable| durable == status || status.may_become(durable) || durable.is_terminal()),
        "the {who} was shown {id} {status}, and durable is {durable:?}"
    );
}

async fn listen(engine: Engine, store: Arc<FaultyStore>) {
    let Ok(mut listener) = engine.listen(ListenRequest::on_connection(1), || false).await else {
        return;
    };
    while let Some(OfferedTask { task, .. }) = listener.next().await {
        // A new task promises nothing: it comes before it is durable, and before its sender is answered.
        if task.status != Status::Submitted {
            watch(&store, &task.id, task.status, "agent");
        }
    }
}

async fn follow(mut subscription: Subscription, store: Arc<FaultyStore>) {
    while let Some(change) = subscription.next().await {
        let TaskChange { task_id, status, .. } = &*change;
        watch(&store, task_id, *status, "subscriber");
    }
}

/// Rounds of steps that go on at once, each on a task of its own.
async fn play(node: &RunningEngine, rounds: Vec<Vec<ClientStep>>) -> (AnswerLog, JoinSet<()>) {
    let (engine, store) = (&node.engine, &node.store);
    let mut answered = AnswerLog::default();
    let mut watchers = JoinSet::new();
    watchers.spawn(listen(engine.clone(), Arc::clone(store)));
    let mut strangers = 100_u8;
    for round in rounds {
        let had_failed = answered.failed;
        let known = answered.order.len();
        let mut taken = Vec::new();
        let mut calls = JoinSet::new();
        for step in round {
            let task = match step {
                ClientStep::Send | ClientStep::SendAway => None,
                ClientStep::Work(at)
                | ClientStep::Complete(at)
                | ClientStep::Fail(at)
                | ClientStep::Cancel(at) => answered.pick(at),
            };
            if task.as_ref().is_some_and(|task| taken.contains(task)) {
                continue;
            }
            taken.extend(task.clone());
            strangers = strangers.wrapping_add(1);
            calls.spawn(carry_out(
                engine.clone(),
                Arc::clone(store),
                step,
                task,
                strangers,
            ));
        }
        while let Some(answer) = timeout(DEADLINE, calls.join_next())
            .await
            .expect("each call is answered")
        {
            if let Some(answer) = answer.unwrap() {
                let accepted = !matches!(answer, ClientAnswer::Refused(_));
                assert!(
                    !(had_failed && accepted),
                    "the store has failed, and a call is answered with OK"
                );
                answered.note(store, answer);
            }
        }
        for id in &answered.order[known..] {
            match engine.subscribe(id.clone()).await {
                Ok((_, subscription)) => {
                    watchers.spawn(follow(subscription, Arc::clone(store)));
                }
                Err(error) => assert!(store.has_failed(), "{error}"),
            }
        }
    }
    (answered, watchers)
}

/// Those who watch end with the node; what they saw was right.
async fn watched_well(mut watchers: JoinSet<()>) {
    while let Some(watcher) = timeout(DEADLINE, watchers.join_next())
        .await
        .expect("each watcher ends")
    {
        watcher.unwrap();
    }
}

fn what_was_answered_is_there(
    store: &Arc<FaultyStore>,
    me: agentanycast_identity::PeerId,
    answered: &AnswerLog,
    exactly: bool,
) {
    let mut core = reopened(store, me);
    for (id, (status, away)) in &answered.tasks {
        let task = core
            .task(id)
            .unwrap_or_else(|error| panic!("{id} was answered: {error}"));
        assert_eq!(matches!(task.role, Role::Originator(_)), *away);
        if exactly {
            assert_eq!(task.status, *status, "{id}");
        } else {
            assert!(task.status == *status || status.may_become(task.status) || task.status.is_terminal());
        }
    }
    let kept = core
        .tasks_mut()
        .list(&crate::TaskQuery::default(), None, 10_000)
        .unwrap()
        .tasks
        .len();
    let (sent, away) = (
        answered.tasks.len(),
        answered.tasks.values().filter(|(_, away)| *away).count(),
    );
    if exactly {
        assert_eq!(
            (kept, core.queued()),
            (sent, away),
            "nothing beyond what was answered"
        );
    } else {
        assert!(kept >= sent && core.queued() >= away);
    }
}

fn cases() -> u32 {
    let cases = std::env::var("AGENTANYCAST_FAULT_CASES").ok();
    cases.map_or(64, |cases| {
        cases.parse().expect("AGENTANYCAST_FAULT_CASES is a number")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn what_was_answered_is_what_is_there(
        rounds in vec(vec(step(), 1..12), 1..12),
        fault in fault(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let moment = fault.moment;
            let store = Arc::new(FaultyStore::new(fault));
            let node = RunningEngine::start(Arc::clone(&store), &MemoryNetwork::default());
            store.arm();
            let me = node.engine.me();
            let (answered, watchers) = play(&node, rounds).await;
            if store.has_failed() {
                let failed = timeout(DEADLINE, node.engine.failed()).await;
                assert!(failed.is_ok(), "the store has failed, and health does not say so");
                let late = node.engine.send_task(Box::default()).await;
                assert!(matches!(late, Err(EngineError::Store(_))), "{late:?}");
            } else {
                assert!(!answered.failed);
            }
            let store = node.end().await;
            watched_well(watchers).await;
            // A failed read leaves batches on their way that nobody was told of.
            let exactly = !(moment == FaultPoint::Read && store.has_failed());
            what_was_answered_is_there(&store, me, &answered, exactly);
        });
    }
}

/// The receiver's store fails in the middle: its peer has acknowledgements for exactly what is durable, and
/// the rest still waits in its queue.
async fn a_receivers_store_fails(fault: StoreFault) {
    // Enough for the fault to come, however many tasks share a barrier; few of them are sent.
    const MAX_TASKS: usize = 5000;
    let network = MemoryNetwork::default();
    let alice = RunningEngine::start(Arc::new(FaultyStore::sound()), &network);
    let bob = RunningEngine::start(Arc::new(FaultyStore::new(fault)), &network);
    network.connect(alice.engine.me(), bob.engine.me()).await;
    bob.store.arm();
    let queued = async || {
        let depths = alice.engine.metrics().await.unwrap().depths;
        depths.queued + depths.sent + depths.parked
    };
    let mut sent = 0;
    while sent < MAX_TASKS && bob.engine.failure().is_none() {
        let request = SendTask {
            peer: Some(bob.engine.me()),
            message: text("m", "do it"),
            ..SendTask::default()
        };
        alice.engine.send_task(request.into()).await.unwrap();
        sent += 1;
        let acknowledged = sent - queued().await;
        let durable = bob.store.durable_tasks();
        assert!(
            acknowledged <= durable,
            "{acknowledged} acknowledged, {durable} durable"
        );
    }
    timeout(DEADLINE, bob.engine.failed())
        .await
        .expect("the store fails");
    let durable = bob.store.durable_tasks();
    assert!(durable < sent, "the store failed too late for this test");
    let all_acknowledged = async {
        while sent - queued().await < durable {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, all_acknowledged)
        .await
        .expect("what is durable is acknowledged");
    assert_eq!(sent - queued().await, durable, "nothing else is");
    bob.end().await;
    alice.end().await;
}

#[tokio::test]
async fn a_receiver_that_cannot_write_acknowledges_nothing_more() {
    for at in [0, 1, 7] {
        a_receivers_store_fails(StoreFault::at(FaultPoint::Apply, at)).await;
    }
}

#[tokio::test]
async fn a_receiver_that_cannot_sync_acknowledges_nothing_more() {
    for at in [0, 1, 7] {
        a_receivers_store_fails(StoreFault::at(FaultPoint::Barrier, at)).await;
    }
}

/// A task that ended two agents goes to one listener alone, and others wait for its report. What waited is handed over with
/// that report, which is no call of the listener's.
#[tokio::test]
async fn a_task_that_waited_for_another_ones_report_is_handed_over() {
    let node = RunningEngine::start(Arc::new(FaultyStore::sound()), &MemoryNetwork::default());
    let send = async |id: &str| {
        let request = SendTask {
            peer: Some(node.engine.me()),
            message: text(id, "do it"),
            ..SendTask::default()
        };
        node.engine.send_task(request.into()).await.unwrap().id
    };
    let handed_over = async |listener: &mut engine::AgentListener| {
        let offered = timeout(DEADLINE, listener.next())
            .await
            .expect("it is handed over");
        offered.unwrap().task.id.clone()
    };
    let ends_its_agent = send("m1").await;
    for connection in 1..=2 {
        let mut listener = node
            .engine
            .listen(ListenRequest::on_connection(connection), || true)
            .await
            .unwrap();
        assert_eq!(handed_over(&mut listener).await, ends_its_agent);
    }
    let mut listener = node
        .engine
        .listen(ListenRequest::on_connection(3), || false)
        .await
        .unwrap();
    assert_eq!(handed_over(&mut listener).await, ends_its_agent);
    let waits = send("m2").await;
    let report = node.engine.update(ends_its_agent, Status::Working, None, 3);
    report.await.unwrap();
    assert_eq!(handed_over(&mut listener).await, waits);
    drop(listener);
    node.end().await;
}

/// A disk that takes its time: everything is answered, nothing before it is durable (see `carry_out`).
#[tokio::test]
async fn a_slow_disk_slows_and_loses_nothing() {
    let slow = StoreFault {
        slow: Duration::from_millis(30),
        ..StoreFault::at(FaultPoint::Barrier, usize::MAX)
    };
    let store = Arc::new(FaultyStore::new(slow));
    let node = RunningEngine::start(Arc::clone(&store), &MemoryNetwork::default());
    store.arm();
    let me = node.engine.me();
    let rounds = vec![
        vec![ClientStep::Send; 40],
        (0..40).map(ClientStep::Work).collect(),
        (0..40).map(ClientStep::Complete).collect(),
    ];
    let (answered, watchers) = play(&node, rounds).await;
    assert!(!answered.failed);
    assert!(
        answered
            .tasks
            .values()
            .all(|(status, _)| *status == Status::Completed)
    );
    let store = node.end().await;
    watched_well(watchers).await;
    what_was_answered_is_there(&store, me, &answered, true);
    assert!(store.get(b"nothing").unwrap().is_none());
}

/// An agent that goes away while it begins an artifact leaves none open, which would keep its successor from completing
/// the task.
#[tokio::test]
async fn an_artifact_whose_agent_went_away_at_its_beginning_has_ended() {
    let node = RunningEngine::start(Arc::new(FaultyStore::sound()), &MemoryNetwork::default());
    let request = SendTask {
        peer: Some(node.engine.me()),
        message: text("m", "do it"),
        ..SendTask::default()
    };
    let task = node.engine.send_task(request.into()).await.unwrap().id.clone();
    let begun = node.engine.update(task.clone(), Status::Working, None, 1);
    begun.await.unwrap();
    for artifact in ["a", "b", "c"] {
        let start = StreamStart {
            task_id: task.clone(),
            artifact_id: artifact.into(),
            ..StreamStart::default()
        };
        let call = Box::pin(node.engine.stream_artifact(start, 1));
        assert!(
            call.now_or_never().is_none(),
            "it is under way when it is dropped"
        );
    }
    let completed = node.engine.complete(task.clone(), Vec::new(), None, None, 2);
    timeout(DEADLINE, completed).await.unwrap().unwrap();
    let task = node.engine.task(task).await.unwrap();
    assert_eq!((task.status, task.open_streams().count()), (Status::Completed, 0));
    assert!(!task.results.is_empty(), "what had begun is known");
    node.end().await;
}
