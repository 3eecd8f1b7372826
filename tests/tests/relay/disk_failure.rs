//! What a relay says whose disk has failed, and to whom.

use agentanycast_tests::{TestRelay, eventually, small_disk::SmallDisk};
use tonic::Code;

use crate::registry_requests::registration;

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_a_full_disk_has_everything_when_there_is_room_again() {
    let builder = TestRelay::builder().with_store().args(["--registry-ttl=10m"]);
    let Some(disk) = SmallDisk::mount(&builder.home().join("store"), 48) else {
        return;
    };
    let mut relay = builder.start().await;
    let mut client = relay.client().await;
    client.register_skills(registration("kept", "s")).await.unwrap();
    disk.fill(0);
    let mut large = registration("large", "s");
    large.agent_description = "x".repeat(4000);
    let mut number = 0;
    let refused = loop {
        number += 1;
        large.peer_id = format!("large-{number}");
        if let Err(refused) = client.register_skills(large.clone()).await {
            break refused;
        }
        assert!(number < 20_000, "the disk is not full");
    };
    assert_eq!(refused.code(), Code::DataLoss, "{refused}");
    disk.make_room();
    eventually("it is written again", || async {
        let mut client = relay.client().await;
        client.register_skills(registration("after", "s")).await.ok()
    })
    .await;
    assert_eq!(relay.health().await["problems"], serde_json::json!([]));
    relay.kill().await;
    relay.restart().await;
    for peer in ["kept", "after", &format!("large-{number}"), "large-1"] {
        let found = relay.api(&format!("/api/v1/agents/{peer}")).await;
        assert_eq!(found["peer_id"], *peer, "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_is_said_to_each_in_their_words() {
    let builder = TestRelay::builder().with_store();
    let store = builder.home().join("store");
    let Some(disk) = SmallDisk::mount(&store, 32) else {
        return;
    };
    let relay = builder.start().await;
    let mut client = relay.client().await;
    client.register_skills(registration("kept", "s")).await.unwrap();
    assert_eq!(relay.health().await["problems"], serde_json::json!([]));
    disk.fail();
    let refused = eventually("the store is given up", || async {
        let mut client = relay.client().await;
        client.register_skills(registration("lost", "s")).await.err()
    })
    .await;
    assert_eq!(refused.code(), Code::DataLoss, "{refused}");
    let said = refused.message();
    assert!(said.contains("lost when this relay is restarted"), "{said}");
    assert!(!said.contains('/') && !said.contains("Os {"), "{said}");
    let health = relay.health().await;
    assert_eq!(health["status"], "unhealthy", "{health}");
    let problem = health["problems"][0].as_str().unwrap();
    assert!(problem.contains("the store has failed"), "{problem}");
    assert!(relay.log().contains(store.to_str().unwrap()));
}
