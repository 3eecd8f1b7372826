//! A node that need not be there yet: it is connected to by the first call that finds it, and calls before
//! that fail with the reason. For a gateway that is started once, such as by a desktop client, which does not start it a second time.

use std::{collections::BTreeMap, future::ready, sync::Arc};

use agentanycast::Node;
use agentanycast_proto::v1;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use tokio::sync::OnceCell;

use super::{Gateway, GatewayError, NewTask, SdkGateway, TaskHandle, TaskListing, TaskQuery, Update};

/// Connects to the node, or says why that is not possible now.
pub type ConnectNode = Box<dyn Fn() -> BoxFuture<'static, Result<Node, GatewayError>> + Send + Sync>;

/// A node that is connected to when it is there. Cheap to clone.
#[derive(Clone)]
pub struct LazyGateway(Arc<LazyNode>);

struct LazyNode {
    connect: ConnectNode,
    /// Set by the first connection. The SDK makes all further ones.
    node: OnceCell<SdkGateway>,
}

impl LazyGateway {
    /// Over the connection that this makes.
    pub fn new(connect: ConnectNode) -> Self {
        Self(Arc::new(LazyNode {
            connect,
            node: OnceCell::new(),
        }))
    }

    /// The node, if it is there now or was once.
    async fn node(&self) -> Result<&SdkGateway, GatewayError> {
        let connect = || async { Ok(SdkGateway::new((self.0.connect)().await?)) };
        self.0.node.get_or_try_init(connect).await
    }
}

/// A stream that begins when the node is there.
fn deferred_stream<T: Send + 'static>(
    begun: impl Future<Output = Result<BoxStream<'static, Result<T, GatewayError>>, GatewayError>>
    + Send
    + 'static,
) -> BoxStream<'static, Result<T, GatewayError>> {
    let begun = stream::once(begun).flat_map(|begun| match begun {
        Ok(stream) => stream,
        Err(error) => stream::once(ready(Err(error))).boxed(),
    });
    begun.boxed()
}

#[async_trait]
impl Gateway for LazyGateway {
    async fn peer_id(&self) -> Result<String, GatewayError> {
        self.node().await?.peer_id().await
    }

    async fn did_web(&self) -> Result<String, GatewayError> {
        self.node().await?.did_web().await
    }

    async fn send(&self, outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        self.node().await?.send(outgoing).await
    }

    fn task(&self, id: &str) -> Arc<dyn TaskHandle> {
        match self.0.node.get() {
            Some(node) => node.task(id),
            None => Arc::new(LazyTask {
                gateway: self.clone(),
                id: id.to_owned(),
            }),
        }
    }

    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError> {
        self.node().await?.list(listing).await
    }

    async fn card(&self, peer: &str) -> Result<v1::AgentCard, GatewayError> {
        self.node().await?.card(peer).await
    }

    async fn agents_page(&self, peer: &str, wanted: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError> {
        self.node().await?.agents_page(peer, wanted).await
    }

    async fn public_card(
        &self,
        peer: &str,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        self.node().await?.public_card(peer, wanted).await
    }

    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        self.node().await?.agents(skill).await
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        self.node().await?.has_listener().await
    }

    async fn put_note(&self, task: &str, note: v1::TaskNote, if_version: u64) -> Result<u64, GatewayError> {
        self.node().await?.put_note(task, note, if_version).await
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        self.node().await?.delete_note(task, name).await
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        self.node().await?.notes(task).await
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        let gateway = self.clone();
        deferred_stream(async move { Ok(gateway.node().await?.watch_notes()) })
    }

    async fn discover(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError> {
        self.node().await?.discover(skill, tags, limit).await
    }
}

/// A task of a node that was not there when the task was named.
struct LazyTask {
    gateway: LazyGateway,
    id: String,
}

impl LazyTask {
    async fn task(&self) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        Ok(self.gateway.node().await?.task(&self.id))
    }
}

#[async_trait]
impl TaskHandle for LazyTask {
    fn id(&self) -> &str {
        &self.id
    }

    async fn snapshot(&self) -> Result<v1::Task, GatewayError> {
        self.task().await?.snapshot().await
    }

    fn updates(&self) -> BoxStream<'static, Result<Update, GatewayError>> {
        let (gateway, id) = (self.gateway.clone(), self.id.clone());
        deferred_stream(async move { Ok(gateway.node().await?.task(&id).updates()) })
    }

    fn stream(&self, artifact_id: &str) -> BoxStream<'static, Result<Bytes, GatewayError>> {
        let (gateway, id, artifact_id) = (self.gateway.clone(), self.id.clone(), artifact_id.to_owned());
        deferred_stream(async move { Ok(gateway.node().await?.task(&id).stream(&artifact_id)) })
    }

    async fn halted(&self) -> Result<v1::Task, GatewayError> {
        self.task().await?.halted().await
    }

    async fn reply(
        &self,
        message: v1::Message,
        note: Option<v1::TaskNote>,
        idempotency_key: Option<String>,
    ) -> Result<String, GatewayError> {
        self.task().await?.reply(message, note, idempotency_key).await
    }

    async fn cancel(&self) -> Result<v1::Task, GatewayError> {
        self.task().await?.cancel().await
    }
}
