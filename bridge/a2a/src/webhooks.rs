//! Tells webhooks what becomes of their tasks: at least once, in order for each, tried again for a day.
//!
//! The node keeps what clients asked for, and how far each webhook was told, as notes of the task; so this goes on
//! where it stood, in whichever bridge. What is next follows from the task and that note alone (`a2a::push`). The one
//! rule: a webhook has been told when it has answered so, and then that is noted before it is told more.

mod post;

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use agentanycast_egress::egress_filter::EgressFilter;
use agentanycast_gateway::{ErrorKind, Gateway, GatewayError, is_terminal};
use agentanycast_limits::Backoff;
use agentanycast_proto::v1;
use futures::StreamExt as _;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::protocol::{
    LABELS, encode,
    message::TaskContext,
    now,
    push::{self, NOTE, WebhookEvent},
};
use post::{PostError, Poster};

/// Webhooks that are told something at once: so many of each lane. Callers share lanes by chance, so that one whose
/// webhooks hang keeps few others waiting.
const LANES: usize = 16;
const IN_LANE: usize = 16;

/// Notifications of one webhook, after which the next one has its turn.
const IN_ONE_TURN: usize = 16;

/// The pauses after notifications that did not arrive.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));

/// Pause before the node is asked again that could not be; and one that is too old for notes.
const NODE_PAUSE: Duration = Duration::from_secs(1);
const OLD_NODE_PAUSE: Duration = Duration::from_mins(1);

/// A webhook: its task, and the name of its note.
type WebhookKey = (String, String);

/// See the module's text.
pub(crate) struct WebhookNotifier {
    gateway: Arc<dyn Gateway>,
    poster: Poster,
    /// Where webhooks may be, unless a bridge has taken them that allows less.
    egress: EgressFilter,
    /// How long a webhook may be out of reach before it is given up.
    patience: Duration,
    /// Webhooks that are being told something, and whether there is more since.
    busy: Mutex<HashMap<WebhookKey, bool>>,
    lanes: [Semaphore; LANES],
}

/// What became of one look at a webhook.
enum DeliveryOutcome {
    /// There is nothing more to tell now.
    UpToDate,
    /// It has to be looked at again: there is more, or somebody has set or deleted it.
    Again,
    /// It was not reached, after so many notifications that were.
    Unreached(usize),
}

/// Whether a note was written.
enum NoteWrite {
    Written,
    /// Somebody has set or deleted it meanwhile.
    Changed,
}

