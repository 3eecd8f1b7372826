//! A hub on a port of its own before a remembering node, and clients that do what a test says.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentanycast_daemon_kit::settings::ListenOn;
use agentanycast_front::{front::Front, request_counts::RequestCounts};
use agentanycast_gateway::{
    Gateway, NodePort,
    fake::{
        FakeGateway,
        agents::{FakeAgents, FakeEnd},
    },
    metrics::{MetricFamily, MetricValues},
    registration::GatewayModule as _,
    running::RunningGateway,
};
use agentanycast_gateways::front::FrontSettings;
use agentanycast_proto::v1 as mesh;
use agentanycast_uap_hub::v1::{
    AgentRegistration, Capability, ListenRequest, ListenResponse, SessionAcceptance, TestCapability,
    TestInit, TestResponse, TestState, TestStatus, TranslationCapability, agent_hub_client::AgentHubClient,
    capability::Format, listen_request, listen_response, test_response,
};
use agentanycast_uap_hub_gateway::{UapHubGateway, settings::UapHubSettings};
use mesh::part::Content;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming, transport::Channel};

/// How long anything may take.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The result of what should not take long.
pub(crate) async fn soon<R>(what: impl Future<Output = R>) -> R {
    tokio::time::timeout(SOON, what).await.expect("it takes too long")
}

/// A hub, and the node before which it runs.
pub(crate) struct TestHub {
    pub(crate) agents: FakeAgents,
    pub(crate) running: RunningGateway,
    url: String,
}

impl TestHub {
    pub(crate) async fn start() -> Self {
        Self::with(UapHubSettings::default()).await
    }

    pub(crate) async fn with(settings: UapHubSettings) -> Self {
        Self::on_node(settings, Arc::new(FakeGateway::default())).await
    }

    pub(crate) async fn on_node(settings: UapHubSettings, client: Arc<dyn Gateway>) -> Self {
        Self::before(settings, client, FakeAgents::default()).await
    }

    pub(crate) async fn on_agents(settings: UapHubSettings, agents: FakeAgents) -> Self {
        Self::before(settings, Arc::new(FakeGateway::default()), agents).await
    }

