//! Hostile input: whatever a peer or a client sends, the daemon neither crashes nor grows without bound,
//! says clearly what it refuses, and serves everybody else meanwhile.
//!
//! Every test is a [`AttackedDaemon`]: one daemon under attack, an honest daemon beside it whose tasks have to
//! complete before, during and after. `AGENTANYCAST_PROOF_JUNK_SECONDS` (5), `AGENTANYCAST_PROOF_CARDS`
//! (10 000) and `AGENTANYCAST_PROOF_IDENTITIES` (500) make the floods longer.

mod artifact_streams;
mod cards;
mod envelopes;
mod floods;
mod frames;
mod impostors;
mod man_in_the_middle;
mod message_limits;
mod sessions;
mod unread_streams;

use std::{fmt::Debug, str::FromStr};

use agentanycast::{Artifact, Node, PeerId, Target};
use agentanycast_proto::v1::{self, AckOutcome, AckPayload};
use agentanycast_tests::{
    Daemon, DaemonBuilder,
    agent::TestAgent,
    proc_stats::{open_files, peak_rss_bytes, rss_bytes, threads},
    rpc::{self, Rpc},
    task_assertions::completed,
    within,
};
use rustix::process::Pid;
use tokio::sync::watch;

/// One MiB.
pub(crate) const MIB: u64 = 1 << 20;

/// What the caches may take: the tasks' (256 MiB) and the store's pages (64 MiB), and a quarter of it lost between
/// the pieces. Attacks that bring much honest content fill them.
pub(crate) const CACHES: u64 = 400 * MIB;

/// A task whose text begins so is claimed and held until [`AttackedDaemon::release`].
pub(crate) const HOLD: &str = "hold";

/// A daemon under attack, with an echo agent on it, and an honest daemon beside it.
pub(crate) struct AttackedDaemon {
    pub(crate) daemon: Daemon,
    /// The SDK's connection to the daemon under attack.
    pub(crate) node: Node,
    /// Bare gRPC to the same.
    pub(crate) rpc: Rpc,
    /// The SDK's connection to the honest daemon.
    pub(crate) ally: Node,
    _ally: Daemon,
    _agent: TestAgent,
    released: watch::Sender<bool>,
    pid: Pid,
    /// Memory before the attack, in bytes.
    calm: u64,
}

impl AttackedDaemon {
    /// Both daemons are up, connected, and have done some work.
    pub(crate) async fn begin() -> Self {
        Self::begin_with(Daemon::builder()).await
    }

    /// As [`AttackedDaemon::begin`], with this daemon to be attacked.
    pub(crate) async fn begin_with(builder: DaemonBuilder) -> Self {
        let daemon = builder.start().await;
        let ally_daemon = Daemon::builder().bootstrap(daemon.tcp()).start().await;
        let (node, ally) = (daemon.node().await, ally_daemon.node().await);
        let (released, holds) = watch::channel(false);
        let siege = Self {
            _agent: agent(&node, holds),
            rpc: daemon.rpc().await,
            pid: daemon.pid(),
            daemon,
            node,
            ally,
            _ally: ally_daemon,
            released,
            calm: 0,
        };
        siege.honest_work(20).await;
        let calm = rss_bytes(siege.pid);
        Self { calm, ..siege }
    }

    /// Who is under attack.
    pub(crate) fn id(&self) -> &PeerId {
        self.daemon.peer_id()
    }

    /// The honest daemon sends tasks, 16 at a time, and each completes with the right answer.
    pub(crate) async fn honest_work(&self, tasks: usize) {
        honest_work(&self.ally, self.id(), tasks).await;
    }

    /// Lets the agent complete the tasks that it holds.
    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    /// A task as the daemon under attack has it.
    pub(crate) async fn task(&self, id: &str) -> Result<v1::Task, tonic::Status> {
        rpc::get(&mut self.rpc.clone(), id).await
    }

    /// How much memory the attack has cost at most so far, in bytes.
    pub(crate) fn grown(&self) -> u64 {
        peak_rss_bytes(self.pid).saturating_sub(self.calm)
    }

    /// The end: it is the same process, it never took more than `room` bytes above what it had before the
    /// attack, honest tasks complete, and it stops in order and in time.
    pub(crate) async fn endured(mut self, room: u64) {
        self.honest_work(20).await;
        assert_eq!(self.daemon.pid(), self.pid);
        let grown = self.grown();
        eprintln!(
            "{}: {} MiB before, at most {} MiB more, {} MiB now, {} files, {} threads",
            std::thread::current().name().unwrap_or("a test"),
            self.calm / MIB,
            grown / MIB,
            rss_bytes(self.pid) / MIB,
            open_files(self.pid),
            threads(self.pid),
        );
        assert!(
            grown <= room,
            "the daemon grew by {} MiB under attack; {} MiB were to suffice",
            grown / MIB,
            room / MIB
        );
        self.daemon.stop().await;
    }
}

/// Echoes, except that it holds what it is told to hold.
fn agent(node: &Node, released: watch::Receiver<bool>) -> TestAgent {
    TestAgent::serve(node, move |task| {
        let mut released = released.clone();
        async move {
            let text = task.message().text_content();
            if text.starts_with(HOLD) {
                task.working("holding").await?;
                let cancelled = task.cancelled();
                tokio::select! {
                    _ = released.wait_for(|released| *released) => {}
                    () = cancelled.cancelled() => return Ok(()),
                }
            }
            task.complete([Artifact::text(format!("echo: {text}"))]).await?;
            Ok(())
        }
    })
}

/// Sends tasks, 16 at a time; each completes with the right answer.
pub(crate) async fn honest_work(from: &Node, to: &PeerId, tasks: usize) {
    const AT_ONCE: usize = 16;
    let one = |number: usize| async move {
        let text = format!("honest {number}");
        let sending = from.send_task(Target::Peer(to.clone()), text.as_str());
        let handle = within("a task is taken", sending).await.unwrap();
        assert_eq!(completed(&handle).await.text_content(), format!("echo: {text}"));
    };
    let numbers: Vec<usize> = (0..tasks).collect();
    for some in numbers.chunks(AT_ONCE) {
        futures::future::join_all(some.iter().copied().map(one)).await;
    }
}

/// Asserts that an acknowledgement is a refusal that says why.
pub(crate) fn assert_refused(ack: &AckPayload, what: &dyn Debug) {
    assert_eq!(ack.outcome(), AckOutcome::Rejected, "{what:?}");
    assert!(!ack.reason.is_empty(), "{what:?} was refused without a reason");
}

/// Asserts that an acknowledgement is none.
pub(crate) fn assert_accepted(ack: &AckPayload, what: &dyn Debug) {
    assert_eq!(ack.outcome(), AckOutcome::Accepted, "{what:?}: {}", ack.reason);
}

/// The size of a flood: from the environment, or the short one.
pub(crate) fn size<T: FromStr>(variable: &str, short: T) -> T {
    let Ok(text) = std::env::var(variable) else {
        return short;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{variable}={text} is no number"))
}
