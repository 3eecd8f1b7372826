//! Tasks that are being read from the node: as many at once as memory has room for. PURE but for waiting.
//!
//! A task with its results has up to 128 MiB, and is whole in memory before anybody can say how large it is. The one rule:
//! its room is taken before it is read. What has ended does not grow, so its size is remembered; any other counts as large.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use agentanycast_proto::v1;
use lru::LruCache;
use prost::Message as _;
use tokio::sync::{AcquireError, Semaphore};

use super::{ErrorKind, GatewayError, TaskHandle, is_terminal};

/// What all tasks that are being read may have, in KiB, and those of one caller.
const ALL: u32 = 768 << 10;
const EACH: u32 = ALL / 4;

/// What a task counts for as long as its size is not known, in KiB: most are smaller by far.
const UNKNOWN: u32 = 8 << 10;

/// Sizes that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(65_536).expect("not zero");

/// The room for tasks that are being read.
pub(crate) struct ReadBudget {
    all: Semaphore,
    most_of_each: u32,
    unknown: u32,
    each: Mutex<HashMap<String, Weak<Semaphore>>>,
    /// Of tasks that have ended, in KiB.
    sizes: Mutex<LruCache<String, u32>>,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self::new(ALL, EACH, UNKNOWN)
    }
}

impl ReadBudget {
    fn new(all: u32, most_of_each: u32, unknown: u32) -> Self {
        Self {
            all: Semaphore::new(all as usize),
            most_of_each,
            unknown,
            each: Mutex::default(),
            sizes: Mutex::new(LruCache::new(REMEMBERED)),
        }
    }

    /// The task as it stands, once there is room for it; whoever reads much waits behind itself.
    ///
    /// # Errors
    /// Those of the read.
    pub(crate) async fn read(&self, caller: &str, task: &dyn TaskHandle) -> Result<v1::Task, GatewayError> {
        let known = lock(&self.sizes).get(task.id()).copied();
        let size = known.unwrap_or(self.unknown).min(self.most_of_each);
        let own = self.caller_budget(caller);
        let _own = own.acquire_many(size).await.map_err(closed)?;
        let _room = self.all.acquire_many(size).await.map_err(closed)?;
        let read = task.snapshot().await?;
        if is_terminal(read.status()) {
            let size = u32::try_from(read.encoded_len() >> 10).unwrap_or(u32::MAX).max(1);
            lock(&self.sizes).put(task.id().to_owned(), size);
        }
        Ok(read)
    }

    fn caller_budget(&self, caller: &str) -> Arc<Semaphore> {
        let mut each = lock(&self.each);
        if let Some(own) = each.get(caller).and_then(Weak::upgrade) {
            return own;
        }
        each.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.most_of_each as usize));
        each.insert(caller.to_owned(), Arc::downgrade(&own));
        own
    }
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed(_: AcquireError) -> GatewayError {
    GatewayError::new(ErrorKind::Unavailable, "the bridge is stopping")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use async_trait::async_trait;
    use bytes::Bytes;
    use futures::{
        FutureExt as _, StreamExt as _,
        stream::{self, BoxStream, FuturesUnordered},
    };

    use super::*;
    use crate::Update;

    /// A task of a size; reads of it go on when there is a permit.
    struct LargeTask {
        id: String,
        bytes: usize,
        status: v1::TaskStatus,
        begun: Arc<AtomicUsize>,
        go: Arc<Semaphore>,
    }

    #[async_trait]
    impl TaskHandle for LargeTask {
        fn id(&self) -> &str {
            &self.id
        }

        async fn snapshot(&self) -> Result<v1::Task, GatewayError> {
            self.begun.fetch_add(1, SeqCst);
            self.go.acquire().await.map_err(closed)?.forget();
            let mut task = v1::Task {
                context_id: "x".repeat(self.bytes),
                ..v1::Task::default()
            };
            task.set_status(self.status);
            Ok(task)
        }

        fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>> {
            stream::empty().boxed()
        }

        fn stream(&self, _: &str) -> BoxStream<'static, Result<Bytes, GatewayError>> {
            stream::empty().boxed()
        }

        async fn halted(&self) -> Result<v1::Task, GatewayError> {
            self.snapshot().await
        }

        async fn reply(
            &self,
            _: v1::Message,
            _: Option<v1::TaskNote>,
            _: Option<String>,
        ) -> Result<String, GatewayError> {
            Ok(String::new())
        }

        async fn cancel(&self) -> Result<v1::Task, GatewayError> {
            self.snapshot().await
        }
    }

    fn large(id: &str, bytes: usize, status: v1::TaskStatus) -> LargeTask {
        LargeTask {
            id: id.to_owned(),
            bytes,
            status,
            begun: Arc::default(),
            go: Arc::new(Semaphore::new(0)),
        }
    }

    /// How many of 200 reads by each of these callers begin while none ends.
    async fn begin_at_once(reads: &ReadBudget, callers: &[&str], task: &LargeTask) -> usize {
        let before = task.begun.load(SeqCst);
        let mut all: FuturesUnordered<_> = callers
            .iter()
            .flat_map(|caller| (0..200).map(|_| reads.read(caller, task)))
            .collect();
        for _ in 0..100 {
            assert!(all.next().now_or_never().is_none());
            tokio::task::yield_now().await; // They are not all looked at in one go.
        }
        let begun = task.begun.load(SeqCst) - before;
        task.go.add_permits(all.len());
        while let Some(read) = all.next().await {
            read.unwrap();
        }
        assert_eq!(
            task.begun.load(SeqCst) - before,
            callers.len() * 200,
            "each is read in the end"
        );
        begun
    }

    #[tokio::test]
    async fn as_many_are_read_at_once_as_there_is_room_for() {
        let reads = ReadBudget::new(800, 200, 8);
        let task = large("t", 50 << 10, v1::TaskStatus::Completed);
        assert_eq!(begin_at_once(&reads, &["a"], &task).await, 25);
        // Now it is known that it is larger.
        assert_eq!(begin_at_once(&reads, &["a"], &task).await, 4);
        assert_eq!(
            begin_at_once(&reads, &["a", "b", "c", "d", "e", "f"], &task).await,
            16
        );
        let small = large("s", 10, v1::TaskStatus::Completed);
        begin_at_once(&reads, &["a"], &small).await;
        assert_eq!(begin_at_once(&reads, &["a"], &small).await, 200);
        assert_eq!(reads.all.available_permits(), 800);
    }

    #[tokio::test]
    async fn what_goes_on_may_grow_and_who_is_gone_is_forgotten() {
        let reads = ReadBudget::new(800, 200, 8);
        let task = large("t", 10, v1::TaskStatus::Working);
        for caller in ["a", "b", "c"] {
            assert_eq!(begin_at_once(&reads, &[caller], &task).await, 25);
        }
        assert_eq!(lock(&reads.each).len(), 1);
    }
}
