//! Tasks of the mesh that go to `uamp+https` URLs: to a gateway of our own, which is killed meanwhile.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use agentanycast_gateway::{
    DeliveryEvent, DeliveryReport, ExternalTask, ExternalTasks, GatewayError,
    external_routes::ExternalRoutes, is_terminal,
};
use agentanycast_proto::v1::{self, ExternalAction, MessageRole, TaskStatus, part::Content};
use agentanycast_uamp::envelope::Intent;
use agentanycast_uamp_gateway::{
    client::{UampClient, UampClientSettings},
    settings::{HostToken, UampSettings},
};
use async_trait::async_trait;
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    fixture::{TOKEN, TestGateway, draft, signed, soon},
    scripted::{piece, text_part},
};

/// A node with tasks that go outside. Clones are the same one.
#[derive(Clone)]
pub(crate) struct OutsideTasks(Arc<OutsideState>);

struct OutsideState {
    tasks: Mutex<HashMap<String, ExternalTask>>,
    events: Mutex<Vec<DeliveryEvent>>,
    ids: AsyncMutex<mpsc::UnboundedReceiver<String>>,
    woken: mpsc::UnboundedSender<String>,
    changed: watch::Sender<()>,
}

impl OutsideTasks {
    pub(crate) fn new() -> Self {
        let (woken, ids) = mpsc::unbounded_channel();
        Self(Arc::new(OutsideState {
            tasks: Mutex::default(),
            events: Mutex::default(),
            ids: AsyncMutex::new(ids),
            woken,
            changed: watch::Sender::new(()),
        }))
    }

    /// What was done, oldest first.
    pub(crate) fn actions(&self) -> Vec<ExternalAction> {
        let events = self.0.events.lock().unwrap();
        events.iter().map(|event| event.action).collect()
    }

    /// After how long it was tried again, oldest first.
    pub(crate) fn pauses(&self) -> Vec<std::time::Duration> {
        let events = self.0.events.lock().unwrap();
        events.iter().filter_map(|event| event.retry_in).collect()
    }

    pub(crate) fn say(&self, id: &str, url: &str, text: &str) {
        let mut tasks = self.0.tasks.lock().unwrap();
        let task = tasks.entry(id.to_owned()).or_insert_with(|| ExternalTask {
            url: url.to_owned(),
            allow_private: true,
            task: v1::Task {
                task_id: id.to_owned(),
                ..v1::Task::default()
            },
            checkpoint: Vec::new(),
            growing: [].into(),
            settled: false,
            seal: None,
        });
        task.task.messages.push(v1::Message {
            role: MessageRole::User.into(),
            parts: vec![text_part(text)],
            ..v1::Message::default()
        });
        task.task.set_status(TaskStatus::Working);
        self.0.woken.send(id.to_owned()).unwrap();
    }

    fn cancel(&self, id: &str) {
        let mut tasks = self.0.tasks.lock().unwrap();
        tasks.get_mut(id).unwrap().task.set_status(TaskStatus::Canceled);
        self.0.woken.send(id.to_owned()).unwrap();
    }

    /// What a node does when it starts: each task that is not settled is named again.
    fn name_again(&self) {
        for (id, task) in &*self.0.tasks.lock().unwrap() {
            if !task.settled {
                self.0.woken.send(id.clone()).unwrap();
            }
        }
    }

    fn task(&self, id: &str) -> ExternalTask {
        self.0.tasks.lock().unwrap()[id].clone()
    }

    async fn until(&self, id: &str, is_so: impl Fn(&ExternalTask) -> bool) -> ExternalTask {
        let mut changes = self.0.changed.subscribe();
        soon(async {
            loop {
                let task = self.task(id);
                if is_so(&task) {
                    return task;
                }
                changes.changed().await.unwrap();
            }
        })
        .await
    }

    pub(crate) async fn ended(&self, id: &str) -> v1::Task {
        self.until(id, |task| is_terminal(task.task.status()) && task.settled)
            .await
            .task
    }
}

#[async_trait]
impl ExternalTasks for OutsideTasks {
    async fn next(&self) -> String {
        self.0.ids.lock().await.recv().await.unwrap()
    }

    async fn get(&self, id: &str) -> Result<Option<ExternalTask>, GatewayError> {
        Ok(self.0.tasks.lock().unwrap().get(id).cloned())
    }

    async fn report(&self, id: &str, report: DeliveryReport) -> Result<(), GatewayError> {
        let mut tasks = self.0.tasks.lock().unwrap();
        let task = tasks.get_mut(id).unwrap();
        self.0.events.lock().unwrap().extend(report.events);
        if let Some(checkpoint) = report.checkpoint {
            assert!(checkpoint.len() <= 8 << 10);
            task.checkpoint = checkpoint;
        }
        task.settled |= report.settled;
        if !is_terminal(task.task.status()) {
            for artifact in report.artifacts {
                let known = task
                    .task
                    .artifacts
                    .iter()
                    .position(|known| known.artifact_id == artifact.artifact_id);
                match known {
                    Some(at) => task.task.artifacts[at] = artifact,
                    None => task.task.artifacts.push(artifact),
                }
            }
            for (status, message) in report.changes {
                task.task.set_status(status);
                task.task.status_message = message;
            }
        }
        drop(tasks);
        self.0.changed.send_replace(());
        Ok(())
    }
}

