//! Who may use an agent of the Rust SDK: as the agent is registered, as the owner has said, and whom the owner trusts; over a
//! restart of the daemon.

use agentanycast::{
    AgentAccess, AgentBuilder, Artifact, CancellationToken, ErrorKind, Node, RegisteredAgent, Target,
    TaskStatus,
};
use agentanycast_tests::{Daemon, eventually, within};

/// A node with agents, and another one that asks them.
struct Scene {
    there: Daemon,
    here: Daemon,
}

impl Scene {
    async fn start() -> Self {
        let there = Daemon::builder().start().await;
        let here = Daemon::builder().start().await;
        let scene = Self { there, here };
        scene.connect().await;
        scene
    }

    async fn connect(&self) {
        let asker = self.here.node().await;
        let (peer, address) = (self.there.peer_id(), self.there.tcp());
        asker.connect_peer(peer, [address]).await.unwrap();
    }

    /// How a task of the other node for this agent and this skill ends, and what is said of it.
    async fn asks(&self, agent: &str, skill: &str) -> (TaskStatus, String) {
        let asker = self.here.node().await;
        let target = Target::Peer(self.there.peer_id().clone());
        let task = asker.task(target, "hello").agent(agent).skill_of_peer(skill);
        let sent = within("the task is sent", task.send()).await.unwrap();
        let task = eventually("the task ends", || async {
            let task = sent.snapshot().await.ok()?;
            task.status.is_terminal().then_some(task)
        })
        .await;
        (task.status, format!("{}{}", task.text_content(), task.reason()))
    }

    async fn is_let_in(&self, agent: &str, skill: &str) {
        assert_eq!(
            self.asks(agent, skill).await,
            (TaskStatus::Completed, agent.to_owned()),
            "{skill}"
        );
    }

    async fn is_refused(&self, agent: &str, skill: &str) {
        let (status, why) = self.asks(agent, skill).await;
        assert_eq!(status, TaskStatus::Rejected, "{agent} {skill}: {why}");
        assert!(
            why.contains(&format!("agent {agent} is private; ask its owner for an invite")),
            "{why}"
        );
    }
}

/// Registers an agent that answers with its name, and serves it.
async fn serve(
    node: &Node,
    name: &'static str,
    access: impl Fn(AgentBuilder) -> AgentBuilder,
    stop: &CancellationToken,
) -> RegisteredAgent {
    let registered = access(node.agent(name)).register().await.unwrap();
    let serving = access(node.agent(name))
        .serve(move |task| async move {
            task.complete([Artifact::text(name)]).await?;
            Ok(())
        })
        .until(stop.clone());
    tokio::spawn(async move { serving.await.unwrap() });
    registered
}

/// The access of an agent, and whether the owner has said it.
async fn access_of(node: &Node, name: &str) -> (AgentAccess, bool) {
    let agents = node.node_agents().await.unwrap();
    let agent = agents.into_iter().find(|agent| agent.name == name).unwrap();
    (agent.access, agent.access_is_set)
}

