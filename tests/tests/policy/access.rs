//! Private agents, between daemons: who sees them, who is let in, and what ends when a right is taken back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast::{Artifact, Node, Target, TaskError};
use agentanycast_proto::v1::{
    self, AgentAccess, AgentCard, CreateInviteRequest, ListAccessRequestsRequest, RegisterAgentRequest,
    RevokeInviteRequest, SetAgentAccessRequest, TrustPeerRequest, UntrustPeerRequest,
    access_service_client::AccessServiceClient, agent_service_client::AgentServiceClient,
    invite_service_client::InviteServiceClient,
};
use agentanycast_tests::{
    Daemon, TestRelay, agent::TestAgent, daemon_pair::wait_connected, eventually, eventually_within, rpc,
    within,
};
use tonic::transport::Channel;

use crate::setup::wait_ended;

/// A node with a private agent, `vault`, and an open one, `painter`; and two others that are connected to it.
struct Neighbours {
    relay: TestRelay,
    owner: Daemon,
    node: Node,
    channel: Channel,
    others: [(Daemon, Node); 2],
    /// Tasks that the private agent has seen.
    seen: Arc<AtomicUsize>,
}

fn card(name: &str, skills: &[&str]) -> AgentCard {
    AgentCard {
        name: name.to_owned(),
        skills: skills
            .iter()
            .map(|id| v1::Skill {
                id: (*id).to_owned(),
                description: "of a test".to_owned(),
                ..v1::Skill::default()
            })
            .collect(),
        ..AgentCard::default()
    }
}

async fn register(channel: &Channel, name: &str, skills: &[&str], access: AgentAccess) -> AgentAccess {
    let request = RegisterAgentRequest {
        name: name.to_owned(),
        card: Some(card(name, skills)),
        access: access.into(),
        ..RegisterAgentRequest::default()
    };
    let answer = AgentServiceClient::new(channel.clone())
        .register_agent(request)
        .await
        .unwrap()
        .into_inner();
    answer.access()
}

/// A program that answers the tasks of an agent that is registered, with its name.
fn serve(node: &Node, name: &str, skills: &[&str], seen: &Arc<AtomicUsize>) -> TestAgent {
    let mut served = agentanycast::AgentCard::new(name, "");
    for skill in skills {
        served = served.with_skill(agentanycast::Skill::new(*skill, "of a test"));
    }
    let (answer, seen) = (name.to_owned(), Arc::clone(seen));
    let serving = node.agent(name).card(served).serve(move |task| {
        seen.fetch_add(1, Ordering::SeqCst);
        let answer = answer.clone();
        async move {
            task.complete([Artifact::text(answer)]).await?;
            Ok(())
        }
    });
    TestAgent::run(serving)
}

impl Neighbours {
    async fn new() -> Self {
        let relay = TestRelay::builder().start().await;
        let known = || Daemon::builder().known_to(&relay);
        let owner = known().start().await;
        let channel = rpc::channel(owner.grpc()).await.unwrap();
        let painter = register(&channel, "painter", &["paint"], AgentAccess::Unspecified).await;
        let vault = register(&channel, "vault", &["read", "write"], AgentAccess::Default).await;
        assert_eq!((painter, vault), (AgentAccess::Open, AgentAccess::Private));
        let node = owner.node().await;
        let mut others = Vec::new();
        for _ in 0..2 {
            let other = known().bootstrap(owner.tcp()).start().await;
            let its = other.node().await;
            wait_connected(&its, &owner).await;
            others.push((other, its));
        }
        Self {
            relay,
            owner,
            node,
            channel,
            others: others
                .try_into()
                .unwrap_or_else(|_| unreachable!("two were made")),
            seen: Arc::default(),
        }
    }

    fn serve(&self) -> [TestAgent; 2] {
        let none = Arc::default();
        [
            serve(&self.node, "painter", &["paint"], &none),
            serve(&self.node, "vault", &["read", "write"], &self.seen),
        ]
    }

    /// What becomes of a task of one of the others.
    async fn asks(&self, number: usize, agent: &str) -> Result<String, TaskError> {
        let target = Target::Peer(self.owner.peer_id().clone());
        let task = self.others[number].1.task(target, "hello");
        wait_ended(&task.agent(agent).send().await.unwrap()).await
    }

    /// The names and skills on the card that one of the others has of the owner.
    async fn card_at(&self, number: usize) -> Vec<String> {
        let card = self.others[number].1.known_card_of(self.owner.peer_id()).await;
        let Ok(card) = card else { return Vec::new() };
        let card = card.card;
        let agents = card.agents.iter().map(|agent| agent.name.clone());
        let skills = card.skills.iter().map(|skill| skill.id.clone());
        let mut all: Vec<String> = agents.chain(skills).chain([card.name.clone()]).collect();
        all.sort();
        all.dedup();
        all
    }

