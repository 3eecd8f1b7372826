//! Our device and constellation at our service.

use std::time::Duration;

use agentanycast_aip::{
    endpoints::{AssignError, CommandError, ConstellationEvent, DeviceState, ServiceSettings, TaskRequest},
    messages::{CommandStatus, SystemInfo},
    protocol::SKIPPED,
    transport::{Connector as _, TransportError},
};
use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{SOON, TestDevice, TestService, Told, batch};

fn with_agents(names: &[&str]) -> ServiceSettings {
    ServiceSettings {
        agent_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ServiceSettings::default()
    }
}

#[tokio::test]
async fn a_device_registers_and_its_tools_are_told() {
    let mut service = TestService::with(with_agents(&["LinuxAgent", "AppAgent"])).await;
    let device = TestDevice::new(&service, "linux1").await;
    assert_eq!(service.next_told().await, Told::Connected("linux1".to_owned()));
    let tools =
        ["LinuxAgent", "AppAgent"].map(|agent| ["fail", "hang", "say"].map(|name| format!("{agent}/{name}")));
    assert_eq!(
        service.next_told().await,
        Told::Tools("linux1".to_owned(), tools.concat())
    );
    let summary = service.service.client("linux1").unwrap();
    let info: SystemInfo = serde_json::from_value(summary.metadata["system_info"].clone()).unwrap();
    assert_eq!(
        (info.device_id.as_str(), info.schema_version.as_str()),
        ("linux1", "1.0")
    );
    device.stop.cancel();
    assert_eq!(service.next_told().await, Told::Gone("linux1".to_owned()));
}

#[tokio::test]
async fn a_batch_stops_at_the_first_failure() {
    let service = TestService::new().await;
    let device = TestDevice::new(&service, "d").await;
    let results = service
        .service
        .command("d", batch(&["say", "fail", "say", "unknown"]))
        .await
        .unwrap();
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    use CommandStatus::{Failure, Skipped, Success};
    assert_eq!(statuses, [Success, Failure, Skipped, Skipped]);
    let ids: Vec<_> = results
        .iter()
        .filter_map(|result| result.call_id.as_deref())
        .collect();
    assert_eq!(ids, ["c0", "c1", "c2", "c3"]);
    assert_eq!(results[1].error.as_deref(), Some("it failed"));
    assert_eq!(results[3].error.as_deref(), Some(SKIPPED));
    assert_eq!(*device.calls.lock().unwrap(), ["say", "fail"]);
    // A tool that is not there is a failure too, and not silence.
    let results = service.service.command("d", batch(&["unknown"])).await.unwrap();
    assert!(results[0].error.as_deref().unwrap().contains("no tool 'unknown'"));
}

#[tokio::test]
async fn commands_have_a_time_out_and_only_connected_targets() {
    let settings = ServiceSettings {
        command_timeout: Duration::from_millis(300),
        ..ServiceSettings::default()
    };
    let service = TestService::with(settings).await;
    let error = service.service.command("d", batch(&["say"])).await.unwrap_err();
    assert_eq!(error.to_string(), "Target device 'd' is not connected");
    let _device = TestDevice::new(&service, "d").await;
    let error = service.service.command("d", batch(&["hang"])).await.unwrap_err();
    assert!(matches!(error, CommandError::TimedOut { .. }), "{error}");
}

#[tokio::test]
async fn at_most_fifty_commands_of_a_device_wait() {
    let service = TestService::new().await;
    let mut device = service.registered("device", "d", None).await;
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let service = service.service.clone();
            tokio::spawn(async move { service.command("d", batch(&["say"])).await })
        })
        .collect();
    let mut asked = Vec::new();
    for _ in 0..50 {
        asked.push(device.next().await["response_id"].as_str().unwrap().to_owned());
    }
    let error = service.service.command("d", batch(&["say"])).await.unwrap_err();
    assert!(matches!(error, CommandError::TooMany(_)), "{error}");
    // Answers in another order reach those that asked.
    for id in asked.iter().rev() {
        let results = json!([{ "status": "success", "result": id }]);
        device
            .send(json!({
                "type": "command_results", "status": "continue", "prev_response_id": id, "action_results": results,
            }))
            .await;
    }
    let mut found = Vec::new();
    for command in waiting {
        let results = timeout(SOON, command).await.unwrap().unwrap().unwrap();
        found.push(results[0].result.clone().unwrap().as_str().unwrap().to_owned());
    }
    found.sort();
    asked.sort();
    assert_eq!(found, asked);
    device.nothing_else().await;
}