impl WebhookNotifier {
    /// Before this node; `patience` is how long a webhook may be out of reach.
    ///
    /// # Errors
    /// When there is no TLS.
    pub(crate) fn new(
        gateway: Arc<dyn Gateway>,
        screen: EgressFilter,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            gateway,
            poster: Poster::new()?,
            egress: screen,
            patience,
            busy: Mutex::default(),
            lanes: std::array::from_fn(|_| Semaphore::new(IN_LANE)),
        })
    }

    /// Runs until `stop`. What is on its way then is told again by whoever goes on.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let workers = TaskTracker::new();
        while let Some(pause) = stop.run_until_cancelled(self.watch(&workers, &stop)).await {
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
        workers.close();
        workers.wait().await;
    }

    /// Looks after open notes until the node does not say more; how long to wait before it is asked again.
    async fn watch(self: &Arc<Self>, workers: &TaskTracker, stop: &CancellationToken) -> Duration {
        let mut tasks = self.gateway.watch_notes();
        while let Some(next) = tasks.next().await {
            match next {
                Ok(v1::WatchTaskNotesResponse { task_id, notes }) => {
                    let ours = notes
                        .into_iter()
                        .filter(|note| note.open && note.name.starts_with(NOTE));
                    for note in ours {
                        self.begin((task_id.clone(), note.name), workers, stop);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the node does not say which webhooks to tell; asking again");
                    let is_old = error.kind() == ErrorKind::Unsupported;
                    return if is_old { OLD_NODE_PAUSE } else { NODE_PAUSE };
                }
            }
        }
        NODE_PAUSE
    }

    fn busy(&self) -> MutexGuard<'_, HashMap<WebhookKey, bool>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a webhook told what is new, once what is being told has been.
    fn begin(self: &Arc<Self>, key: WebhookKey, workers: &TaskTracker, stop: &CancellationToken) {
        match self.busy().entry(key.clone()) {
            Entry::Occupied(mut more) => {
                more.insert(true);
                return;
            }
            Entry::Vacant(free) => {
                free.insert(false);
            }
        }
        let (notifier, stop) = (Arc::clone(self), stop.clone());
        workers.spawn(async move {
            stop.run_until_cancelled(notifier.deliver_all(&key)).await;
        });
    }

    /// Tells a webhook everything there is.
    async fn deliver_all(&self, key: &WebhookKey) {
        let mut pauses = PAUSES;
        loop {
            match self.deliver_pending(key).await {
                Ok(DeliveryOutcome::Again) => continue,
                Ok(DeliveryOutcome::UpToDate) => {}
                Ok(DeliveryOutcome::Unreached(told)) => {
                    if told > 0 {
                        pauses.reset();
                    }
                    tokio::time::sleep(pauses.next_wait()).await;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::TaskNotFound => {}
                Err(error) => {
                    tracing::debug!(task = key.0, %error, "the node cannot be asked for a webhook; asking again");
                    tokio::time::sleep(NODE_PAUSE).await;
                    continue;
                }
            }
            let mut busy = self.busy();
            if busy.get(key).copied() == Some(true) {
                busy.insert(key.clone(), false);
            } else {
                busy.remove(key);
                return;
            }
        }
    }

    /// Tells a webhook what its task, as it stands, has for it. Holds a place of its lane while it holds the task.
    async fn deliver_pending(&self, (task_id, name): &WebhookKey) -> Result<DeliveryOutcome, GatewayError> {
        let Some(owner) = self.open_note(task_id, name).await?.map(|note| note.owner) else {
            return Ok(DeliveryOutcome::UpToDate);
        };
        // It is closed never.
        let _place = self.lanes[lane_of(&owner)].acquire().await;
        let Some(mut note) = self.open_note(task_id, name).await? else {
            return Ok(DeliveryOutcome::UpToDate);
        };
        let Some(mut hook) = push::WebhookRecord::read(&note.content) else {
            tracing::error!(
                task = task_id,
                "a webhook that was noted cannot be read; it is not told"
            );
            note.open = false;
            self.keep(task_id, &mut note).await?;
            return Ok(DeliveryOutcome::UpToDate);
        };
        let task = self.gateway.task(task_id).snapshot().await?;
        for told in 0..IN_ONE_TURN {
            let Some(news) = push::next(hook.version(), &task, &hook.mark) else {
                note.open = !is_terminal(task.status());
                if !note.open {
                    self.keep(task_id, &mut note).await?;
                }
                return Ok(DeliveryOutcome::UpToDate);
            };
            let (mark, last) = (news.progress.clone(), news.last);
            match self.post(&task, news, &hook).await {
                Ok(()) => {
                    hook.mark = mark;
                    hook.failing_since = None;
                    note.open = !last;
                }
                Err(error) => {
                    let now = unix_seconds();
                    let is_first = hook.failing_since.is_none();
                    let since = *hook.failing_since.get_or_insert(now);
                    let is_over = now.saturating_sub(since) >= self.patience.as_secs();
                    if !is_over && !matches!(error, PostError::Gone) {
                        tracing::debug!(task = task_id, %error, "a webhook was not reached; trying again");
                        if is_first {
                            note.content = hook.write();
                            self.keep(task_id, &mut note).await?;
                        }
                        return Ok(DeliveryOutcome::Unreached(told));
                    }
                    tracing::warn!(task = task_id, %error, "a webhook is given up");
                    hook.given_up = true;
                    note.open = false;
                }
            }
            note.content = hook.write();
            match self.keep(task_id, &mut note).await? {
                NoteWrite::Changed => return Ok(DeliveryOutcome::Again),
                NoteWrite::Written if !note.open => return Ok(DeliveryOutcome::UpToDate),
                NoteWrite::Written => {}
            }
        }
        Ok(DeliveryOutcome::Again)
    }

    async fn open_note(&self, task_id: &str, name: &str) -> Result<Option<v1::TaskNote>, GatewayError> {
        let notes = self.gateway.notes(task_id).await?;
        Ok(notes.into_iter().find(|note| note.name == name && note.open))
    }

    /// Notes how far a webhook was told, unless somebody has set or deleted it meanwhile.
    async fn keep(&self, task_id: &str, note: &mut v1::TaskNote) -> Result<NoteWrite, GatewayError> {
        match self.gateway.put_note(task_id, note.clone(), note.version).await {
            Ok(version) => {
                note.version = version;
                Ok(NoteWrite::Written)
            }
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(NoteWrite::Changed),
            Err(error) => Err(error),
        }
    }

    async fn post(
        &self,
        task: &v1::Task,
        news: WebhookEvent,
        hook: &push::WebhookRecord,
    ) -> Result<(), PostError> {
        let place = TaskContext {
            context_id: LABELS.context_of(task).to_owned(),
            task_id: task.task_id.clone(),
        };
        let time = news.time.or_else(|| now(SystemTime::now()));
        let version = hook.version();
        let body = encode::event(version, &place, news.event, time.as_ref(), news.last);
        let screen = if hook.public_only {
            EgressFilter::Public
        } else {
            self.egress
        };
        let sent = self.poster.post(screen, &hook.webhook, version, body.to_string());
        sent.await
    }
}

fn lane_of(owner: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    owner.hash(&mut hasher);
    hasher.finish() as usize % LANES
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
