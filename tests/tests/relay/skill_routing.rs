//! Agents found by what they can do: nodes register their agents at relays, others find them there, and a task "to
//! whoever can" goes to one of them, and to another one when that one is gone.

use std::{
    convert::Infallible,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use agentanycast::{AgentCard, DiscoveryResult, ErrorKind, Node, PeerId, Skill, Target, TaskStatus};
use agentanycast_proto::v1::DiscoverBySkillRequest;
use agentanycast_tests::{
    Daemon, TestRelay,
    agent::TestAgent,
    daemon::DaemonBuilder,
    eventually,
    proc_stats::{peak_rss_bytes, reset_peak_rss},
    within,
};
use bytes::Bytes;
use futures::{StreamExt as _, future::BoxFuture};
use tonic::{Request, Response, Status, body::Body, server::NamedService};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use crate::registry_requests::{RegistrationSigner, found, now_ms, registration};

/// A daemon that knows these registries.
pub(crate) fn daemon(relays: &[&TestRelay]) -> DaemonBuilder {
    let registries: Vec<String> = relays.iter().map(|relay| relay.registry.to_string()).collect();
    Daemon::builder().env("AGENTANYCAST_REGISTRY_ADDRS", registries.join(","))
}

pub(crate) fn card(name: &str, skill: &str) -> AgentCard {
    AgentCard::new(name, "an agent of a test")
        .with_skill(Skill::new(skill, "what it does").with_tag("lang", "de"))
}

/// A daemon with an agent that echoes, once it is registered.
pub(crate) async fn echo_agent(relays: &[&TestRelay], name: &str, skill: &str) -> (Daemon, Node, TestAgent) {
    let daemon = daemon(relays).start().await;
    let node = daemon.node_named(name).await;
    node.set_card(card(name, skill)).await.unwrap();
    let agent = TestAgent::echo(&node);
    (daemon, node, agent)
}

async fn lists(relay: &TestRelay, skill: &str) -> Vec<String> {
    found(relay, skill)
        .await
        .into_iter()
        .map(|agent| agent.peer_id)
        .collect()
}

#[tokio::test]
async fn a_task_goes_to_whoever_can() {
    let relay = TestRelay::builder().start().await;
    let (agent, ..) = &echo_agent(&[&relay], "translator", "translate").await;
    // Setting the card told the registry, under the node's signature.
    let listed = found(&relay, "translate").await;
    assert_eq!(listed.len(), 1);
    assert!(listed[0].verified && listed[0].agent_name == "translator");
    assert!(!listed[0].addresses.is_empty());

    let sender = daemon(&[&relay]).start().await;
    let node = sender.node().await;
    let tags = |value: &str| [("lang".to_owned(), value.to_owned())].into();
    let found = node.discover("translate", &tags("de"), 0).await.unwrap();
    assert_eq!(found.agents[0].peer_id.as_ref(), Some(agent.peer_id()));
    assert_eq!(found.agents[0].skills[0].id, "translate");
    assert!(found.agents[0].verified);
    assert!(
        node.discover("translate", &tags("fr"), 0)
            .await
            .unwrap()
            .agents
            .is_empty()
    );
    let nobody = node.discover("dance", &[].into(), 0).await.unwrap();
    assert_eq!(nobody, DiscoveryResult::default());
    // Whoever else says so of somebody has proven nothing.
    let claim = registration(&RegistrationSigner::new().id, "translate");
    relay.client().await.register_skills(claim).await.unwrap();
    let found = node.discover("translate", &[].into(), 0).await.unwrap();
    let proven: Vec<_> = found.agents.iter().map(|agent| agent.verified).collect();
    assert_eq!(proven, [true, false]);

    let handle = node.send_task(Target::skill("translate"), "hello").await.unwrap();
    let task = within("the task ends", handle.wait()).await.unwrap();
    assert_eq!(task.artifacts[0].text_content(), "echo: hello");
    assert_eq!(
        handle.snapshot().await.unwrap().assignee.as_ref(),
        Some(agent.peer_id())
    );

    let nobody = node.send_task(Target::skill("dance"), "tango").await.unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::SkillNotFound, "{nobody}");
}

