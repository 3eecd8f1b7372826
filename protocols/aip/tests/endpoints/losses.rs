//! Clients that are gone: the hooks know it within 2 s, and tasks end.

use std::{sync::Arc, time::Duration};

use agentanycast_aip::{
    endpoints::{
        AssignError, ClientError, ClosureTools, ConstellationClient, ConstellationEvent,
        ConstellationSettings, DeviceClient, DeviceClientSettings, DeviceEntry, DeviceState, ServiceSettings,
        TaskRequest,
    },
    resilience::{ReconnectPolicy, ReconnectWaits},
    transport::{Connector, Transport, TransportError, memory_pair},
};
use async_trait::async_trait;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::fixture::{RawClient, SOON, TestDevice, TestService, Told};

const TWO_SECONDS: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_device_that_is_gone_fails_its_tasks_within_two_seconds() {
    let mut service = TestService::new().await;
    let device = service.registered("device", "d", None).await;
    let constellation = service.constellation("probe", "d");
    constellation.wait_connected("d", SOON).await.unwrap();
    let gone = async {
        while service.service.task_result("probe").is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Its socket breaks, without a farewell.
        drop(device);
        Instant::now()
    };
    let assigned = constellation.assign("d", TaskRequest::new("t", "wait"));
    let (reply, at) = timeout(SOON, async { tokio::join!(assigned, gone) })
        .await
        .unwrap();
    assert!(at.elapsed() < TWO_SECONDS);
    let reply = reply.unwrap();
    assert_eq!(
        (reply.completed, reply.error.as_deref()),
        (false, Some("Target device 'd' disconnected"))
    );
    service
        .told_within(&Told::Cancelled("probe@t".to_owned()), TWO_SECONDS)
        .await;
    let error = constellation
        .assign("d", TaskRequest::new("u", "wait"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("Target device 'd' is not connected"),
        "{error}"
    );
}

#[tokio::test]
async fn hooks_are_told_of_a_lost_device_within_two_seconds() {
    let mut service = TestService::new().await;
    drop(service.registered("device", "d", None).await);
    service
        .told_within(&Told::Gone("d".to_owned()), TWO_SECONDS)
        .await;
    // The id is free again.
    let again = async {
        while service.service.client("d").is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, again).await.unwrap();
    service.registered("device", "d", None).await;
}

#[tokio::test]
async fn a_constellation_that_is_gone_cancels_its_tasks_within_two_seconds() {
    let mut service = TestService::new().await;
    let mut device = service.registered("device", "d", None).await;
    let mut constellation = service.registered("constellation", "c", None).await;
    constellation
        .send(json!({
            "type": "task", "status": "continue", "client_type": "constellation", "target_id": "d",
            "session_id": "s", "request": "wait",
        }))
        .await;
    assert_eq!(constellation.next().await["session_id"], "s");
    drop(constellation);
    service
        .told_within(&Told::Gone("c".to_owned()), TWO_SECONDS)
        .await;
    service
        .told_within(&Told::Cancelled("s".to_owned()), TWO_SECONDS)
        .await;
    let end = device.next().await;
    assert_eq!(
        (&end["type"], &end["status"], &end["session_id"]),
        (&json!("task_end"), &json!("failed"), &json!("s"))
    );
}

#[tokio::test]
async fn a_command_fails_when_its_device_goes() {
    let service = TestService::new().await;
    let device = TestDevice::new(&service, "d").await;
    let running = service.service.clone();
    let running = tokio::spawn(async move { running.command("d", crate::fixture::batch(&["hang"])).await });
    device.called("hang").await;
    drop(device);
    let error = timeout(TWO_SECONDS, running).await.unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("disconnected"), "{error}");
}

/// Gives the ends of connections to the test, which plays the service.
struct Dialed(mpsc::UnboundedSender<Transport>);

#[async_trait]
impl Connector for Dialed {
    async fn connect(&self) -> Result<Transport, TransportError> {
        let (near, far) = memory_pair();
        self.0.send(far).map_err(|_| TransportError::Closed)?;
        Ok(near)
    }

    fn address(&self) -> String {
        "memory".to_owned()
    }
}

