//! Push notifications: set over each binding, told in order, and told on after the bridge and its daemon were killed.

use std::collections::BTreeSet;

use agentanycast_tests::{Bridge, eventually, http::HttpClient, webhook_receiver::WebhookReceiver};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::setup::{
    BRIDGE_MODES, BridgeMode, BridgeSetup, nonblocking_send_params, send_params, texts, user_message,
    v0_3_message,
};

/// What a receiver makes of what it is told in 1.0: the task shows all of it, an event the next. What is told again is
/// known.
#[derive(Debug, Default)]
struct PushTranscript {
    /// What the agent said.
    said: Vec<String>,
    results: Vec<String>,
    state: String,
}

impl PushTranscript {
    fn apply(&mut self, told: &Value) {
        let text = |message: &Value| message["parts"][0]["text"].as_str().map(str::to_owned);
        if let Some(task) = told.get("task") {
            let history = task["history"].as_array().cloned().unwrap_or_default();
            let said = history.iter().filter(|message| message["role"] == "ROLE_AGENT");
            self.said = said.filter_map(text).collect();
            self.said.extend(text(&task["status"]["message"]));
            self.results = texts(task);
            task["status"]["state"]
                .as_str()
                .unwrap()
                .clone_into(&mut self.state);
        } else if let Some(update) = told.get("statusUpdate") {
            self.said.extend(text(&update["status"]["message"]));
            self.said.dedup();
            update["status"]["state"]
                .as_str()
                .unwrap()
                .clone_into(&mut self.state);
        } else {
            self.results
                .extend(texts(&json!({"artifacts": [told["artifactUpdate"]["artifact"]]})));
            self.results.dedup();
        }
    }

    /// Listens until the agent has said this.
    async fn until_said(&mut self, webhook: &mut WebhookReceiver, text: &str) {
        while !self.said.iter().any(|said| said == text) {
            self.apply(&webhook.next().await.body);
        }
    }

    /// Listens until the task is in this state.
    async fn until_in(&mut self, webhook: &mut WebhookReceiver, state: &str) {
        while self.state != state {
            self.apply(&webhook.next().await.body);
        }
    }
}

#[tokio::test]
async fn a_webhook_is_told_all_in_order() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let mut webhook = WebhookReceiver::start().await;
        let params = json!({"message": user_message("ask"), "configuration": {"returnImmediately": true,
            "taskPushNotificationConfig": {"id": "mine", "url": webhook.url(), "token": "t-1",
                "authentication": {"scheme": "Bearer", "credentials": "c-1"}}}});
        let task = scene.client().call("SendMessage", params).await["task"].take();
        let first = webhook.next().await;
        for line in [
            "post /hook http/1.1",
            "x-a2a-notification-token: t-1",
            "authorization: bearer c-1",
        ] {
            assert!(first.head.contains(line), "{}", first.head);
        }
        assert_eq!(first.body["task"]["id"], task["id"]);
        let mut heard = PushTranscript::default();
        heard.apply(&first.body);
        heard.until_said(&mut webhook, "Which one?").await;
        assert_eq!(heard.state, "TASK_STATE_INPUT_REQUIRED");
        let mut answer = user_message("red");
        answer["taskId"] = task["id"].clone();
        scene
            .client()
            .call("SendMessage", json!({ "message": answer }))
            .await;
        heard.until_in(&mut webhook, "TASK_STATE_COMPLETED").await;
        assert_eq!(heard.said, ["Which one?"]);
        assert_eq!(heard.results, ["You said red"], "results come before the end");
    }
}

