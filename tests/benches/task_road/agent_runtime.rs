//! Where the agents run: a thread of their own with a runtime of their own, as another process would have, so
//! that sender and agent wake each other as they do in the field; both roads are measured from the same ends.

use std::future::Future;

use tokio::{runtime::Handle, task::JoinHandle};

/// The agents' runtime; it lives as long as the benchmark.
#[derive(Clone, Debug)]
pub(crate) struct AgentRuntime(Handle);

impl AgentRuntime {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("agents".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .expect("a thread");
        Self(handle)
    }

    /// Runs there.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.spawn(future)
    }
}