pub(crate) fn text_of(parts: &[v1::Part]) -> &str {
    match &parts[0].content {
        Some(Content::TextPart(text)) => &text.text,
        other => panic!("{other:?}"),
    }
}

/// A gateway that carries tasks, and the one that they go to.
struct Pair {
    tasks: OutsideTasks,
    near: TestGateway,
    far: TestGateway,
    routes: Option<CancellationToken>,
}

impl Pair {
    async fn start() -> Self {
        let far = TestGateway::start().await;
        let token = far.directory.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let settings = UampSettings {
            outbound_tokens: vec![HostToken {
                host: format!("localhost:{}", far.address().port()),
                file: token,
            }],
            outbound_ca: Some(far.certificate()),
            ..UampSettings::default()
        };
        let near = TestGateway::with_identity(settings, [9; 32]).await;
        let mut pair = Self {
            tasks: OutsideTasks::new(),
            near,
            far,
            routes: None,
        };
        pair.restart_near().await;
        pair
    }

    async fn restart_near(&mut self) {
        if let Some(routes) = self.routes.take() {
            routes.cancel();
        }
        let routes = ExternalRoutes::new(Arc::new(self.tasks.clone()));
        self.near.external = Some(routes.clone());
        self.near.restart().await;
        let stop = CancellationToken::new();
        tokio::spawn(routes.run(stop.clone()));
        self.routes = Some(stop);
        self.tasks.name_again();
    }

    fn url(&self) -> String {
        format!("uamp+https://localhost:{}", self.far.address().port())
    }
}

#[tokio::test]
async fn a_task_goes_out_and_its_answer_comes_back() {
    let pair = Pair::start().await;
    let url = pair.url();
    for (id, text) in [
        ("plain", "2+2"),
        ("fails", "fail"),
        ("rejected", "reject"),
        ("refused", "denied"),
    ] {
        pair.tasks.say(id, &url, text);
    }
    let task = pair.tasks.ended("plain").await;
    assert_eq!(task.status(), TaskStatus::Completed);
    assert_eq!(
        (task.artifacts[0].name.as_str(), text_of(&task.artifacts[0].parts)),
        ("answer", "2+2")
    );
    for (id, reason) in [
        ("fails", "it broke"),
        ("rejected", "4.03 not mine"),
        ("refused", "the policy forbids it"),
    ] {
        let task = pair.tasks.ended(id).await;
        assert_eq!(task.status(), TaskStatus::Failed);
        let said = text_of(&task.status_message.as_ref().unwrap().parts).to_owned();
        assert!(said.contains(reason), "{said}");
    }
    let actions = pair.tasks.actions();
    assert!(actions.contains(&ExternalAction::CardRead) && actions.contains(&ExternalAction::Accepted));
    pair.tasks.say("skilled", &format!("{url}?skill=add"), "hello");
    pair.tasks.ended("skilled").await;
    pair.far.node.change("hello", |task| {
        assert_eq!(task.target, agentanycast_gateway::Target::Skill("add".to_owned()));
    });
}

#[tokio::test]
async fn a_question_from_outside_is_answered() {
    let mut pair = Pair::start().await;
    let url = pair.url();
    pair.tasks.say("t", &url, "ask");
    let asked = pair
        .tasks
        .until("t", |task| task.task.status() == TaskStatus::InputRequired)
        .await;
    assert_eq!(
        text_of(&asked.task.status_message.unwrap().parts),
        "which colour?"
    );
    pair.restart_near().await;
    pair.tasks.say("t", &url, "blue");
    let task = pair.tasks.ended("t").await;
    assert_eq!(
        (task.status(), text_of(&task.artifacts[0].parts)),
        (TaskStatus::Completed, "blue")
    );
    assert_eq!(pair.far.node.state().tasks.len(), 1);
}

#[tokio::test]
async fn a_cancel_goes_out() {
    let pair = Pair::start().await;
    pair.tasks.say("t", &pair.url(), "work");
    pair.tasks
        .until("t", |task| task.task.status_message.is_some())
        .await;
    pair.tasks.cancel("t");
    pair.tasks.until("t", |task| task.settled).await;
    pair.far.node.change("work", |task| {
        assert_eq!(task.task.status(), TaskStatus::Canceled);
    });
}

