//! A service of others, at which a program of another node is a device.

use agentanycast_tests::Daemon;

use super::scene::{AipScene, task_of};

#[tokio::test]
async fn an_agent_of_the_mesh_is_a_device_of_a_foreign_service() {
    let scene = AipScene::start().await;
    let settings = format!(
        r#"
        [[agents.run]]
        name = "upper"
        skills = ["upper"]
        command = ["tr", "a-z", "A-Z"]
        [[gateways.aip.devices]]
        url = "ws://{}/ws"
        client_id = "shouter"
        target = "self/upper"
        "#,
        scene.nodes.gateway.gateway("aip")
    );
    let node = Daemon::builder().gateway("aip").config(&settings).start().await;
    scene.until_found("aip:shouter:upper").await;
    let sent = scene.send("aip:shouter:upper", r#"{"text": "loud"}"#).await;
    assert!(sent.status.success(), "{}", sent.all_output);
    assert!(
        task_of(&sent)["artifacts"].to_string().contains("LOUD"),
        "{}",
        sent.all_output
    );
    drop(node);
    agentanycast_tests::eventually("the device is gone", || async {
        (scene.figure("clients", "role=\"device\"").await == 0).then_some(())
    })
    .await;
}