/// Whoever asks for it when the task has ended is told of that, in the words of its version.
#[tokio::test]
async fn an_ended_task_is_told_whole() {
    let scene = BridgeSetup::talking().await;
    let mut webhook = WebhookReceiver::start().await;
    let task = scene
        .client()
        .call("SendMessage", send_params("echo hello"))
        .await["task"]
        .take();
    let config = json!({"taskId": task["id"], "id": "w", "url": webhook.url()});
    scene
        .client()
        .call("CreateTaskPushNotificationConfig", config)
        .await;
    let told = webhook.next().await.body;
    assert_eq!(texts(&told["task"]), ["echo hello", "hello"]);

    let params = json!({"message": v0_3_message("echo hello"), "configuration":
        {"pushNotificationConfig": {"url": webhook.url()}}});
    let task = scene.old_client().call("message/send", params).await;
    let told = loop {
        let told = webhook.next().await.body;
        if told["status"]["state"] == "completed" {
            break told;
        }
    };
    assert_eq!((&told["kind"], &told["id"]), (&json!("task"), &task["id"]));
    assert_eq!(texts(&told), ["echo hello", "hello"]);
}

/// Sets, reads, lists and deletes webhooks of a task that never ends, over each binding.
#[tokio::test]
async fn webhooks_are_kept_over_each_binding() {
    for carrier in BRIDGE_MODES {
        let scene = BridgeSetup::talking_by(carrier).await;
        let (new, old) = (scene.client(), scene.old_client());
        let task = new.call("SendMessage", nonblocking_send_params("wait")).await["task"]["id"].take();
        let id = task.as_str().unwrap();
        let url = "https://hooks.example.org/a2a";
        let config = json!({"taskId": id, "id": "rpc", "url": url, "token": "t",
            "authentication": {"scheme": "Basic", "credentials": "eDp5"}});
        let set = new.call("CreateTaskPushNotificationConfig", config.clone()).await;
        assert_eq!(set, config);
        let named = |name: &str| json!({"taskId": id, "id": name});
        assert_eq!(
            new.call("GetTaskPushNotificationConfig", named("rpc")).await,
            config
        );

        let path = format!("/tasks/{id}/pushNotificationConfigs");
        let answer = new.post(&path, &json!({"id": "rest", "url": url})).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert_eq!(answer.body, json!({"taskId": id, "id": "rest", "url": url}));
        assert_eq!(new.get(&format!("{path}/rest")).await.body, answer.body);

        let set = json!({"taskId": id, "pushNotificationConfig": {"url": url}});
        let set = old.call("tasks/pushNotificationConfig/set", set).await;
        assert_eq!(set["pushNotificationConfig"]["id"], id);
        let got = old
            .call("tasks/pushNotificationConfig/get", json!({ "id": id }))
            .await;
        assert_eq!(got, set);

        let listed = new.get(&path).await.body;
        assert_eq!(listed["configs"].as_array().unwrap().len(), 3, "{listed}");
        let list = old
            .call("tasks/pushNotificationConfig/list", json!({ "id": id }))
            .await;
        assert_eq!(list.as_array().unwrap().len(), 3, "{list}");

        let gone = json!({"id": id, "pushNotificationConfigId": "rpc"});
        assert_eq!(
            old.call("tasks/pushNotificationConfig/delete", gone).await,
            Value::Null
        );
        let gone = new
            .request(Method::DELETE, &format!("{path}/rest"), "application/json", "")
            .await;
        assert_eq!((gone.status, gone.body), (StatusCode::OK, json!({})));
        assert_eq!(
            new.code("GetTaskPushNotificationConfig", named("rpc")).await,
            -32001
        );
        let left = new
            .call("ListTaskPushNotificationConfigs", json!({ "taskId": id }))
            .await;
        assert_eq!(left["configs"].as_array().unwrap().len(), 1, "{left}");
        assert_eq!(left["nextPageToken"], "");

        let of_nobody = json!({"taskId": "no-such-task", "url": url});
        assert_eq!(
            new.code("CreateTaskPushNotificationConfig", of_nobody).await,
            -32001
        );
        for number in 0..15 {
            let config = json!({"taskId": id, "id": number.to_string(), "url": url});
            new.call("CreateTaskPushNotificationConfig", config).await;
        }
        assert_eq!(all_ids(&new, &path).await.len(), 16);
        let one_more = json!({"taskId": id, "id": "one more", "url": url});
        let refused = new.rpc("CreateTaskPushNotificationConfig", one_more).await;
        assert_eq!(
            refused["error"]["data"][0]["reason"], "INVALID_PARAMS",
            "{refused}"
        );
    }
}