/// 300 pieces of 20 000 bytes: more than one window, over restarts of both sides.
#[tokio::test]
async fn a_large_result_comes_whole_over_restarts() {
    let mut pair = Pair::start().await;
    pair.tasks.say("t", &pair.url(), "chunks 300 20000");
    let size = |task: &ExternalTask| {
        task.task
            .artifacts
            .first()
            .map_or(0, |artifact| match &artifact.parts[0].content {
                Some(Content::RawPart(raw)) => raw.data.len(),
                _ => 0,
            })
    };
    pair.tasks.until("t", |task| size(task) > 0).await;
    pair.restart_near().await;
    let task = pair.tasks.ended("t").await;
    assert_eq!(task.status(), TaskStatus::Completed, "{:?}", task.status_message);
    let wanted: Vec<u8> = (0..300).flat_map(|number| piece(number, 20_000)).collect();
    match &task.artifacts[0].parts[0].content {
        Some(Content::RawPart(raw)) => assert!(raw.data == wanted),
        other => panic!("{other:?}"),
    }
    assert_eq!(pair.far.node.state().tasks.len(), 1);
}

#[tokio::test]
async fn urls_that_are_not_ones_of_uamp_end_the_task() {
    let pair = Pair::start().await;
    for (id, url) in [
        ("path", "uamp+https://localhost:1/path"),
        ("user", "uamp+https://me@localhost:1"),
        ("other", "http://localhost:1"),
    ] {
        pair.tasks.say(id, url, "x");
        let task = pair.tasks.ended(id).await;
        assert_eq!(task.status(), TaskStatus::Failed);
    }
}

#[tokio::test]
async fn what_a_setting_would_change_is_told_by_the_name_of_that_setting() {
    let far = TestGateway::start().await;
    let base = format!("https://localhost:{}", far.address().port());
    let client = |change: fn(&mut UampClientSettings)| {
        let mut settings = UampClientSettings {
            allow_private: true,
            ca: Some(far.certificate()),
            ..UampClientSettings::default()
        };
        change(&mut settings);
        UampClient::new(&base, &settings).unwrap()
    };
    for (client, setting) in [
        (client(|settings| settings.ca = None), "gateways.uamp.outbound_ca"),
        (client(|_| ()), "gateways.uamp.outbound_tokens"),
        (
            client(|settings| settings.allow_private = false),
            "gateways.uamp.outbound_private",
        ),
    ] {
        let envelope = signed(&draft(Intent::Inform, "x"));
        let error = client.send(envelope).await.unwrap_err().to_string();
        assert!(error.contains(setting) && !error.contains("[bridge."), "{error}");
    }
}

#[tokio::test]
async fn two_gateways_talk_by_their_trial_certificates_which_are_pinned() {
    let mut far = TestGateway::without_certificate().await;
    far.keep_address();
    far.open_to_all().await;
    let mut near = TestGateway::with_identity(UampSettings::default(), [9; 32]).await;
    let tasks = OutsideTasks::new();
    let routes = ExternalRoutes::new(Arc::new(tasks.clone()));
    near.external = Some(routes.clone());
    near.restart().await;
    let routing = tokio::spawn(routes.run(CancellationToken::new()));
    let _routing = tokio_util::task::AbortOnDropHandle::new(routing);
    let url = format!("uamp+https://127.0.0.1:{}", far.address().port());
    let sent = async |id: &str| {
        tasks.say(id, &url, "2+2");
        tasks.ended(id).await
    };
    let completed = async |id: &str| {
        let task = sent(id).await;
        assert_eq!(task.status(), TaskStatus::Completed, "{:?}", task.status_message);
    };
    completed("first").await;
    far.restart().await;
    completed("after a restart").await;
    std::fs::remove_file(far.directory.path().join("uamp-trial-key.pem")).unwrap();
    far.restart().await;
    let task = sent("another key").await;
    assert_eq!(task.status(), TaskStatus::Failed);
    let reason = text_of(&task.status_message.as_ref().unwrap().parts);
    assert!(
        reason.contains("this node knows it by sha256:") && reason.contains("uamp-known-agents"),
        "{reason}"
    );
}

/// `openssl req -x509` makes the certificate of an authority by default, which no client takes of a server.
#[tokio::test]
async fn the_certificate_of_an_authority_is_refused_in_words() {
    let far = TestGateway::start().await;
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let made = params.self_signed(&key).unwrap();
    std::fs::write(far.certificate(), made.pem()).unwrap();
    std::fs::write(far.directory.path().join("key.pem"), key.serialize_pem()).unwrap();
    let mut far = far;
    far.restart().await;
    let settings = UampClientSettings {
        allow_private: true,
        ca: Some(far.certificate()),
        ..UampClientSettings::default()
    };
    let base = format!("https://localhost:{}", far.address().port());
    let client = UampClient::new(&base, &settings).unwrap();
    let error = client
        .send(signed(&draft(Intent::Inform, "x")))
        .await
        .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("CA:TRUE") && error.contains("basicConstraints=critical,CA:FALSE"),
        "{error}"
    );
}
