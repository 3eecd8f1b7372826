//! What a relay says whose disk has failed, and to whom.

use agentanycast_tests::{Relay, disk::SmallDisk, eventually};
use tonic::Code;

use crate::agents::registration;

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_is_said_to_each_in_their_words() {
    let builder = Relay::builder().with_store();
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