fn device(reconnect: ReconnectPolicy) -> (DeviceClient, mpsc::UnboundedReceiver<Transport>) {
    let (sender, dialed) = mpsc::unbounded_channel();
    let settings = DeviceClientSettings {
        reconnect,
        ..DeviceClientSettings::new("d")
    };
    (
        DeviceClient::new(Dialed(sender), settings, Arc::new(ClosureTools::new())),
        dialed,
    )
}

async fn accepted(dialed: &mut mpsc::UnboundedReceiver<Transport>) -> RawClient {
    let mut client = RawClient(dialed.recv().await.unwrap());
    assert_eq!(client.next().await["type"], "register");
    client.send(json!({ "type": "heartbeat", "status": "ok" })).await;
    client
}

#[tokio::test(start_paused = true)]
async fn a_device_connects_again_and_keeps_its_heartbeat() {
    let (client, mut dialed) = device(ReconnectPolicy::default());
    let mut handle = client.handle();
    let stop = CancellationToken::new();
    let running = tokio::spawn(client.run(stop.clone()));
    for _ in 0..3 {
        let mut service = accepted(&mut dialed).await;
        let registered = Instant::now();
        assert!(handle.wait_for(DeviceState::is_connected).await);
        // 30 s after the registration, and 30 s later.
        for seconds in [30, 60] {
            assert_eq!(service.next_within(40).await["type"], "heartbeat");
            assert_eq!(registered.elapsed().as_secs(), seconds);
        }
        drop(service);
        assert!(handle.wait_for(|state| !state.is_connected()).await);
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_device_gives_up_after_its_tries() {
    let (client, mut dialed) = device(ReconnectPolicy {
        waits: Some(ReconnectWaits::Immediate),
        tries: 2,
    });
    let running = tokio::spawn(client.run(CancellationToken::new()));
    for _ in 0..3 {
        let mut service = RawClient(dialed.recv().await.unwrap());
        service.next().await;
        service
            .send(json!({ "type": "error", "status": "error", "error": "not you" }))
            .await;
    }
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Refused { reason, .. } if reason == "not you"));
    assert!(dialed.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_not_answer_a_registration_is_given_up_after_30_seconds() {
    let (client, mut dialed) = device(ReconnectPolicy::NONE);
    let begun = Instant::now();
    let running = tokio::spawn(client.run(CancellationToken::new()));
    let _service = dialed.recv().await.unwrap();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::NoAnswer(_)), "{error}");
    assert_eq!(begun.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_register_is_closed_after_30_seconds() {
    let service = TestService::new().await;
    let (near, far) = memory_pair();
    let serving = service.service.clone();
    let serving = tokio::spawn(async move { serving.serve(near).await });
    let begun = Instant::now();
    let mut client = RawClient(far);
    assert_eq!(client.next_within(60).await, json!(null));
    assert_eq!(begun.elapsed().as_secs(), 30);
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_gone_unless_it_executes() {
    let mut service = TestService::with(ServiceSettings {
        command_timeout: Duration::from_secs(400),
        ..ServiceSettings::default()
    })
    .await;
    let (near, far) = memory_pair();
    let serving = service.service.clone();
    tokio::spawn(async move { serving.serve(near).await });
    let mut client = RawClient(far);
    client
        .send(json!({ "type": "register", "status": "ok", "client_id": "d" }))
        .await;
    assert_eq!(client.next().await["type"], "heartbeat");
    let begun = Instant::now();
    let error = service
        .service
        .command("d", crate::fixture::batch(&["say"]))
        .await
        .unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 400, "{error}");
    assert_eq!(client.next().await["type"], "command");
    let begun = Instant::now();
    service
        .told_within(&Told::Gone("d".to_owned()), Duration::from_mins(10))
        .await;
    assert!(
        (100..=180).contains(&begun.elapsed().as_secs()),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_too_long_is_ended() {
    let mut service = TestService::new().await;
    let (near, far) = memory_pair();
    let serving = service.service.clone();
    tokio::spawn(async move { serving.serve(near).await });
    let mut client = RawClient(far);
    client
        .send(json!({ "type": "register", "status": "ok", "client_type": "constellation", "client_id": "c" }))
        .await;
    client.next().await;
    client
        .send(json!({
            "type": "task", "status": "continue", "client_type": "constellation", "target_id": "mesh-agent",
            "session_id": "s", "request": "wait",
        }))
        .await;
    client.next().await;
    let begun = Instant::now();
    // A client that is there says so.
    let end = loop {
        match timeout(Duration::from_secs(30), client.0.receiver.receive()).await {
            Ok(Some(Ok(agentanycast_aip::transport::WireFrame::Text(text)))) => {
                let message: serde_json::Value = serde_json::from_str(&text).unwrap();
                if message["type"] == "task_end" {
                    break message;
                }
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => client.send(json!({ "type": "heartbeat", "status": "ok" })).await,
        }
    };
    assert_eq!(end["error"], "the task took more than 1000 s");
    assert_eq!(begun.elapsed().as_secs(), 1000);
    service.told(&Told::Cancelled("s".to_owned())).await;
}

#[tokio::test]
async fn a_device_that_is_removed_is_lost() {
    let service = TestService::new().await;
    let _device = TestDevice::new(&service, "d").await;
    let constellation = service.constellation("probe", "d");
    let mut events = constellation.events();
    constellation.wait_connected("d", SOON).await.unwrap();
    assert_eq!(
        events.recv().await.unwrap(),
        ConstellationEvent::Connected("d".to_owned())
    );
    constellation.remove_device("d");
    assert_eq!(
        timeout(SOON, events.recv()).await.unwrap().unwrap(),
        ConstellationEvent::Lost("d".to_owned())
    );
    let error = constellation
        .assign("d", TaskRequest::new("t", "x"))
        .await
        .unwrap_err();
    assert!(error.is_device_lost());
}

#[tokio::test(start_paused = true)]
async fn a_constellation_connects_again_and_fails_the_task_of_a_lost_connection() {
    let (sender, mut dialed) = mpsc::unbounded_channel();
    let constellation = ConstellationClient::new(ConstellationSettings::new("probe"));
    constellation.add_device(DeviceEntry::new("d"), Dialed(sender));
    for number in 0..2 {
        let mut service = accepted(&mut dialed).await;
        constellation.wait_connected("d", SOON).await.unwrap();
        assert_eq!(service.next().await["type"], "device_info_request");
        let lost = async {
            let task = service.next().await;
            assert_eq!(task["session_id"], format!("probe@t{number}"));
            assert_eq!(constellation.profiles()[0].status, DeviceState::Busy);
            drop(service);
        };
        let assigned = constellation.assign("d", TaskRequest::new(&format!("t{number}"), "x"));
        let (assigned, ()) = tokio::join!(assigned, lost);
        assert_eq!(assigned, Err(AssignError::DeviceLost("d".to_owned())));
        assert_eq!(constellation.profiles()[0].status, DeviceState::Disconnected);
    }
    // An error without a session is about the task that was not accepted yet.
    let mut service = accepted(&mut dialed).await;
    constellation.wait_connected("d", SOON).await.unwrap();
    let refused = async {
        while service.next().await["type"] != "task" {}
        service
            .send(json!({ "type": "error", "status": "error", "error": "busy" }))
            .await;
    };
    let (assigned, ()) = tokio::join!(constellation.assign("d", TaskRequest::new("t2", "x")), refused);
    assert!(matches!(assigned, Err(AssignError::Refused { reason, .. }) if reason == "busy"));
}

#[tokio::test]
async fn a_task_that_its_constellation_gives_up_ends_at_the_service() {
    let mut service = TestService::new().await;
    let _device = service.registered("device", "d", None).await;
    let constellation = service.constellation("probe", "d");
    constellation.wait_connected("d", SOON).await.unwrap();
    let begun = async {
        while service.service.task_result("probe").is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        ended = constellation.assign("d", TaskRequest::new("t", "wait")) => panic!("{ended:?}"),
        () = begun => {}
    }
    service
        .told_within(&Told::Cancelled("probe@t".to_owned()), TWO_SECONDS)
        .await;
}
