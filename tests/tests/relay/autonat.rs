//! Who asks the relay whether he is reached at an address does not make it knock where he likes.

use std::time::Duration;

use agentanycast_tests::{TestRelay, within};
use libp2p::{
    Multiaddr, Swarm, SwarmBuilder,
    autonat::v2::client,
    futures::StreamExt as _,
    identify, noise,
    swarm::{FromSwarm, NetworkBehaviour, NewExternalAddrCandidate, SwarmEvent},
    tcp, yamux,
};
use tokio::net::TcpListener;

#[derive(NetworkBehaviour)]
struct AutonatClientBehaviour {
    autonat: client::Behaviour,
    identify: identify::Behaviour,
}

fn stranger() -> Swarm<AutonatClientBehaviour> {
    let often = client::Config::default().with_probe_interval(Duration::from_millis(50));
    SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(
            tcp::Config::new().nodelay(true),
            noise::Config::new,
            yamux::Config::default,
        )
        .unwrap()
        .with_behaviour(|key| AutonatClientBehaviour {
            autonat: client::Behaviour::new(rand::make_rng(), often),
            identify: identify::Behaviour::new(identify::Config::new("/test/1".into(), key.public())),
        })
        .unwrap()
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_mins(1)))
        .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_relay_does_not_knock_on_the_network_behind_it() {
    let relay = TestRelay::builder().start().await;
    let secret = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = secret.local_addr().unwrap().port();
    let named: Multiaddr = format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap();
    let mut stranger = stranger();
    stranger
        .dial(relay.addresses[0].parse::<Multiaddr>().unwrap())
        .unwrap();
    stranger
        .behaviour_mut()
        .autonat
        .on_swarm_event(FromSwarm::NewExternalAddrCandidate(NewExternalAddrCandidate {
            addr: &named,
        }));
    let answered = async {
        loop {
            if let SwarmEvent::Behaviour(AutonatClientBehaviourEvent::Autonat(answer)) =
                stranger.select_next_some().await
                && answer.tested_addr == named
            {
                return answer;
            }
        }
    };
    let answer = tokio::select! {
        biased;
        knocked = secret.accept() => panic!("it knocked: {knocked:?}"),
        answer = within("the relay answers", answered) => answer,
    };
    let why = format!("{:?}", answer.result.unwrap_err());
    assert!(why.contains("NoConnection"), "{why}");
}