#[tokio::test]
async fn one_that_is_alone_works_for_itself() {
    let relay = TestRelay::builder().start().await;
    let (own, node, _agent) = echo_agent(&[&relay], "alone", "count").await;
    let handle = node.send_task(Target::skill("count"), "1").await.unwrap();
    within("the task ends", handle.wait()).await.unwrap();
    let (other, ..) = &echo_agent(&[&relay], "other", "count").await;
    for _ in 0..8 {
        // What it found when it was alone is not believed for ever, but for a while. Who asks for one only does not
        // change whom tasks may go to.
        node.discover("count", &[].into(), 1).await.unwrap();
        let handle = node.send_task(Target::skill("count"), "2").await.unwrap();
        let assignee = handle.snapshot().await.unwrap().assignee;
        assert_eq!(assignee.as_ref(), Some(other.peer_id()), "not {}", own.peer_id());
    }
}

#[tokio::test]
async fn registries_follow_the_card_and_forget_a_node_that_stops() {
    let relays = [
        TestRelay::builder().start().await,
        TestRelay::builder().start().await,
    ];
    let both: Vec<&TestRelay> = relays.iter().collect();
    let (mut daemon, node, agent) = echo_agent(&both, "agent", "first").await;
    let me = daemon.peer_id().to_string();
    node.set_card(card("agent", "second")).await.unwrap();
    for relay in &relays {
        assert!(lists(relay, "first").await.is_empty());
        assert_eq!(lists(relay, "second").await, std::slice::from_ref(&me));
    }
    daemon.stop().await;
    for relay in &relays {
        assert!(lists(relay, "second").await.is_empty(), "it has said good-bye");
    }
    daemon.restart().await;
    eventually("the card is registered again when its agent is back", || async {
        (lists(&relays[0], "second").await == [me.clone()]).then_some(())
    })
    .await;
    drop((agent, node));
    eventually("an agent that went away is found no more", || async {
        lists(&relays[0], "second").await.is_empty().then_some(())
    })
    .await;
}

/// Two hundred made-up agents, of which none can be reached, do not keep tasks from the one that is there, whether they
/// have keys or not.
#[tokio::test]
async fn made_up_agents_take_no_tasks() {
    let relay = TestRelay::builder().start().await;
    let (honest, ..) = &echo_agent(&[&relay], "honest", "serve").await;
    let mut client = relay.client().await;
    for number in 0..200 {
        let fake = RegistrationSigner::new();
        let mut request = tonic::Request::new(registration(&fake.id, "serve"));
        if number % 4 != 0 {
            request = fake.sign("RegisterSkills", request.into_inner(), relay.id(), now_ms());
        }
        client.register_skills(request).await.unwrap();
    }
    let sender = daemon(&[&relay]).start().await;
    let node = sender.node().await;
    // All at once too, when nobody is known yet.
    let done = async |number: usize| {
        let text = format!("{number}");
        let handle = node
            .send_task(Target::skill("serve"), text.as_str())
            .await
            .unwrap();
        let task = within("the task ends", handle.wait()).await.unwrap();
        assert_eq!(task.artifacts[0].text_content(), format!("echo: {number}"));
        assert_eq!(
            handle.snapshot().await.unwrap().assignee.as_ref(),
            Some(honest.peer_id())
        );
        assert!(task.attempts.is_empty(), "{:?}", task.attempts);
    };
    futures::future::join_all((0..20).map(&done)).await;
    done(20).await;
}

/// A registry that answers with an agent of a million empty skills, 2 MB that would be 100 MB, is not read.
#[tokio::test]
async fn an_answer_that_unfolds_is_not_read() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(OversizedRegistry([0x12, 0].repeat(1_000_000).into()))
            .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)),
    );
    let sender = Daemon::builder()
        .env("AGENTANYCAST_REGISTRY_ADDRS", address.to_string())
        .start()
        .await;
    let node = sender.node().await;
    reset_peak_rss(sender.pid());
    let before = peak_rss_bytes(sender.pid());
    for _ in 0..3 {
        let refused = node.discover("flood", &[].into(), 0).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DiscoveryUnavailable, "{refused}");
        assert!(refused.to_string().contains("not read"), "{refused}");
    }
    let grown = peak_rss_bytes(sender.pid()).saturating_sub(before);
    assert!(
        grown < 48 << 20,
        "{grown} bytes more for an answer that was not read"
    );
    // Nor does it keep another one's answer back, and one that says nothing at all does not either.
    let relay = TestRelay::builder().start().await;
    let (honest, ..) = &echo_agent(&[&relay], "honest", "flood").await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bad = [address, silent.local_addr().unwrap()];
    let registries = format!("{},{},{}", bad[0], bad[1], relay.registry);
    let sender = Daemon::builder()
        .env("AGENTANYCAST_REGISTRY_ADDRS", registries)
        .start()
        .await;
    let node = sender.node().await;
    let found = node.discover("flood", &[].into(), 0).await.unwrap();
    let found: Vec<_> = found
        .agents
        .iter()
        .map(|agent| agent.peer_id.clone().unwrap())
        .collect();
    assert_eq!(found, [honest.peer_id().clone()]);
    let handle = node.send_task(Target::skill("flood"), "hi").await.unwrap();
    within("the task ends", handle.wait()).await.unwrap();
    serving.abort();
}