#[tokio::test]
async fn a_constellations_task_is_carried_out_by_the_device() {
    let service = TestService::new().await;
    let device = TestDevice::new(&service, "d").await;
    let constellation = service.constellation("probe", "d");
    let mut events = constellation.events();
    constellation.wait_connected("d", SOON).await.unwrap();
    let reply = constellation
        .assign("d", TaskRequest::new("t1", "run say"))
        .await
        .unwrap();
    assert!(reply.completed, "{reply:?}");
    assert_eq!(reply.result.unwrap()[0]["namespace"], "Test");
    assert_eq!(*device.calls.lock().unwrap(), ["say"]);
    let progress = async {
        loop {
            if let ConstellationEvent::Progress {
                session_id, messages, ..
            } = events.recv().await.unwrap()
            {
                return (session_id, messages);
            }
        }
    };
    let progress = timeout(SOON, progress).await.unwrap();
    assert_eq!(progress, ("probe@t1".to_owned(), vec!["running say".to_owned()]));
    let report = service.service.task_result("probe").unwrap();
    assert_eq!(
        (report.session_id.as_str(), report.outcome.unwrap().completed),
        ("probe@t1", true)
    );
    let profile = &constellation.profiles()[0];
    assert_eq!(
        (profile.status, profile.current_task_id.as_deref()),
        (DeviceState::Idle, None)
    );
}

#[tokio::test]
async fn a_constellation_may_target_what_the_hooks_have() {
    let service = TestService::new().await;
    let constellation = service.constellation("probe", "mesh-agent");
    constellation.wait_connected("mesh-agent", SOON).await.unwrap();
    let reply = constellation
        .assign("mesh-agent", TaskRequest::new("t", "hello"))
        .await
        .unwrap();
    assert_eq!(reply.result.unwrap()["owner"], "constellation probe@mesh-agent");
    let info = constellation.device_info("mesh-agent").await.unwrap();
    assert_eq!(info["platform"], "mesh");
}

#[tokio::test]
async fn device_info_is_cached_and_asked_for() {
    let settings = ServiceSettings {
        device_info_wait: Duration::from_millis(200),
        device_info_fresh: Duration::ZERO,
        ..ServiceSettings::default()
    };
    let service = TestService::with(settings).await;
    let _device = TestDevice::new(&service, "ours").await;
    let info = service.service.device_info("ours").await.unwrap();
    assert_eq!(info["device_id"], "ours");
    // Upstream's devices do not answer: what they said last counts, and they are not asked twice.
    let mut silent = service.raw().await;
    let system = json!({ "device_id": "silent", "cpu_count": 2 });
    silent
        .send(json!({
            "type": "register", "status": "ok", "client_id": "silent", "metadata": { "system_info": system },
        }))
        .await;
    silent.next().await;
    assert_eq!(service.service.device_info("silent").await.unwrap(), system);
    assert_eq!(silent.next().await["type"], "device_info_request");
    assert_eq!(service.service.device_info("silent").await.unwrap(), system);
    silent.nothing_else().await;
    // It may say it unasked.
    let later = json!({ "device_id": "silent", "cpu_count": 4 });
    silent
        .send(json!({ "type": "device_info_response", "status": "ok", "metadata": { "system_info": later } }))
        .await;
    silent.nothing_else().await;
    assert_eq!(
        service.service.client("silent").unwrap().metadata["system_info"],
        later
    );
}

