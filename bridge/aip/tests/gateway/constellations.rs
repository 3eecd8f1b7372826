//! Tasks of constellations: on devices by a planner, and on agents of the mesh.

use agentanycast_aip::endpoints::TaskRequest;
use agentanycast_aip_gateway::settings::{AipSettings, TargetAlias};
use agentanycast_gateway::fake::TWO_AGENTS;
use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{TWO_SECONDS, TestGateway, soon, text};

fn planned() -> AipSettings {
    AipSettings {
        planner: format!("{TWO_AGENTS}/two"),
        aliases: vec![TargetAlias {
            name: "echo".to_owned(),
            target: format!("{TWO_AGENTS}/one"),
        }],
        ..AipSettings::default()
    }
}

#[tokio::test]
async fn a_planner_carries_a_task_out_on_a_device() {
    let gateway = TestGateway::with(planned()).await;
    let device = gateway.device("d").await;
    let constellation = gateway.constellation("probe", "d").await;
    let reply = soon(constellation.assign("d", TaskRequest::new("t", "say")))
        .await
        .unwrap();
    assert!(reply.completed, "{reply:?}");
    assert_eq!(
        reply.result.unwrap(),
        json!({ "rounds": 2, "last": { "said": "planned" } })
    );
    let reply = soon(constellation.assign("d", TaskRequest::new("u", "fail")))
        .await
        .unwrap();
    assert_eq!(
        (reply.completed, reply.error.as_deref()),
        (false, Some("it failed"))
    );
    assert_eq!(*device.calls.lock().unwrap(), ["say", "fail"]);
    // The mesh gives tasks in words, too.
    gateway.give("m", "aip:task", text("say"));
    assert_eq!(gateway.result_of("m").await["last"], json!({ "said": "planned" }));
}

#[tokio::test]
async fn every_agent_of_the_mesh_is_a_device() {
    let gateway = TestGateway::with(planned()).await;
    for target in [
        "echo",
        &format!("{TWO_AGENTS}/one"),
        TWO_AGENTS,
        "skill:echo/all",
        "self",
    ] {
        let constellation = gateway.constellation("probe", target).await;
        let reply = soon(constellation.assign(target, TaskRequest::new("t", "hello")))
            .await
            .unwrap();
        assert!(reply.completed, "{target}: {reply:?}");
        let result = reply.result.unwrap();
        assert_eq!(result["text"], "hello", "{target}");
        assert_eq!(
            result["artifacts"][0]["parts"][0],
            json!({ "type": "text", "text": "hello" })
        );
        let info = soon(constellation.device_info(target)).await.unwrap();
        assert_eq!(
            (&info["device_id"], &info["platform"]),
            (&json!(target), &json!("agentanycast"))
        );
    }
}

#[tokio::test]
async fn a_device_that_is_gone_ends_the_task_of_its_constellation() {
    let gateway = TestGateway::with(planned()).await;
    let device = gateway.device("d").await;
    let constellation = gateway.constellation("probe", "d").await;
    let assigned = constellation.assign("d", TaskRequest::new("t", "hang"));
    let gone = async {
        device.called("hang").await;
        drop(device);
        tokio::time::Instant::now()
    };
    let (reply, gone) = soon(async { tokio::join!(assigned, gone) }).await;
    assert!(gone.elapsed() < TWO_SECONDS);
    let reply = reply.unwrap();
    assert!(
        !reply.completed && reply.error.as_deref().unwrap().contains("disconnected"),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_constellation_that_is_gone_cancels_its_task() {
    let gateway = TestGateway::with(planned()).await;
    let constellation = gateway.constellation("probe", "echo").await;
    let assigned = constellation.assign("echo", TaskRequest::new("t", "wait"));
    assert!(
        timeout(std::time::Duration::from_millis(300), assigned)
            .await
            .is_err()
    );
    drop(constellation);
    let canceled = async {
        loop {
            let families = gateway.running.metrics().unwrap().families();
            let ended = families
                .iter()
                .find(|family| family.name == "aip_tasks_ended")
                .unwrap();
            if format!("{ended:?}").contains("\"canceled\")], value: 1") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    timeout(TWO_SECONDS, canceled).await.unwrap();
}
