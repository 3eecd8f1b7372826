//! The agents of a run, each with a connection of its own, and what they were given.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use agentanycast_uap_hub::{
    agent::{AgentSession, HubConnection, HubEndpoint, Proposal, SessionEnd, SessionRunner},
    v1::{AgentRegistration, Capability, StepReport, StepStatus, TestCapability, capability::Format},
};
use async_trait::async_trait;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::TYPES;

/// All agents. Dropping it ends them.
pub(crate) struct Fleet {
    given: Arc<Given>,
    _stop: DropGuard,
}

/// What agents were given.
#[derive(Default)]
struct Given {
    connected: AtomicUsize,
    /// Names of tasks, in the order in which they were given, with their types.
    tasks: Mutex<Vec<(String, String)>>,
}

struct Agent(Arc<Given>);

#[async_trait]
impl SessionRunner for Agent {
    fn registration(&self) -> AgentRegistration {
        let test = |kind: &&str| Capability {
            format: Some(Format::Test(TestCapability {
                r#type: (*kind).to_owned(),
                payloads: Vec::new(),
            })),
        };
        AgentRegistration {
            display_name: "agent".to_owned(),
            capabilities: TYPES.iter().map(test).collect(),
        }
    }

    fn accepts(&self, _: &Proposal) -> Result<(), String> {
        Ok(())
    }

    async fn carry_out(&self, session: AgentSession) -> SessionEnd {
        let name = session.payloads[0].attachment.as_ref().unwrap().name.clone();
        self.0.tasks.lock().unwrap().push((name, session.kind));
        // A hub that has ended is seen by the count of tasks.
        let _ = session.progress.running("on it").await;
        let step = |name: &str| StepReport {
            name: name.to_owned(),
            status: StepStatus::Passed.into(),
            ..StepReport::default()
        };
        let steps = ["open", "type", "close"].map(step);
        steps
            .into_iter()
            .fold(SessionEnd::completed(), SessionEnd::with_report)
    }

    fn connected(&self, _: &str) {
        self.0.connected.fetch_add(1, Relaxed);
    }
}

impl Fleet {
    /// So many agents at this hub, when all listen.
    pub(crate) async fn connect(url: &str, count: usize) -> Self {
        let given = Arc::<Given>::default();
        let stop = CancellationToken::new();
        for _ in 0..count {
            let agent = Agent(Arc::clone(&given));
            let connection = HubConnection::new(HubEndpoint::new(url).unwrap()).with_drain(Duration::ZERO);
            tokio::spawn(connection.run(Arc::new(agent), stop.clone().cancelled_owned()));
        }
        while given.connected.load(Relaxed) < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // What the last ones have said is heard.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Self {
            given,
            _stop: stop.drop_guard(),
        }
    }

    /// Checks that each of so many tasks was given once.
    pub(crate) fn check(&self, count: usize) {
        let tasks = self.given.tasks.lock().unwrap();
        assert_eq!(tasks.len(), count, "each is given");
        let names: HashSet<&str> = tasks.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), count, "none is given twice");
    }

    /// Checks that types have taken turns, from when tasks of all had come until the first type had no more.
    pub(crate) fn check_turns(&self) {
        let tasks = self.given.tasks.lock().unwrap();
        let of = |kind: &'static str| move |(_, of): &(String, String)| of == kind;
        let first = TYPES.map(|kind| tasks.iter().position(of(kind)).unwrap());
        let last = TYPES.map(|kind| tasks.iter().rposition(of(kind)).unwrap());
        let window = &tasks[first.into_iter().max().unwrap()..last.into_iter().min().unwrap()];
        let share = window.len() / TYPES.len();
        let shares = TYPES.map(|kind| window.iter().filter(|task| of(kind)(task)).count());
        println!(
            "in {} sessions while all types had tasks: {shares:?} of {TYPES:?}",
            window.len()
        );
        assert!(shares.iter().all(|count| count.abs_diff(share) <= share / 4));
    }
}