#[tokio::test]
async fn a_dispatched_task_is_taken_up_by_the_device() {
    let service = TestService::new().await;
    let _device = TestDevice::new(&service, "d").await;
    let task = service
        .service
        .dispatch("d", "run say", "../day's work")
        .await
        .unwrap();
    assert_eq!(task.task_name, "_day_s_work");
    let outcome = timeout(SOON, task.outcome()).await.unwrap();
    assert!(outcome.completed, "{outcome:?}");
    let report = service.service.task_result("_day_s_work").unwrap();
    assert_eq!(report.outcome, Some(outcome));
}

/// Why a dispatched task has failed, once it has.
async fn failure_of(service: &TestService, name: &str) -> String {
    let ended = async {
        loop {
            if let Some(outcome) = service.service.task_result(name).unwrap().outcome {
                return outcome;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = timeout(SOON, ended).await.unwrap();
    assert!(!outcome.completed, "{outcome:?}");
    outcome.error.unwrap()
}

#[tokio::test]
async fn a_dispatched_task_that_is_not_taken_up_in_time_has_failed() {
    let service = TestService::with(ServiceSettings {
        dispatch_timeout: Duration::from_secs(1),
        ..ServiceSettings::default()
    })
    .await;
    let _device = service.registered("device", "d", None).await;
    let task = service.service.dispatch("d", "run say", "t").await.unwrap();
    let report = service.service.task_result("t").unwrap();
    assert_eq!(report.outcome, None);
    assert_eq!(report.session_id, task.session_id);
    assert_eq!(
        failure_of(&service, "t").await,
        "device 'd' did not take the task up within 1 s"
    );
    assert!(!timeout(SOON, task.outcome()).await.unwrap().completed);
    assert_eq!(service.service.task_result("other"), None);
}

#[tokio::test]
async fn a_dispatched_task_whose_device_goes_has_failed() {
    let service = TestService::new().await;
    let device = service.registered("device", "d", None).await;
    let _task = service.service.dispatch("d", "run say", "t").await.unwrap();
    drop(device);
    assert_eq!(
        failure_of(&service, "t").await,
        "device 'd' disconnected before it took the task up"
    );
}

#[tokio::test]
async fn a_device_has_one_task_at_a_time() {
    let service = TestService::new().await;
    let device = TestDevice::new(&service, "d").await;
    let first = service.constellation("first", "d");
    let second = service.constellation("second", "d");
    for constellation in [&first, &second] {
        constellation.wait_connected("d", SOON).await.unwrap();
    }
    let hanging = first.assign("d", TaskRequest::new("a", "run hang"));
    let waiting = async {
        device.called("hang").await;
        let task = TaskRequest {
            timeout: Duration::from_millis(300),
            ..TaskRequest::new("b", "run say")
        };
        let error = second.assign("d", task).await.unwrap_err();
        assert!(matches!(error, AssignError::TimedOut { .. }), "{error}");
        assert_eq!(*device.calls.lock().unwrap(), ["hang"]);
        device.stop.cancel();
    };
    let (hung, ()) = timeout(SOON, async { tokio::join!(hanging, waiting) })
        .await
        .unwrap();
    let hung = hung.unwrap();
    assert_eq!(hung.error.as_deref(), Some("Target device 'd' disconnected"));
}

#[tokio::test]
async fn a_wrong_token_is_refused_before_the_socket() {
    let service = TestService::new().await;
    let error = service.endpoint().with_token("more").connect().await.unwrap_err();
    assert!(
        matches!(error, TransportError::Rejected { status: 403, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_service_that_stops_signs_every_client_off() {
    let mut service = TestService::new().await;
    let mut client = service.registered("device", "d", None).await;
    timeout(SOON, service.service.stop()).await.unwrap();
    service.told(&Told::Gone("d".to_owned())).await;
    assert_eq!(client.next().await, json!(null));
    assert!(service.service.clients().is_empty());
}