    async fn sees_vault(&self, number: usize, is_seen: bool) {
        eventually_within(Duration::from_secs(10), "the card is shown again", || async {
            let seen = self.card_at(number).await;
            (seen.contains(&"vault".to_owned()) == is_seen).then_some(())
        })
        .await;
    }

    async fn restart_owner(&mut self) {
        self.owner.stop().await;
        self.owner.restart().await;
        self.channel = rpc::channel(self.owner.grpc()).await.unwrap();
        for (_, node) in &self.others {
            wait_connected(node, &self.owner).await;
        }
    }
}

fn refused(outcome: Result<String, TaskError>) -> String {
    match outcome {
        Err(TaskError::Rejected { reason, .. }) => reason,
        other => panic!("it was to be refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_agent_is_there_for_whom_its_owner_lets_in() {
    let mut lab = Neighbours::new().await;
    let agents = lab.serve();
    assert_eq!(lab.asks(1, "painter").await.unwrap(), "painter");
    let reason = refused(lab.asks(1, "vault").await);
    assert_eq!(reason, "agent vault is private; ask its owner for an invite");
    assert_eq!(lab.seen.load(Ordering::SeqCst), 0, "its program heard of nothing");
    // It is nowhere to be found: on no card, by no discovery, in no list of the relay.
    let seen = lab.card_at(1).await;
    assert_eq!(seen, ["paint", "painter"]);
    let stranger = &lab.others[1].1;
    let found = stranger.discover("read", &[].into(), 0).await.unwrap();
    assert!(found.agents.is_empty(), "{found:?}");
    let painters = || async {
        let found = stranger.discover("paint", &[].into(), 0).await.ok()?;
        (!found.agents.is_empty()).then_some(())
    };
    eventually("the open agent is found", painters).await;
    let listed = lab.relay.api("/api/v1/agents").await.to_string();
    assert!(
        listed.contains("painter") && !listed.contains("vault"),
        "{listed}"
    );
    let pages = stranger.agent_cards(lab.owner.peer_id()).await.unwrap();
    assert!(pages.iter().all(|card| card.name != "vault"), "{pages:?}");

    // Invited in, to what the invite covers; who is not, is not.
    let mut invites = InviteServiceClient::new(lab.channel.clone());
    let request = CreateInviteRequest {
        label: "guests".to_owned(),
        agent: "vault".to_owned(),
        ..CreateInviteRequest::default()
    };
    let made = invites.create_invite(request).await.unwrap().into_inner();
    let refusal = lab.others[0]
        .1
        .accept_invite(lab.owner.peer_id(), made.secret)
        .await;
    assert_eq!(refusal.unwrap(), None);
    lab.sees_vault(0, true).await;
    assert_eq!(lab.asks(0, "vault").await.unwrap(), "vault");
    refused(lab.asks(1, "vault").await);

    // Taken back: what nobody has begun ends, and the card is shown without it, also after a restart.
    drop(agents);
    let target = Target::Peer(lab.owner.peer_id().clone());
    let waiting = lab.others[0].1.task(target, "later").agent("vault").send();
    let waiting = waiting.await.unwrap();
    let queued = || async {
        let agents = lab.node.node_agents().await.ok()?;
        let vault = agents.into_iter().find(|agent| agent.name == "vault")?;
        (vault.open_tasks == 1 && vault.listeners == 0).then_some(())
    };
    eventually("the task waits for its agent", queued).await;
    let request = RevokeInviteRequest {
        name: "guests".to_owned(),
    };
    let revoked = invites.revoke_invite(request).await.unwrap().into_inner();
    assert_eq!((revoked.invites.len(), revoked.ended_tasks), (1, 1));
    let ended = within("the task ends", waiting.wait()).await;
    let reason = refused(ended.map(|task| task.text_content()));
    assert!(reason.contains("not let in"), "{reason}");
    lab.sees_vault(0, false).await;
    refused(lab.asks(0, "vault").await);
    lab.restart_owner().await;
    refused(lab.asks(0, "vault").await);
    assert_eq!(lab.seen.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_refused_is_trusted_by_a_word_until_that_is_taken_back() {
    let mut lab = Neighbours::new().await;
    let _agents = lab.serve();
    for _ in 0..3 {
        refused(lab.asks(1, "vault").await);
    }
    let stranger = lab.others[1].0.peer_id().to_string();
    let mut access = AccessServiceClient::new(lab.channel.clone());
    let requests = access.list_access_requests(ListAccessRequestsRequest {}).await;
    let requests = requests.unwrap().into_inner().requests;
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!(
        (request.peer_id.as_str(), request.agent.as_str(), request.tasks),
        (stranger.as_str(), "vault", 3)
    );
    let by_id = TrustPeerRequest {
        request_id: request.id.clone(),
        ..TrustPeerRequest::default()
    };
    let trust = access
        .trust_peer(by_id.clone())
        .await
        .unwrap()
        .into_inner()
        .trust
        .unwrap();
    assert_eq!(
        (trust.peer_id.as_str(), trust.agent.as_str()),
        (stranger.as_str(), "vault")
    );
    assert_eq!(lab.asks(1, "vault").await.unwrap(), "vault");
    lab.sees_vault(1, true).await;
    assert_eq!(
        access.trust_peer(by_id).await.unwrap_err().code(),
        tonic::Code::NotFound
    );

    lab.restart_owner().await;
    let mut access = AccessServiceClient::new(lab.channel.clone());
    assert_eq!(lab.asks(1, "vault").await.unwrap(), "vault", "trust is durable");
    let untrust = UntrustPeerRequest {
        peer_id: stranger.clone(),
        ..UntrustPeerRequest::default()
    };
    let gone = access.untrust_peer(untrust.clone()).await.unwrap().into_inner();
    assert_eq!(gone.trust.len(), 1);
    refused(lab.asks(1, "vault").await);
    lab.sees_vault(1, false).await;
    let again = access.untrust_peer(untrust).await.unwrap_err();
    assert_eq!(again.code(), tonic::Code::NotFound);
}

/// What the owner says of an agent stays: no registration opens it, and the peers see at once what they may use.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_closes_and_opens_an_agent() {
    let lab = Neighbours::new().await;
    let _agents = lab.serve();
    assert_eq!(lab.asks(0, "painter").await.unwrap(), "painter");
    let mut agents = AgentServiceClient::new(lab.channel.clone());
    let mut set = async |access: AgentAccess| {
        let request = SetAgentAccessRequest {
            name: "painter".to_owned(),
            access: access.into(),
        };
        agents.set_agent_access(request).await
    };
    set(AgentAccess::Private).await.unwrap();
    refused(lab.asks(0, "painter").await);
    let nothing_is_seen = || async { lab.card_at(0).await.is_empty().then_some(()) };
    eventually("no agent is shown any more", nothing_is_seen).await;
    let known = register(&lab.channel, "painter", &["paint"], AgentAccess::Open).await;
    assert_eq!(known, AgentAccess::Private);
    refused(lab.asks(0, "painter").await);
    for unknown in [AgentAccess::Unspecified, AgentAccess::Default] {
        assert_eq!(
            set(unknown).await.unwrap_err().code(),
            tonic::Code::InvalidArgument
        );
    }
    set(AgentAccess::Open).await.unwrap();
    assert_eq!(lab.asks(0, "painter").await.unwrap(), "painter");
}

/// Nodes without a relay find skills in the DHT: those of open agents alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_dht_has_the_skills_of_open_agents_alone() {
    let in_dht = || Daemon::builder().config("[anycast]\ndht_mode = 'server'\n");
    let middle = in_dht().start().await;
    let owner = in_dht().bootstrap(middle.tcp()).start().await;
    let channel = rpc::channel(owner.grpc()).await.unwrap();
    register(&channel, "vault", &["read"], AgentAccess::Private).await;
    register(&channel, "painter", &["paint"], AgentAccess::Open).await;
    let node = owner.node().await;
    let _agents = [
        serve(&node, "vault", &["read"], &Arc::default()),
        serve(&node, "painter", &["paint"], &Arc::default()),
    ];
    let other = in_dht().bootstrap(middle.tcp()).start().await;
    let stranger = other.node().await;
    let finds = async |skill: &str| {
        let found = stranger.discover(skill, &[].into(), 0).await.ok()?;
        (!found.agents.is_empty()).then_some(found.agents)
    };
    let found = eventually("the open agent is found in the DHT", || finds("paint")).await;
    assert!(!format!("{found:?}").contains("vault"), "{found:?}");
    assert_eq!(finds("read").await.map(|found| found.len()), None);
    // That it is found once it is open shows that it would have been.
    let open = SetAgentAccessRequest {
        name: "vault".to_owned(),
        access: AgentAccess::Open.into(),
    };
    AgentServiceClient::new(channel)
        .set_agent_access(open)
        .await
        .unwrap();
    eventually("the opened agent is found in the DHT", || finds("read")).await;
}