/// A registry that knows one agent, whose encoded skills these are: making them one by one would take longer than an
/// answer may.
#[derive(Clone)]
struct OversizedRegistry(Bytes);

/// A `DiscoverBySkillResponse` with one agent, encoded already.
#[derive(Clone, PartialEq, prost::Message)]
struct EncodedDiscovery {
    #[prost(bytes = "bytes", tag = "1")]
    agent: Bytes,
}

impl NamedService for OversizedRegistry {
    const NAME: &'static str = "agentanycast.v1.RegistryService";
}

impl Service<http::Request<Body>> for OversizedRegistry {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let agent = self.0.clone();
        Box::pin(async move {
            let mut grpc =
                tonic::server::Grpc::new(ProstCodec::<EncodedDiscovery, DiscoverBySkillRequest>::default());
            let respond = service_fn(|_: Request<DiscoverBySkillRequest>| {
                let answer = EncodedDiscovery { agent: agent.clone() };
                async move { Ok::<_, Status>(Response::new(answer)) }
            });
            Ok(grpc.unary(respond, request).await)
        })
    }
}

/// The same key names the same task, whoever has the skill by then.
#[tokio::test]
async fn a_key_names_a_task_when_its_agent_is_gone() {
    let relay = TestRelay::builder().start().await;
    let (mut gone, _node, _agent) = echo_agent(&[&relay], "gone", "once").await;
    let sender = daemon(&[&relay]).start().await;
    let node = sender.node().await;
    let send = || {
        node.task(Target::skill("once"), "do it")
            .idempotency_key("k")
            .send()
    };
    let first = send().await.unwrap();
    within("the task ends", first.wait()).await.unwrap();
    gone.stop().await;
    assert!(lists(&relay, "once").await.is_empty());
    assert_eq!(send().await.unwrap().id(), first.id());
}

#[tokio::test]
async fn a_registry_that_lost_everything_has_it_again() {
    let mut relay = TestRelay::builder().args(["--registry-ttl=3s"]).start().await;
    let (daemon, _node, _agent) = &echo_agent(&[&relay], "agent", "stay").await;
    relay.kill().await;
    relay.restart().await;
    assert!(lists(&relay, "stay").await.len() <= 1);
    eventually("the node registers again by itself", || async {
        (lists(&relay, "stay").await == [daemon.peer_id().to_string()]).then_some(())
    })
    .await;
    // And stays for much longer than a registration holds.
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        assert_eq!(lists(&relay, "stay").await.len(), 1);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// One is gone, and one names made-up agents only, and keeps silent about those that there are.
#[tokio::test]
async fn one_registry_that_answers_is_enough() {
    let relay = TestRelay::builder().start().await;
    let mut gone = TestRelay::builder().start().await;
    let hides = TestRelay::builder().start().await;
    let mut client = hides.client().await;
    for _ in 0..20 {
        let made_up = RegistrationSigner::new();
        client
            .register_skills(made_up.sign(
                "RegisterSkills",
                registration(&made_up.id, "answer"),
                hides.id(),
                now_ms(),
            ))
            .await
            .unwrap();
    }
    let (there, ..) = &echo_agent(&[&relay], "agent", "answer").await;
    let sender = daemon(&[&hides, &gone, &relay]).start().await;
    gone.kill().await;
    let node = sender.node().await;
    let handle = node.send_task(Target::skill("answer"), "?").await.unwrap();
    let task = within("the task ends", handle.wait()).await.unwrap();
    assert_eq!(task.assignee.as_ref(), Some(there.peer_id()));
    drop(hides);
    // Without any, what was found last is still tried.
    let mut relay = relay;
    relay.kill().await;
    let handle = node.send_task(Target::skill("answer"), "?").await.unwrap();
    within("the task ends", handle.wait()).await.unwrap();
    let unknown = node.send_task(Target::skill("unknown"), "?").await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::DiscoveryUnavailable, "{unknown}");
}

