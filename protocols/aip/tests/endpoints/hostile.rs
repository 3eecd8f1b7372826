//! Clients that break the rules.

use std::time::Duration;

use agentanycast_aip::{
    endpoints::{CommandError, ServiceSettings},
    messages::MAX_MESSAGE,
    transport::WireFrame,
};
use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{SOON, TestService, Told, batch};

#[tokio::test]
async fn nothing_is_done_before_a_client_registers() {
    let service = TestService::new().await;
    for first in [
        json!({ "type": "heartbeat", "status": "ok", "client_id": "d" }),
        json!({ "type": "task", "status": "continue", "client_id": "d", "request": "x" }),
        json!({ "type": "command_results", "status": "ok", "prev_response_id": "r" }),
        json!({ "type": "file_transfer_start", "filename": "a", "size": 1, "chunk_size": 1, "total_chunks": 1 }),
    ] {
        let mut client = service.raw().await;
        let is_file = first["type"] == "file_transfer_start";
        let kind = if is_file {
            "a file".to_owned()
        } else {
            first["type"].to_string()
        };
        client.send(first).await;
        client
            .refused_for_good(&format!("the first message has to be \"register\", not {kind}"))
            .await;
    }
    let mut client = service.raw().await;
    client.text("{").await;
    client.refused_for_good("not a valid message").await;
    let mut client = service.raw().await;
    client.send(json!({ "type": "register", "status": "ok" })).await;
    client.refused_for_good("client_id has to have").await;
    assert!(service.service.clients().is_empty());
}

#[tokio::test]
async fn a_second_registration_is_refused() {
    let service = TestService::new().await;
    let mut first = service.registered("device", "x", None).await;
    for role in ["device", "constellation"] {
        let mut second = service.raw().await;
        second
            .send(json!({ "type": "register", "status": "ok", "client_type": role, "client_id": "x" }))
            .await;
        second
            .refused_for_good("client_id 'x' is already registered; duplicate registrations are not allowed")
            .await;
    }
    first
        .send(json!({ "type": "register", "status": "ok", "client_id": "x" }))
        .await;
    first
        .refused("this connection is registered as 'x' already")
        .await;
    first.nothing_else().await;
}

#[tokio::test]
async fn the_hooks_may_refuse_a_client() {
    let service = TestService::new().await;
    for (id, why) in [
        ("unwanted", "it is not wanted"),
        ("one-too-many", "max_agents is 1"),
    ] {
        let mut client = service.raw().await;
        client
            .send(json!({ "type": "register", "status": "ok", "client_id": id }))
            .await;
        client.refused_for_good(why).await;
    }
    assert!(service.service.clients().is_empty());
}

#[tokio::test]
async fn id_and_role_cannot_be_changed_later() {
    let service = TestService::new().await;
    let _device = service.registered("device", "d", None).await;
    let mut client = service.registered("constellation", "c@d", Some("d")).await;
    client
        .send(
            json!({ "type": "heartbeat", "status": "ok", "client_type": "constellation", "client_id": "d" }),
        )
        .await;
    client
        .refused("client_id does not match the registered connection")
        .await;
    client
        .send(json!({ "type": "task", "status": "continue", "client_type": "device", "request": "x" }))
        .await;
    client
        .refused("client_type does not match the registered connection")
        .await;
    // Upstream's constellations leave the role of a heartbeat at its default.
    client
        .send(json!({ "type": "heartbeat", "status": "ok", "client_type": "device", "client_id": "c@d" }))
        .await;
    assert_eq!(client.next().await["type"], "heartbeat");
}

#[tokio::test]
async fn a_target_that_is_not_connected_is_refused() {
    let service = TestService::new().await;
    let mut client = service.raw().await;
    let register = json!({
        "type": "register", "status": "ok", "client_type": "constellation", "client_id": "c", "target_id": "d",
    });
    client.send(register).await;
    client
        .refused_for_good("Target device 'd' is not connected")
        .await;
    let mut client = service.registered("constellation", "c", None).await;
    let task = |target: Option<&str>| {
        json!({
            "type": "task", "status": "continue", "client_type": "constellation", "target_id": target,
            "request": "x", "session_id": "s",
        })
    };
    client.send(task(Some("d"))).await;
    let refused = client.next().await;
    assert_eq!(refused["error"], "Target device 'd' is not connected");
    assert_eq!(refused["session_id"], "s");
    client.send(task(None)).await;
    client
        .refused("Constellation task requests require target_id")
        .await;
    // Another constellation is not a device.
    client.send(task(Some("c"))).await;
    client.refused("Target device 'c' is not connected").await;
}