#[tokio::test]
async fn an_agent_is_private_where_it_says_so_or_the_owner_does() {
    let mut scene = Scene::start().await;
    let node = scene.there.node().await;
    let stop = CancellationToken::new();
    let plain = serve(&node, "plain", |agent| agent, &stop).await;
    let private = serve(&node, "private", AgentBuilder::private, &stop).await;
    let open = serve(&node, "open", AgentBuilder::open, &stop).await;
    let default = serve(
        &node,
        "default",
        |agent| agent.access(AgentAccess::Default),
        &stop,
    )
    .await;
    for (registered, access) in [
        (&plain, AgentAccess::Open),
        (&private, AgentAccess::Private),
        (&open, AgentAccess::Open),
        (&default, AgentAccess::Private),
    ] {
        assert_eq!(registered.access, access, "{registered:?}");
        assert!(!registered.access_is_set, "{registered:?}");
        assert_eq!(access_of(&node, &registered.name).await, (access, false));
    }
    scene.is_let_in("plain", "").await;
    scene.is_let_in("open", "").await;
    scene.is_refused("private", "").await;
    scene.is_refused("default", "").await;

    // The owner's word stays, over registrations and a restart; a registration without a word changes nothing.
    node.set_agent_access("open", AgentAccess::Private).await.unwrap();
    node.set_agent_access("default", AgentAccess::Open).await.unwrap();
    scene.is_refused("open", "").await;
    scene.is_let_in("default", "").await;
    let again = node.agent("open").open().register().await.unwrap();
    assert_eq!((again.access, again.access_is_set), (AgentAccess::Private, true));
    let again = node.agent("private").register().await.unwrap();
    assert_eq!((again.access, again.access_is_set), (AgentAccess::Private, false));
    scene.there.kill().await;
    scene.there.restart().await;
    scene.connect().await;
    eventually("the agents are served again", || async {
        let agents = node.node_agents().await.ok()?;
        agents.iter().all(|agent| agent.listeners > 0).then_some(())
    })
    .await;
    for (name, is) in [
        ("plain", (AgentAccess::Open, false)),
        ("private", (AgentAccess::Private, false)),
        ("open", (AgentAccess::Private, true)),
        ("default", (AgentAccess::Open, true)),
    ] {
        assert_eq!(access_of(&node, name).await, is, "{name}");
    }
    scene.is_refused("private", "").await;
    scene.is_refused("open", "").await;
    scene.is_let_in("default", "").await;

    let error = node
        .set_agent_access("nobody", AgentAccess::Open)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PeerNotFound, "{error}");
    for access in [AgentAccess::Unspecified, AgentAccess::Default] {
        let error = node.set_agent_access("plain", access).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    stop.cancel();
}

#[tokio::test]
async fn peers_are_trusted_by_their_id_or_by_their_request() {
    let mut scene = Scene::start().await;
    let node = scene.there.node().await;
    let me = scene.here.peer_id().clone();
    let stop = CancellationToken::new();
    serve(&node, "first", AgentBuilder::private, &stop).await;
    serve(&node, "second", AgentBuilder::private, &stop).await;
    assert_eq!(node.access_requests().await.unwrap(), []);
    scene.is_refused("first", "").await;
    scene.is_refused("first", "").await;
    scene.is_refused("second", "").await;
    let requests = node.access_requests().await.unwrap();
    let told: Vec<_> = requests
        .iter()
        .map(|request| (request.peer.clone(), request.agent.as_str(), request.tasks))
        .collect();
    assert_eq!(
        told,
        [(me.clone(), "second", 1), (me.clone(), "first", 2)],
        "the latest first"
    );

    let trust = node.trust_request(&requests[1].id, "").await.unwrap();
    assert_eq!(
        (&trust.peer, trust.agent.as_str(), trust.skill.as_str()),
        (&me, "first", "")
    );
    scene.is_let_in("first", "").await;
    scene.is_refused("second", "").await;
    assert_eq!(node.access_requests().await.unwrap().len(), 1);
    let error = node.trust_request(&requests[1].id, "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TrustNotFound, "{error}");

    scene.there.kill().await;
    scene.there.restart().await;
    scene.connect().await;
    let all = node.trust_peer(&me, "", "").await.unwrap();
    assert_eq!(
        node.trust_peer(&me, "", "").await.unwrap(),
        all,
        "the same again changes nothing"
    );
    scene.is_let_in("second", "").await;
    assert_eq!(node.trusted_peers().await.unwrap().len(), 2);
    let ended = node.untrust_peer(&me, "first", "").await.unwrap();
    assert_eq!(ended.trust.len(), 1, "{ended:?}");
    scene.is_let_in("first", "").await;
    node.untrust_peer(&me, "", "").await.unwrap();
    scene.is_refused("first", "").await;
    assert_eq!(node.trusted_peers().await.unwrap(), []);
    let error = node.untrust_peer(&me, "", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TrustNotFound, "{error}");
    let error = node.trust_peer(&me, "nobody", "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    stop.cancel();
}