    async fn before(settings: UapHubSettings, client: Arc<dyn Gateway>, agents: FakeAgents) -> Self {
        let mut front = FrontSettings {
            listen: ListenOn("127.0.0.1:0".to_owned()),
            ..FrontSettings::default()
        };
        front.limits.rate = 0;
        let front = Front::new(front, Arc::new(RequestCounts::default())).unwrap();
        let node = NodePort {
            client,
            agents: Arc::new(agents.clone()),
            external: None,
            key: None,
            home: None,
        };
        let running = UapHubGateway::start(node, front, settings).await.unwrap();
        let url = format!("http://{}", running.address().unwrap());
        Self { agents, running, url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn connect(&self) -> AgentHubClient<Channel> {
        let channel = Channel::from_shared(self.url.clone())
            .unwrap()
            .connect()
            .await
            .unwrap();
        AgentHubClient::new(channel)
            .max_decoding_message_size(64 << 20)
            .max_encoding_message_size(64 << 20)
    }

    /// A client that does tests of this type and says that it is ready.
    pub(crate) async fn client(&self, name: &str, kind: &str) -> TestClient {
        let mut client = TestClient::register(self.connect().await, registration(name, kind)).await;
        client.listen().await;
        self.has_skill(&format!("uap:test:{kind}")).await;
        client
    }

    /// Waits until the card has a skill.
    pub(crate) async fn has_skill(&self, id: &str) -> mesh::Skill {
        soon(self.agents.until(|agents| {
            let skills = agents.card().skills;
            skills.into_iter().find(|skill| skill.id == id)
        }))
        .await
    }

    /// Gives the hub's agent a task of this id for tests of this type, with a file.
    pub(crate) fn give(&self, id: &str, kind: &str) {
        self.agents.give(task(
            id,
            &format!("uap:test:{kind}"),
            vec![file("suite.xml", b"<suite/>")],
        ));
    }

    pub(crate) async fn end_of(&self, id: &str) -> FakeEnd {
        soon(self.agents.end_of(id)).await
    }

    /// The value of a figure with this label value; 0: there is none.
    pub(crate) fn figure(&self, name: &str, label: &str) -> u64 {
        let families = self.running.metrics().unwrap().families();
        let found = families.iter().find(|family| family.name == name);
        match found {
            Some(MetricFamily {
                values: MetricValues::Gauge(values) | MetricValues::Counter(values),
                ..
            }) => {
                let has = |labels: &[(&str, String)]| {
                    label.is_empty() || labels.iter().any(|(_, value)| value == label)
                };
                values
                    .iter()
                    .find(|value| has(&value.labels))
                    .map_or(0, |value| value.value)
            }
            Some(MetricFamily {
                values: MetricValues::Histogram { counts, .. },
                ..
            }) => counts.iter().sum(),
            None => panic!("no figure {name}"),
        }
    }

    /// Waits until a figure is so.
    pub(crate) async fn until_figure(&self, name: &str, label: &str, value: u64) {
        let reached = async {
            while self.figure(name, label) != value {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(SOON, reached).await;
        assert!(
            waited.is_ok(),
            "{name} {label} is {}, not {value}",
            self.figure(name, label)
        );
    }
}

pub(crate) fn file(name: &str, data: &[u8]) -> mesh::Part {
    mesh::Part {
        content: Some(Content::RawPart(mesh::RawPart {
            data: data.to_vec(),
            filename: name.to_owned(),
        })),
        media_type: "text/xml".to_owned(),
        ..mesh::Part::default()
    }
}

pub(crate) fn task(id: &str, skill: &str, parts: Vec<mesh::Part>) -> mesh::Task {
    mesh::Task {
        task_id: id.to_owned(),
        target_skill_id: skill.to_owned(),
        messages: vec![mesh::Message {
            role: mesh::MessageRole::User.into(),
            parts,
            ..mesh::Message::default()
        }],
        metadata: BTreeMap::new(),
        ..mesh::Task::default()
    }
}

pub(crate) fn registration(name: &str, kind: &str) -> AgentRegistration {
    let test = TestCapability {
        r#type: kind.to_owned(),
        payloads: Vec::new(),
    };
    AgentRegistration {
        display_name: name.to_owned(),
        capabilities: vec![Capability {
            format: Some(Format::Test(test)),
        }],
    }
}

pub(crate) fn translator(name: &str, kind: &str) -> AgentRegistration {
    let translation = TranslationCapability {
        r#type: kind.to_owned(),
        ..TranslationCapability::default()
    };
    AgentRegistration {
        display_name: name.to_owned(),
        capabilities: vec![Capability {
            format: Some(Format::Translation(translation)),
        }],
    }
}

/// A client of the hub that does nothing by itself.
pub(crate) struct TestClient {
    pub(crate) hub: AgentHubClient<Channel>,
    pub(crate) id: String,
    /// Both ends of its Listen, if it has one.
    pub(crate) says: Option<mpsc::Sender<ListenRequest>>,
    pub(crate) hears: Option<Streaming<ListenResponse>>,
}

impl TestClient {
    pub(crate) async fn register(mut hub: AgentHubClient<Channel>, registration: AgentRegistration) -> Self {
        let registered = soon(hub.register(registration)).await.unwrap();
        Self {
            hub,
            id: registered.into_inner().client_id,
            says: None,
            hears: None,
        }
    }

    /// Listens, and says that it is ready.
    pub(crate) async fn listen(&mut self) {
        let (says, hears) = self.open_listen().await.unwrap();
        says.send(event(listen_request::Event::Ready(()))).await.unwrap();
        self.says = Some(says);
        self.hears = Some(hears);
    }

    /// Opens a Listen, and says nothing.
    pub(crate) async fn open_listen(
        &mut self,
    ) -> Result<(mpsc::Sender<ListenRequest>, Streaming<ListenResponse>), Status> {
        let (says, said) = mpsc::channel(16);
        let mut request = Request::new(ReceiverStream::new(said));
        request
            .metadata_mut()
            .insert("x-client-id", self.id.parse().unwrap());
        let hears = soon(self.hub.listen(request)).await?;
        Ok((says, hears.into_inner()))
    }

    async fn hear(&mut self) -> listen_response::Event {
        let heard = soon(self.hears.as_mut().unwrap().message()).await;
        heard.unwrap().expect("the Listen has ended").event.unwrap()
    }

    /// The session that is proposed next, and its type.
    pub(crate) async fn proposal(&mut self) -> String {
        match self.hear().await {
            listen_response::Event::SessionProposal(proposal) => proposal.session_id,
            ready @ listen_response::Event::SessionReady(_) => panic!("no proposal: {ready:?}"),
        }
    }

    pub(crate) async fn answer(&self, session: &str, accepted: bool, reason: &str) {
        let answer = listen_request::Event::SessionAcceptance(SessionAcceptance {
            session_id: session.to_owned(),
            accepted,
            reason: reason.to_owned(),
        });
        self.says.as_ref().unwrap().send(event(answer)).await.unwrap();
    }

    /// Accepts what is proposed next, and waits until it is ready.
    pub(crate) async fn accept(&mut self) -> String {
        let session = self.proposal().await;
        self.answer(&session, true, "").await;
        match self.hear().await {
            listen_response::Event::SessionReady(ready) => assert_eq!(ready.session_id, session),
            proposal @ listen_response::Event::SessionProposal(_) => panic!("not ready: {proposal:?}"),
        }
        session
    }

    /// Opens the stream of a session, and says nothing on it.
    pub(crate) async fn execute(&mut self, session: &str) -> Result<TestStream, Status> {
        let (says, said) = mpsc::channel(16);
        let request = self.named(session, ReceiverStream::new(said));
        let hears = soon(self.hub.execute(request)).await?.into_inner();
        Ok(TestStream { says, hears })
    }

    /// A call with the ids of the client and a session.
    pub(crate) fn named<T>(&self, session: &str, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request
            .metadata_mut()
            .insert("x-client-id", self.id.parse().unwrap());
        request
            .metadata_mut()
            .insert("x-session-id", session.parse().unwrap());
        request
    }

    /// Takes the next session up to its start.
    pub(crate) async fn begin(&mut self) -> TestStream {
        let session = self.accept().await;
        let mut stream = self.execute(&session).await.unwrap();
        stream.init().await;
        stream
    }

    /// Does the next session.
    pub(crate) async fn complete(&mut self) {
        let mut stream = self.begin().await;
        stream.status(TestState::Completed, "done").await;
        drop(stream.says);
        assert!(soon(stream.hears.message()).await.unwrap().is_none());
    }
}

fn event(event: listen_request::Event) -> ListenRequest {
    ListenRequest { event: Some(event) }
}

/// The stream of a test.
pub(crate) struct TestStream {
    pub(crate) says: mpsc::Sender<TestResponse>,
    pub(crate) hears: Streaming<TestInit>,
}

impl TestStream {
    pub(crate) async fn init(&mut self) -> TestInit {
        soon(self.hears.message()).await.unwrap().expect("no start")
    }

    pub(crate) async fn say(&self, event: test_response::Event) {
        let response = TestResponse {
            event: Some(event),
            ..TestResponse::default()
        };
        self.says.send(response).await.unwrap();
    }

    pub(crate) async fn status(&self, state: TestState, message: &str) {
        self.say(test_response::Event::Status(status(state, message)))
            .await;
    }
}

pub(crate) fn status(state: TestState, message: &str) -> TestStatus {
    TestStatus {
        state: state.into(),
        message: message.to_owned(),
    }
}

/// The reason of a task that has failed.
pub(crate) fn reason(end: FakeEnd) -> String {
    match end {
        FakeEnd::Failed(reason) => reason,
        other => panic!("it has not failed: {other:?}"),
    }
}