#[tokio::test]
async fn a_client_reaches_its_own_targets_only() {
    let service = TestService::new().await;
    let mut one = service.registered("device", "one", None).await;
    let mut two = service.registered("device", "two", None).await;
    let mut client = service.registered("constellation", "c@one", Some("one")).await;
    let message = |kind: &str, role: &str, target: &str| {
        json!({
            "type": kind, "status": "continue", "client_type": role, "target_id": target, "request": "wait",
            "request_id": "q",
        })
    };
    client.send(message("task", "constellation", "two")).await;
    client
        .refused("registered for device 'one' and may not target 'two'")
        .await;
    client
        .send(message("device_info_request", "constellation", "two"))
        .await;
    let refused = client.next().await;
    assert_eq!(
        refused["error"],
        "Not authorized to request device info for this device"
    );
    assert_eq!(refused["response_id"], "q");
    one.send(message("task", "device", "two")).await;
    one.refused("a device may request tasks for itself only").await;
    one.send(message("device_info_request", "device", "two")).await;
    one.refused("DEVICE_INFO_REQUEST is permitted only for constellation clients")
        .await;
    client
        .send(message("command_results", "constellation", "one"))
        .await;
    client
        .refused("COMMAND_RESULTS is permitted only for device clients")
        .await;
    client
        .send(message("device_info_response", "constellation", "one"))
        .await;
    client
        .refused("DEVICE_INFO_RESPONSE is permitted only for device clients")
        .await;
    for device in [&mut one, &mut two] {
        device.nothing_else().await;
    }
}

#[tokio::test]
async fn results_count_from_the_device_that_was_asked_only() {
    let service = TestService::new().await;
    let mut asked = service.registered("device", "asked", None).await;
    let mut other = service.registered("device", "other", None).await;
    let running = service.service.clone();
    let running = tokio::spawn(async move { running.command("asked", batch(&["say"])).await });
    let command = asked.next().await;
    let answer = |result: &str| {
        json!({
            "type": "command_results", "status": "continue", "prev_response_id": command["response_id"],
            "session_id": command["session_id"], "action_results": [{ "status": "success", "result": result }],
        })
    };
    other.send(answer("forged")).await;
    other.refused("no command of this connection waits").await;
    // An invented id creates nothing.
    let invented = json!({
        "type": "command_results", "status": "ok", "prev_response_id": "r", "session_id": "new", "action_results": [],
    });
    asked.send(invented).await;
    asked.refused("no command of this connection waits").await;
    asked.send(answer("real")).await;
    let results = timeout(SOON, running).await.unwrap().unwrap().unwrap();
    assert_eq!(results[0].result, Some(json!("real")));
    asked.send(answer("again")).await;
    asked.refused("no command of this connection waits").await;
    assert_eq!(service.service.task_result("new"), None);
}

#[tokio::test]
async fn results_that_come_too_late_are_ignored() {
    let settings = ServiceSettings {
        command_timeout: std::time::Duration::from_millis(100),
        ..ServiceSettings::default()
    };
    let service = TestService::with(settings).await;
    let mut device = service.registered("device", "d", None).await;
    let error = service.service.command("d", batch(&["say"])).await.unwrap_err();
    assert!(matches!(error, CommandError::TimedOut { .. }));
    let id = device.next().await["response_id"].clone();
    let late =
        json!({ "type": "command_results", "status": "ok", "prev_response_id": id, "action_results": [] });
    device.send(late).await;
    device.nothing_else().await;
}

