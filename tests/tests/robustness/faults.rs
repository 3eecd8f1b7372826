//! The store fails for real: a disk that is full or breaks, files that are cut, changed or gone, a place that
//! cannot be used. What was answered with OK stays; what cannot be done is refused with a clear status; a
//! daemon that cannot start says so in one line that names the place; who the node is never changes.
//!
//! Those with a disk of their own need root and loop devices, see `disk.rs` of the fixtures.
//! `AGENTANYCAST_FAULT_SEEDS` is how many random damages are tried on each file; default 2.

mod clock;
mod damage;
mod disk;
mod fd_exhaustion;
mod journal_segments;
mod lost_tail;
mod spool;
mod store_location;

use std::{collections::BTreeMap, path::Path};

use agentanycast::PeerId;
use agentanycast_tests::{
    Daemon, eventually,
    rpc::{self, Rpc, text},
};
use tonic::{Code, Status};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

/// What was sent and accepted: each task's id, and what it says.
#[derive(Clone, Debug, Default)]
struct AcceptedTasks(BTreeMap<String, String>);

impl AcceptedTasks {
    /// Sends one more task of `bytes` bytes; it counts if it is accepted.
    async fn send(&mut self, rpc: &mut Rpc, peer: &PeerId, bytes: usize) -> Result<(), Status> {
        // Not byte by byte: it would take longer than the daemon takes.
        let what = format!(
            "task {} {}",
            self.0.len(),
            "abcdefghijklmnopqrstuvwxyz".repeat(bytes / 26)
        );
        let answer = rpc.send_task(rpc::to_peer(peer, text(&what))).await?;
        let task = answer.into_inner().task.expect("an accepted task");
        self.0.insert(task.task_id, what);
        Ok(())
    }

    /// Each task that was accepted is there, as it was sent.
    async fn is_kept_by(&self, daemon: &Daemon) {
        let mut rpc = daemon.rpc().await;
        for (id, what) in &self.0 {
            let task = rpc::get(&mut rpc, id).await;
            let task = task.unwrap_or_else(|error| panic!("{id} was accepted and is not there: {error}"));
            assert_eq!(rpc::text_of(&task.messages[0].parts), *what, "{id}");
        }
    }

    /// How many of the tasks are there; those are as they were sent. A task that is there but cannot be
    /// read is refused by name.
    async fn found_at(&self, daemon: &Daemon) -> usize {
        let mut rpc = daemon.rpc().await;
        let mut found = 0;
        for (id, what) in &self.0 {
            match rpc::get(&mut rpc, id).await {
                Ok(task) => {
                    let said = task.messages.first().map(|message| rpc::text_of(&message.parts));
                    assert_eq!(said.as_ref(), Some(what), "{id} is not what was sent");
                    found += 1;
                }
                Err(status) if status.code() == Code::NotFound => {}
                Err(status) => assert!(is_clear(&status), "{status}"),
            }
        }
        found
    }
}

/// A refusal that says what is wrong, and that is not the caller's fault.
fn is_clear(status: &Status) -> bool {
    matches!(status.code(), Code::Internal | Code::ResourceExhausted) && !status.message().is_empty()
}

/// Waits until the daemon says of itself that it does not serve.
async fn not_serving(daemon: &Daemon) {
    let channel = rpc::channel(daemon.grpc()).await.unwrap();
    // Probes ask for the whole, without a name.
    for service in ["agentanycast.v1.NodeService", ""] {
        eventually("the daemon is NOT_SERVING", || async {
            let service = service.to_owned();
            let request = HealthCheckRequest { service };
            let answer = HealthClient::new(channel.clone()).check(request).await.unwrap();
            (answer.into_inner().status() == ServingStatus::NotServing).then_some(())
        })
        .await;
    }
}

/// No thread of the daemon has panicked, as far as its log tells. The database library may where it meets
/// damaged files; that is caught, and is a line of the log.
fn has_not_panicked(log: &str) {
    assert!(
        !log.contains("panicked at") && !log.contains("stack backtrace"),
        "the daemon panicked:\n{log}"
    );
    let ours = log
        .lines()
        .filter(|line| line.contains("a thread panicked") && !line.contains("/sled-"));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// What was moved aside in the store's directory.
fn moved_aside(data: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(data)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.to_string_lossy().contains(".corrupt-"))
        .collect()
}

/// A size that the environment may set.
fn size(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| {
        value.parse().unwrap_or_else(|_| panic!("{name} is a number"))
    })
}