/// Two agents that get tasks in turn, and who sends them.
async fn in_turn(relay: &TestRelay) -> (Daemon, [(Daemon, Node, TestAgent); 2]) {
    let agents = [
        echo_agent(&[relay], "one", "work").await,
        echo_agent(&[relay], "other", "work").await,
    ];
    let sender = daemon(&[relay])
        .config("[anycast]\nrouting_strategy = 'round_robin'\n")
        .start()
        .await;
    (sender, agents)
}

/// Sends a task that completes; who did it, and what was said on the way.
async fn done(node: &Node) -> (PeerId, Vec<String>) {
    let handle = node.send_task(Target::skill("work"), "do it").await.unwrap();
    let mut updates = handle.updates();
    let (mut status, mut said) = (None, Vec::new());
    while let Some(update) = within("an update", updates.next()).await {
        let update = update.unwrap();
        status = Some(update.status);
        said.extend(update.message.map(|message| message.text_content()));
    }
    assert_eq!(status, Some(TaskStatus::Completed));
    (handle.snapshot().await.unwrap().assignee.unwrap(), said)
}

#[tokio::test]
async fn an_agent_that_stands_still_is_passed_over() {
    let relay = TestRelay::builder().start().await;
    let (sender, [(still, ..), (there, ..)]) = &in_turn(&relay).await;
    let node = sender.node().await;
    let mut both = [done(&node).await.0, done(&node).await.0];
    both.sort();
    let mut expected = [still.peer_id().clone(), there.peer_id().clone()];
    expected.sort();
    assert_eq!(both, expected, "each in its turn");
    still.freeze();
    let mut passed_over = 0;
    for _ in 0..2 {
        let (by, said) = done(&node).await;
        assert_eq!(&by, there.peer_id());
        passed_over += usize::from(
            said.iter()
                .any(|text| text.contains("not acknowledged within 3 s")),
        );
    }
    assert_eq!(
        passed_over, 1,
        "one of two began with the one that stands still, and it is left out after that"
    );
}

/// It is still registered, but cannot be dialled.
#[tokio::test]
async fn an_agent_that_is_gone_is_not_asked_while_another_is_there() {
    let relay = TestRelay::builder().start().await;
    let (sender, mut agents) = in_turn(&relay).await;
    let [(gone, ..), (there, ..)] = &mut agents;
    gone.kill().await;
    let node = sender.node().await;
    for _ in 0..4 {
        let (by, said) = done(&node).await;
        assert_eq!(&by, there.peer_id());
        assert!(!said.iter().any(|text| text.contains("acknowledged")), "{said:?}");
    }
    assert_eq!(found(&relay, "work").await.len(), 2);
}

#[tokio::test]
async fn made_up_agents_are_no_candidates() {
    let relay = TestRelay::builder().start().await;
    let mut client = relay.client().await;
    client
        .register_skills(crate::registry_requests::registration(
            "agent-without-a-key",
            "guess",
        ))
        .await
        .unwrap();
    assert_eq!(found(&relay, "guess").await.len(), 1);
    let sender = daemon(&[&relay]).start().await;
    let node = sender.node().await;
    let found = node.discover("guess", &[].into(), 0).await.unwrap();
    assert!(found.agents.is_empty());
    let nobody = node.send_task(Target::skill("guess"), "?").await.unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::SkillNotFound);
}

#[tokio::test]
async fn without_a_registry_the_mesh_itself_knows() {
    let in_dht = || Daemon::builder().config("[anycast]\ndht_mode = 'server'\n");
    let middle = in_dht().start().await;
    let worker = in_dht().bootstrap(middle.tcp()).start().await;
    let node = worker.node().await;
    node.set_card(card("worker", "dig")).await.unwrap();
    let _agent = TestAgent::echo(&node);
    let sender = in_dht().bootstrap(middle.tcp()).start().await;
    let node = sender.node().await;
    let found = eventually("the worker is found in the DHT", || async {
        let found = node.discover("dig", &[].into(), 0).await.ok()?;
        found.agents.into_iter().next()
    })
    .await;
    assert_eq!(
        (found.peer_id.as_ref(), found.name.as_str()),
        (Some(worker.peer_id()), "worker")
    );
    let handle = node.send_task(Target::skill("dig"), "here").await.unwrap();
    let task = within("the task ends", handle.wait()).await.unwrap();
    assert_eq!(task.artifacts[0].text_content(), "echo: here");
}
