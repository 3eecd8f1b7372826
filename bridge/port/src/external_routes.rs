//! Which gateway carries a task that was sent by URL: a table of schemes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentanycast_proto::v1::{Message, MessageRole, Part, TaskStatus, TextPart, part::Content};
use async_trait::async_trait;
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc},
    time::{Duration, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{DeliveryReport, ExternalTask, ExternalTasks, GatewayError};

/// Tasks that wait for one gateway to look at them; then those of the others wait too.
const WAITING: usize = 1024;

/// Pause before a node is asked again that could not tell of a task.
const PAUSE: Duration = Duration::from_secs(1);

/// The tasks of one node that were sent by URL, and who carries them. Cheap to clone.
#[derive(Clone)]
pub struct ExternalRoutes(Arc<Shared>);

struct Shared {
    tasks: Arc<dyn ExternalTasks>,
    routes: Mutex<Vec<Route>>,
}

#[derive(Clone)]
struct Route {
    schemes: &'static [&'static str],
    ids: mpsc::Sender<String>,
}

impl ExternalRoutes {
    /// Of these tasks. Nobody carries them yet.
    pub fn new(tasks: Arc<dyn ExternalTasks>) -> Self {
        Self(Arc::new(Shared {
            tasks,
            routes: Mutex::default(),
        }))
    }

    /// The tasks whose URLs have one of these schemes, in small letters: for one gateway, which carries them from now on.
    pub fn route(&self, schemes: &'static [&'static str]) -> Arc<dyn ExternalTasks> {
        let (ids, waiting) = mpsc::channel(WAITING);
        self.routes().push(Route { schemes, ids });
        Arc::new(RoutedTasks {
            tasks: Arc::clone(&self.0.tasks),
            waiting: AsyncMutex::new(waiting),
        })
    }

    /// Hands each task to its gateway until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            let id = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                id = self.0.tasks.next() => id,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.hand_on(id) => {}
            }
        }
    }

    async fn hand_on(&self, id: String) {
        let known: Vec<Route> = self.routes().clone();
        let route = match known.as_slice() {
            // The one gateway that there is says itself what is wrong with a URL.
            [only] => Some(only),
            all => {
                let Some(url) = self.url_of(&id).await else {
                    return;
                };
                let scheme = url
                    .split_once(':')
                    .map_or("", |(scheme, _)| scheme)
                    .to_ascii_lowercase();
                let route = all.iter().find(|route| route.schemes.contains(&scheme.as_str()));
                if route.is_none() {
                    self.refuse(&id, &scheme).await;
                }
                route
            }
        };
        if let Some(route) = route {
            // A gateway that has ended takes nothing; its tasks wait for the next start.
            let _ = route.ids.send(id).await;
        }
    }

    /// Where a task goes; `None`: there is none.
    async fn url_of(&self, id: &str) -> Option<String> {
        loop {
            match self.0.tasks.get(id).await {
                Ok(task) => return task.map(|task| task.url),
                Err(error) => {
                    tracing::warn!(task = id, %error, "the node does not tell of a task that was sent by URL");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn refuse(&self, id: &str, scheme: &str) {
        let text = format!("no gateway of this node carries tasks to {scheme}: URLs");
        let message = Message {
            role: MessageRole::Agent.into(),
            parts: vec![Part {
                content: Some(Content::TextPart(TextPart { text })),
                ..Part::default()
            }],
            ..Message::default()
        };
        let report = DeliveryReport {
            changes: vec![(TaskStatus::Failed, Some(message))],
            settled: true,
            ..DeliveryReport::default()
        };
        if let Err(error) = self.0.tasks.report(id, report).await {
            tracing::warn!(task = id, %error, "a task that nobody carries could not be ended");
        }
    }

    fn routes(&self) -> MutexGuard<'_, Vec<Route>> {
        self.0.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks of one gateway.
struct RoutedTasks {
    tasks: Arc<dyn ExternalTasks>,
    waiting: AsyncMutex<mpsc::Receiver<String>>,
}

#[async_trait]
impl ExternalTasks for RoutedTasks {
    async fn next(&self) -> String {
        match self.waiting.lock().await.recv().await {
            Some(id) => id,
            None => std::future::pending().await,
        }
    }

    async fn get(&self, id: &str) -> Result<Option<ExternalTask>, GatewayError> {
        self.tasks.get(id).await
    }

    async fn report(&self, id: &str, report: DeliveryReport) -> Result<(), GatewayError> {
        self.tasks.report(id, report).await
    }
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1::Task;

    use super::*;

    /// Tasks whose ids are their URLs.
    struct UrlTasks {
        ids: AsyncMutex<mpsc::UnboundedReceiver<String>>,
        ended: mpsc::UnboundedSender<String>,
    }

    #[async_trait]
    impl ExternalTasks for UrlTasks {
        async fn next(&self) -> String {
            match self.ids.lock().await.recv().await {
                Some(id) => id,
                None => std::future::pending().await,
            }
        }

        async fn get(&self, id: &str) -> Result<Option<ExternalTask>, GatewayError> {
            Ok((id != "gone:x").then(|| ExternalTask {
                url: id.to_owned(),
                allow_private: false,
                task: Task::default(),
                checkpoint: Vec::new(),
                growing: [].into(),
                settled: false,
                seal: None,
            }))
        }

        async fn report(&self, id: &str, report: DeliveryReport) -> Result<(), GatewayError> {
            assert!(report.settled && report.changes[0].0 == TaskStatus::Failed);
            self.ended.send(id.to_owned()).unwrap();
            Ok(())
        }
    }

    fn routes() -> (
        ExternalRoutes,
        mpsc::UnboundedSender<String>,
        mpsc::UnboundedReceiver<String>,
    ) {
        let (sent, ids) = mpsc::unbounded_channel();
        let (ended, refused) = mpsc::unbounded_channel();
        let ids = AsyncMutex::new(ids);
        (
            ExternalRoutes::new(Arc::new(UrlTasks { ids, ended })),
            sent,
            refused,
        )
    }

    #[tokio::test]
    async fn each_scheme_has_its_gateway() {
        let (routes, sent, mut refused) = routes();
        let web = routes.route(&["http", "https"]);
        let other = routes.route(&["other"]);
        let stop = CancellationToken::new();
        let run = tokio::spawn(routes.clone().run(stop.clone()));
        for id in [
            "gone:x",
            "nobody:x",
            "other:1",
            "HTTPS://a",
            "http://b",
            "nothing",
        ] {
            sent.send(id.to_owned()).unwrap();
        }
        assert_eq!(web.next().await, "HTTPS://a");
        assert_eq!(web.next().await, "http://b");
        assert_eq!(other.next().await, "other:1");
        assert_eq!(refused.recv().await.unwrap(), "nobody:x");
        assert_eq!(refused.recv().await.unwrap(), "nothing");
        assert_eq!(web.get("http://b").await.unwrap().unwrap().url, "http://b");
        stop.cancel();
        run.await.unwrap();
    }

    #[tokio::test]
    async fn the_only_gateway_has_all() {
        let (routes, sent, _refused) = routes();
        let web = routes.route(&["http"]);
        let run = tokio::spawn(routes.run(CancellationToken::new()));
        sent.send("nobody:x".to_owned()).unwrap();
        assert_eq!(web.next().await, "nobody:x");
        run.abort();
    }
}