#[tokio::test]
async fn results_that_do_not_fit_the_commands_are_an_error() {
    let service = TestService::new().await;
    let mut device = service.registered("device", "d", None).await;
    for (fields, why) in [
        (json!({ "action_results": [] }), "0 results for 2 commands"),
        (json!({ "error": "broken" }), "broken"),
        (json!({}), "no results"),
    ] {
        let running = service.service.clone();
        let running = tokio::spawn(async move { running.command("d", batch(&["say", "say"])).await });
        let command = device.next().await;
        let mut answer =
            json!({ "type": "command_results", "status": "ok", "prev_response_id": command["response_id"] });
        answer
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().cloned().unwrap());
        device.send(answer).await;
        let error = timeout(SOON, running).await.unwrap().unwrap().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_session_belongs_to_its_creator() {
    let mut service = TestService::new().await;
    let mut device = service.registered("device", "d", None).await;
    let mut owner = service.registered("constellation", "owner", None).await;
    let mut thief = service.registered("constellation", "thief", None).await;
    let message = |kind: &str| {
        json!({
            "type": kind, "status": "continue", "client_type": "constellation", "target_id": "d",
            "session_id": "s", "request": "wait", "task_name": "t",
        })
    };
    owner.send(message("task")).await;
    let accepted = owner.next().await;
    assert_eq!(
        (&accepted["type"], &accepted["session_id"]),
        (&json!("heartbeat"), &json!("s"))
    );
    for kind in ["task", "task_end"] {
        thief.send(message(kind)).await;
        thief.refused("session_id 's' belongs to another client").await;
    }
    owner.send(message("task")).await;
    owner.refused("session_id 's' is under way already").await;
    // The device may note its end; the owner ends it.
    device
        .send(json!({ "type": "task_end", "status": "completed", "session_id": "s" }))
        .await;
    service
        .told(&Told::Note(
            "s".to_owned(),
            agentanycast_aip::messages::MessageStatus::Completed,
        ))
        .await;
    owner.send(message("task_end")).await;
    for client in [&mut owner, &mut device] {
        let end = client.next().await;
        assert_eq!(
            (&end["type"], &end["status"], &end["session_id"]),
            (&json!("task_end"), &json!("failed"), &json!("s"))
        );
    }
    service.told(&Told::Cancelled("s".to_owned())).await;
    thief.nothing_else().await;
}

#[tokio::test]
async fn unknown_values_are_errors_that_name_them_and_too_many_end_the_connection() {
    let service = TestService::new().await;
    let mut client = service.registered("device", "d", None).await;
    client.send(json!({ "type": "dance", "status": "ok" })).await;
    client.refused("unknown type \"dance\"").await;
    client
        .send(json!({ "type": "heartbeat", "status": "great" }))
        .await;
    client.refused("unknown status \"great\"").await;
    client
        .send(json!({ "type": "heartbeat", "status": "ok", "client_type": "king" }))
        .await;
    client.refused("unknown client_type \"king\"").await;
    client.nothing_else().await;
    for _ in 0..32 {
        client.text("[]").await;
        client
            .refused("not a valid message: a message is a JSON object with \"type\"")
            .await;
    }
    client
        .refused_for_good("32 frames in a row were refused: the connection is closed")
        .await;
}

#[tokio::test]
async fn errors_do_not_repeat_a_long_value() {
    let service = TestService::new().await;
    let _device = service.registered("device", "d", None).await;
    let long = "\u{e4}".repeat(2 << 20);
    let mut first = service.raw().await;
    let register = |id: &str, target: &str| {
        json!({
            "type": "register", "status": "ok", "client_type": "constellation", "client_id": id,
            "target_id": target,
        })
    };
    first.send(register("c", &long)).await;
    first.refused_for_good("target_id has to have").await;
    let mut client = service.registered("constellation", "c", None).await;
    let task = |field: &str| {
        let mut task = json!({
            "type": "task", "status": "continue", "client_type": "constellation", "target_id": "d",
            "request": "wait", "session_id": "s",
        });
        task[field] = long.clone().into();
        task
    };
    let mut wrong_type = task("task_name");
    wrong_type["metadata"] = long.clone().into();
    let mut unknown =
        json!({ "type": "device_info_request", "status": "ok", "client_type": "constellation" });
    unknown["target_id"] = "d".into();
    unknown["request_id"] = long.clone().into();
    for (message, text) in [
        (json!({ "type": long, "status": "ok" }), "unknown type"),
        (wrong_type, "invalid type: string"),
        (task("target_id"), "target_id has to have"),
        (task("session_id"), "session_id has to have"),
        (unknown, "request_id have to have"),
    ] {
        client.send(message).await;
        let refusal = client.next().await;
        let error = refusal["error"].as_str().unwrap();
        assert!(error.contains(text), "{}", &error[..60]);
        assert!(error.chars().count() <= 500 && refusal.to_string().len() < 2000);
    }
    client.nothing_else().await;
}

#[tokio::test]
async fn a_task_needs_a_request() {
    let service = TestService::new().await;
    let _device = service.registered("device", "d", None).await;
    let mut client = service.registered("constellation", "c", None).await;
    for request in [json!(null), json!(""), json!(" \n")] {
        let task = json!({
            "type": "task", "status": "continue", "client_type": "constellation", "target_id": "d",
            "session_id": "s", "request": request,
        });
        client.send(task).await;
        client.refused("a task needs a request").await;
    }
    client.nothing_else().await;
}

#[tokio::test]
async fn a_message_of_one_byte_too_many_ends_the_connection() {
    let mut service = TestService::new().await;
    let mut client = service.registered("device", "d", None).await;
    let mut text = String::from(r#"{"type":"heartbeat","status":"ok"}"#);
    let padding = MAX_MESSAGE - text.len();
    text.extend(std::iter::repeat_n(' ', padding));
    client.text(&text).await;
    // Without optimisation this takes several seconds.
    assert_eq!(client.next_within(120).await["type"], "heartbeat");
    text.push(' ');
    // The service reads no further than the header: sending may fail half-way.
    let _ = client.0.sender.send(WireFrame::Text(text)).await;
    service
        .told_within(&Told::Gone("d".to_owned()), Duration::from_mins(2))
        .await;
}

#[tokio::test]
async fn a_device_that_takes_more_tasks_than_it_may_is_told() {
    let settings = ServiceSettings {
        max_tasks_per_client: 2,
        ..ServiceSettings::default()
    };
    let service = TestService::with(settings).await;
    let _device = service.registered("device", "d", None).await;
    let mut client = service.registered("constellation", "c", None).await;
    for number in 0..3 {
        client
            .send(json!({
                "type": "task", "status": "continue", "client_type": "constellation", "target_id": "d",
                "session_id": format!("s{number}"), "request": "wait",
            }))
            .await;
        let answer = client.next().await;
        assert_eq!(answer["session_id"], format!("s{number}"));
        assert_eq!(
            answer["type"],
            if number < 2 { "heartbeat" } else { "error" },
            "{answer}"
        );
    }
}
