//! A node whose agent `two` plans: it repeats what a script makes of each question; all other agents echo.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_gateway::{
    Gateway, GatewayError, NewTask, Target, TaskHandle, TaskListing, TaskQuery, fake::FakeGateway,
};
use agentanycast_proto::{
    json::{from_struct, to_struct},
    v1,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use v1::part::Content;

/// The node.
#[derive(Default)]
pub(crate) struct ScriptedNode(pub(crate) FakeGateway);

/// Calls the tool that the request names, until there is a result: `say` says it.
fn plan(question: &Value) -> Value {
    let request = question["request"].as_str().unwrap();
    let results = question["results"].as_array().unwrap();
    match results.last() {
        Some(last) if last["status"] == "success" => {
            json!({ "status": "completed", "result": { "rounds": question["round"], "last": last["result"] } })
        }
        Some(last) => json!({ "status": "failed", "error": last["error"] }),
        None => json!({ "status": "continue", "actions": [
            { "tool_name": request, "parameters": { "text": "planned" } },
        ] }),
    }
}

#[async_trait]
impl Gateway for ScriptedNode {
    async fn send(&self, mut outgoing: NewTask) -> Result<Arc<dyn TaskHandle>, GatewayError> {
        let plans = matches!(&outgoing.target, Target::Agent { agent, .. } if agent == "two");
        for part in &mut outgoing.message.parts {
            if let Some(Content::DataPart(data)) = &mut part.content
                && plans
            {
                let question = Value::Object(from_struct(data.data.as_ref().unwrap()));
                let answer = plan(&question).as_object().cloned().unwrap();
                data.data = Some(to_struct(answer));
                part.metadata.clear();
            }
        }
        self.0.send(outgoing).await
    }

    async fn peer_id(&self) -> Result<String, GatewayError> {
        self.0.peer_id().await
    }

    async fn did_web(&self) -> Result<String, GatewayError> {
        self.0.did_web().await
    }

    fn task(&self, id: &str) -> Arc<dyn TaskHandle> {
        self.0.task(id)
    }

    async fn list(&self, listing: TaskQuery) -> Result<TaskListing, GatewayError> {
        self.0.list(listing).await
    }

    async fn card(&self, peer: &str) -> Result<v1::AgentCard, GatewayError> {
        self.0.card(peer).await
    }

    async fn public_card(
        &self,
        peer: &str,
        wanted: Option<v1::AgentsPage>,
    ) -> Result<v1::AgentCard, GatewayError> {
        self.0.public_card(peer, wanted).await
    }

    async fn agents_page(&self, peer: &str, wanted: v1::AgentsPage) -> Result<v1::AgentCard, GatewayError> {
        self.0.agents_page(peer, wanted).await
    }

    async fn has_listener(&self) -> Result<bool, GatewayError> {
        self.0.has_listener().await
    }

    async fn put_note(&self, task: &str, note: v1::TaskNote, version: u64) -> Result<u64, GatewayError> {
        self.0.put_note(task, note, version).await
    }

    async fn delete_note(&self, task: &str, name: &str) -> Result<(), GatewayError> {
        self.0.delete_note(task, name).await
    }

    async fn notes(&self, task: &str) -> Result<Vec<v1::TaskNote>, GatewayError> {
        self.0.notes(task).await
    }

    fn watch_notes(&self) -> BoxStream<'static, Result<v1::WatchTaskNotesResponse, GatewayError>> {
        self.0.watch_notes()
    }

    async fn agents(&self, skill: Option<&str>) -> Result<Vec<v1::ListedAgent>, GatewayError> {
        self.0.agents(skill).await
    }

    async fn discover(
        &self,
        skill: &str,
        tags: &BTreeMap<String, String>,
        limit: usize,
    ) -> Result<Vec<v1::DiscoveredAgent>, GatewayError> {
        self.0.discover(skill, tags, limit).await
    }
}
