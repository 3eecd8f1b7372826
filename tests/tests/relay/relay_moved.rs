//! A relay that another one knows by its name goes to another address.

use agentanycast_tests::{
    TestRelay, eventually,
    name_server::{NAME, NameServer},
    network_lab::{Namespace, NetworkLab},
};

use crate::{
    federation_poisoning::{federated_record, push_from},
    registry_requests::{finds, registration},
};

const PORT: u16 = 50_052;
/// Where the other relay is, as seen from both places of the one that moves.
const HERE: [&str; 2] = ["45.1.0.1", "45.2.0.1"];
/// Where the one is that moves.
const THERE: [&str; 2] = ["45.1.0.2", "45.2.0.2"];

#[test]
fn a_relay_is_found_where_its_name_leads_and_is_no_stranger_there() {
    let Some(lab) = NetworkLab::open() else { return };
    let home = lab.namespace("home");
    home.block_on(|| moves(&lab, &home));
}

async fn moves(lab: &NetworkLab, home: &Namespace) {
    let places = ["before", "after"].map(|name| lab.namespace(name));
    for (place, (here, there)) in places.iter().zip(HERE.iter().zip(THERE)) {
        lab.link(home, &format!("{here}/24"), place, &format!("{there}/24"));
        place.default_route(here);
    }
    let names = NameServer::start(home, HERE[0], THERE[0]);
    home.resolve_at(names.ip());
    let mut other = TestRelay::builder()
        .in_namespace(&places[0])
        .registry(format!("{}:{PORT}", THERE[0]).parse().unwrap())
        .args([
            format!("--federation-peers={}:{PORT}", HERE[0]),
            "--federation-sync-interval=5s".to_owned(),
        ])
        .start()
        .await;
    let relay = TestRelay::builder()
        .in_namespace(home)
        .registry(format!("0.0.0.0:{PORT}").parse().unwrap())
        .args([
            format!("--federation-peers={NAME}:{PORT}"),
            "--federation-sync-interval=5s".to_owned(),
            "--federated-entries=12".to_owned(),
        ])
        .start()
        .await;
    let register = async |other: &TestRelay, peer: &str| {
        let mut client = other.client().await;
        client.register_skills(registration(peer, "s")).await.unwrap();
        eventually("its agent is known here", || async {
            finds(&relay, "s", peer).await.then_some(())
        })
        .await;
    };
    let peer = async || relay.health().await["federation"]["peer_details"][0].clone();
    let last_answer = || async {
        let peer = peer().await;
        (peer["healthy"] == true).then(|| peer["last_answer"].clone())
    };
    register(&other, "before").await;
    other.kill().await;
    let at_the_old_place = peer().await["last_answer"].clone();
    names.set_address(THERE[1]);
    let moved = other.stopped().in_namespace(&places[1]);
    other = moved
        .registry(format!("{}:{PORT}", THERE[1]).parse().unwrap())
        .start()
        .await;
    eventually("it has been asked there", || async {
        (last_answer().await? != at_the_old_place).then_some(())
    })
    .await;
    // By then whatever it pushes is known to be its own.
    register(&other, "after").await;

    // Strangers have what strangers may have; what the relay pushes from its new place takes none of it.
    for (ip, origin) in [("127.0.0.8", "x"), ("127.0.0.9", "y")] {
        let three = [0, 1, 2].map(|n| federated_record(&format!("{origin}{n}"), origin));
        let outcome = push_from(&relay, ip, three.to_vec()).await;
        assert_eq!((outcome.accepted, outcome.rejected), (3, 0));
    }
    let full = push_from(&relay, "127.0.0.10", vec![federated_record("z", "z")]).await;
    assert_eq!(full.rejected, 1);
    let refused = relay.metric("federation_records_refused_total").await as u64;
    // Soon after it was asked, so that it pushes before it is asked again.
    let before = eventually("it answers", last_answer).await;
    eventually("it is asked again", || async {
        let now = last_answer().await?;
        (now != before).then_some(())
    })
    .await;
    register(&other, "later").await;
    assert_eq!(
        relay.metric("federation_records_refused_total").await as u64,
        refused
    );
}