/// The ids of all webhooks, read page by page; each is there once.
async fn all_ids(client: &HttpClient, path: &str) -> BTreeSet<String> {
    let (mut ids, mut token) = (BTreeSet::new(), String::new());
    loop {
        let page = client
            .get(&format!("{path}?pageSize=5&pageToken={token}"))
            .await
            .body;
        let configs = page["configs"].as_array().unwrap();
        assert!(configs.len() <= 5, "{page}");
        for config in configs {
            assert!(ids.insert(config["id"].as_str().unwrap().to_owned()), "{page}");
        }
        page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            return ids;
        }
    }
}

#[tokio::test]
async fn the_network_behind_the_bridge_is_not_told() {
    let scene = BridgeSetup::talking().await;
    let strict = Bridge::start(&scene.pair.bob).await;
    let client = HttpClient::new(strict.url()).at(&scene.path()).version("1.0");
    for inside in [
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://169.254.169.254/latest",
        "http://100.64.0.1/",
        "http://[64:ff9b::7f00:1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://localhost./",
    ] {
        let configuration = json!({"returnImmediately": true, "taskPushNotificationConfig": {"url": inside}});
        let params = json!({"message": user_message("wait"), "configuration": configuration});
        assert_eq!(client.code("SendMessage", params).await, -32602, "{inside}");
    }
    assert_eq!(
        client.call("ListTasks", json!({})).await["totalSize"],
        0,
        "nothing was begun"
    );
}

/// The webhook is out of reach; then the bridge, its daemon, and both are killed while it is. What happened meanwhile is
/// told, in order; what may have been told already comes again at worst.
#[tokio::test]
async fn what_was_asked_for_outlives_kills() {
    let mut scene = BridgeSetup::talking().await;
    let mut webhook = WebhookReceiver::start().await;
    let configuration =
        json!({"returnImmediately": true, "taskPushNotificationConfig": {"url": webhook.url()}});
    let params = json!({"message": user_message("ask"), "configuration": configuration});
    let id = scene.client().call("SendMessage", params).await["task"]["id"].take();
    let mut heard = PushTranscript::default();
    heard.until_said(&mut webhook, "Which one?").await;
    webhook.refuse(true);
    scene.bridge.crash().await;
    scene.pair.bob.kill().await;
    scene.pair.bob.restart().await;
    let mut answer = user_message("red");
    answer["taskId"] = id.clone();
    let done = eventually("the answer is taken", || async {
        let answer = scene
            .client()
            .rpc("SendMessage", json!({ "message": answer }))
            .await;
        answer["result"].get("task").cloned()
    })
    .await;
    assert_eq!(texts(&done), ["You said red"]);
    scene.bridge.crash().await;
    webhook.refuse(false);
    heard.until_in(&mut webhook, "TASK_STATE_COMPLETED").await;
    assert_eq!(heard.said, ["Which one?"]);
    assert_eq!(heard.results, ["You said red"]);
}

/// In the daemon itself, which is killed.
#[tokio::test]
async fn what_was_asked_for_outlives_the_daemon_with_its_bridge() {
    let mut scene = BridgeSetup::talking_by(BridgeMode::Inside).await;
    let mut webhook = WebhookReceiver::start().await;
    let configuration =
        json!({"returnImmediately": true, "taskPushNotificationConfig": {"url": webhook.url()}});
    let params = json!({"message": user_message("wait"), "configuration": configuration});
    let id = scene.client().call("SendMessage", params).await["task"]["id"].take();
    let mut heard = PushTranscript::default();
    heard.until_said(&mut webhook, "on my way").await;
    scene.pair.bob.kill().await;
    scene.pair.bob.restart().await;
    scene.client().call("CancelTask", json!({ "id": id })).await;
    heard.until_in(&mut webhook, "TASK_STATE_CANCELED").await;
    assert_eq!(heard.said, ["on my way"]);
}
