//! Those who send. A bare one repeats a SendTask that got no answer with the same key, or gives up; then it
//! follows its task to the end over all of its daemon's deaths. The SDK's does what the SDK does.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentanycast::{Node, PeerId, Target};
use agentanycast_proto::v1::{self, TaskStatus};
use agentanycast_tests::{LIMIT, rpc};
use futures::StreamExt as _;
use rand::{RngExt as _, rngs::StdRng};

use super::{
    NUMBER,
    grpc_connection::{connect_grpc, is_connection_lost},
    history::CrashHistory,
    question,
};

/// One task, and who sends it.
pub(super) struct Originator {
    number: String,
    socket: PathBuf,
    peer: PeerId,
    ledger: Arc<CrashHistory>,
    /// When in the round it sends.
    pause: Duration,
    /// It does not repeat a send without an answer.
    fickle: bool,
}

impl Originator {
    pub(super) fn new(
        number: String,
        socket: &Path,
        peer: &PeerId,
        ledger: &Arc<CrashHistory>,
        mut dice: StdRng,
    ) -> Self {
        Self {
            number,
            socket: socket.to_owned(),
            peer: peer.clone(),
            ledger: Arc::clone(ledger),
            pause: Duration::from_millis(dice.random_range(0..200)),
            fickle: dice.random_ratio(1, 4),
        }
    }

    /// Sends, and waits for the end.
    pub(super) async fn run(self, sdk: Option<&Node>) {
        tokio::time::sleep(self.pause).await;
        let (number, ledger) = (self.number.clone(), Arc::clone(&self.ledger));
        let sent = async {
            match sdk {
                Some(node) => self.by_sdk(node).await,
                None => self.bare().await,
            }
        };
        let ended = tokio::time::timeout(LIMIT, sent).await;
        assert!(
            ended.is_ok(),
            "task {number} does not end; of those that do not: {}",
            ledger.open_stories()
        );
    }

    async fn by_sdk(self, node: &Node) {
        let task = node.task(Target::Peer(self.peer), question(&self.number));
        let handle = task.metadata(NUMBER, &self.number).send().await.unwrap();
        self.ledger.accepted_task(handle.id());
        let mut updates = handle.updates();
        let mut ends = 0;
        while let Some(update) = updates.next().await {
            let status = v1::TaskStatus::try_from(i32::from(update.unwrap().status)).unwrap();
            self.ledger.saw(handle.id(), status);
            ends += usize::from(status == TaskStatus::Completed);
        }
        assert_eq!(ends, 1, "terminal events of task {}", handle.id());
        read(&self.socket, &self.ledger, &[handle.id().to_owned()]).await;
    }

    async fn bare(self) {
        let Some(id) = self.send().await else {
            self.ledger.count(|figures| figures.sends_given_up += 1);
            return;
        };
        self.ledger.accepted_task(&id);
        while !self.follow(&id).await {}
        read(&self.socket, &self.ledger, &[id]).await;
    }

    /// The task's id; none if it was given up.
    async fn send(&self) -> Option<String> {
        let mut request = rpc::to_peer(&self.peer, rpc::text(&question(&self.number)));
        request.metadata.insert(NUMBER.to_owned(), self.number.clone());
        request.idempotency_key = format!("key of {}", self.number);
        loop {
            let mut wire = connect_grpc(&self.socket, &self.ledger).await;
            match wire.rpc.send_task(request.clone()).await {
                Ok(answer) => return Some(answer.into_inner().task.unwrap().task_id),
                Err(status) if is_connection_lost(&status) => {
                    self.ledger.count(|figures| figures.sends_unanswered += 1);
                    if self.fickle {
                        return None;
                    }
                }
                Err(status) => panic!("SendTask {}: {status}", self.number),
            }
        }
    }

    /// Follows the task as long as the connection lives; whether it has ended. There is one terminal event,
    /// and it is the last.
    async fn follow(&self, id: &str) -> bool {
        let mut wire = connect_grpc(&self.socket, &self.ledger).await;
        let request = v1::SubscribeTaskUpdatesRequest {
            task_id: id.to_owned(),
            ..Default::default()
        };
        let mut events = match wire.rpc.subscribe_task_updates(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) if is_connection_lost(&status) => return false,
            Err(status) => panic!("SubscribeTaskUpdates of {id}: {status}"),
        };
        let mut ended = false;
        loop {
            match events.message().await {
                Ok(Some(event)) => {
                    assert!(!ended, "task {id} has an event after its end: {event:?}");
                    self.ledger.saw(id, event.status());
                    ended = event.status() == TaskStatus::Completed;
                }
                Ok(None) => {
                    assert!(ended, "the updates of task {id} ended before it");
                    return true;
                }
                // The daemon may die between the last event and the end of the stream.
                Err(_) => return ended,
            }
        }
    }
}

/// Reads tasks whole and holds them against what is known.
pub(super) async fn read(socket: &Path, ledger: &CrashHistory, ids: &[String]) {
    let mut wire = connect_grpc(socket, ledger).await;
    let mut left = ids.iter();
    let mut next = left.next();
    while let Some(id) = next {
        match rpc::get(&mut wire.rpc, id).await {
            Ok(task) => {
                ledger.read(task);
                next = left.next();
            }
            Err(status) if is_connection_lost(&status) => wire = connect_grpc(socket, ledger).await,
            Err(status) => panic!("GetTask of {id}: {status}"),
        }
    }
}
