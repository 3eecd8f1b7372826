//! The runner as a client of an MCP server: where its notifications go.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    ClientHandler,
    model::{ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken},
    service::{NotificationContext, RoleClient},
};
use tokio::sync::{Notify, mpsc};

/// Progress of one call that waits to be read. What comes while it is full is dropped: newer progress follows.
const WAITING: usize = 16;

/// The calls that are under way, by their progress tokens.
#[derive(Debug, Default)]
pub(super) struct ProgressRoutes(Mutex<HashMap<ProgressToken, mpsc::Sender<ProgressNotificationParam>>>);

impl ProgressRoutes {
    /// Routes the progress of a call to the one who waits for it.
    pub(super) fn open(self: &Arc<Self>, token: ProgressToken) -> ProgressRoute {
        let (sender, progress) = mpsc::channel(WAITING);
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        routes.insert(token.clone(), sender);
        drop(routes);
        ProgressRoute {
            routes: Arc::clone(self),
            token,
            progress,
        }
    }

    fn put(&self, progress: ProgressNotificationParam) {
        let routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = routes.get(&progress.progress_token) {
            let _ = route.try_send(progress);
        }
    }
}

/// The progress of one call; its route is closed when it is dropped.
#[derive(Debug)]
pub(super) struct ProgressRoute {
    routes: Arc<ProgressRoutes>,
    token: ProgressToken,
    progress: mpsc::Receiver<ProgressNotificationParam>,
}

impl ProgressRoute {
    /// The next progress; never, when there is no more.
    pub(super) async fn next(&mut self) -> ProgressNotificationParam {
        match self.progress.recv().await {
            Some(progress) => progress,
            None => std::future::pending().await,
        }
    }
}

impl Drop for ProgressRoute {
    fn drop(&mut self) {
        let mut routes = self.routes.0.lock().unwrap_or_else(PoisonError::into_inner);
        routes.remove(&self.token);
    }
}

/// Takes what an MCP server sends of its own accord.
#[derive(Debug, Clone)]
pub(super) struct ToolClient {
    pub(super) routes: Arc<ProgressRoutes>,
    /// Told when the server says that its tools have changed.
    pub(super) tools_changed: Arc<Notify>,
}

impl ClientHandler for ToolClient {
    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.routes.put(progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let runner = Implementation::new("agentanycast", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), runner)
    }
}

/// Progress for people: its message, or how far it is.
pub(super) fn progress_text(progress: &ProgressNotificationParam) -> String {
    if let Some(message) = &progress.message {
        return message.clone();
    }
    match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    }
}
