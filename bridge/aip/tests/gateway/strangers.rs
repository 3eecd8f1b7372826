//! What callers see and may do of whom nothing says who they are. A header of a proxy says that a request comes from elsewhere.

use agentanycast_aip_gateway::settings::AipSettings;
use agentanycast_gateway::fake::TWO_AGENTS;
use serde_json::{Value, json};

use crate::fixture::{TOKEN, TestGateway, soon};

async fn call(
    gateway: &TestGateway,
    headers: &[(&str, &str)],
    path: &str,
    body: Option<Value>,
) -> (u16, Value) {
    let url = format!("http://{}{path}", gateway.running.address().unwrap());
    let client = reqwest::Client::new();
    let mut request = match body {
        Some(body) => client
            .post(url)
            .header("content-type", "application/json")
            .body(body.to_string()),
        None => client.get(url),
    };
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = soon(request.send()).await.unwrap();
    let status = answer.status().as_u16();
    (
        status,
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap(),
    )
}

const FROM_ELSEWHERE: (&str, &str) = ("x-forwarded-for", "192.0.2.1");

#[tokio::test]
async fn a_stranger_does_not_see_private_devices_and_gives_them_no_tasks() {
    let settings = AipSettings {
        planner: format!("{TWO_AGENTS}/two"),
        ..AipSettings::default()
    };
    let gateway = TestGateway::with_front(settings, |front| front.auth.tokens_file = None).await;
    let _device = gateway.device("d").await;
    let task = |name: &str| json!({ "client_id": "d", "request": "say", "task_name": name });

    // A program of this host needs not say who it is.
    let (_, clients) = call(&gateway, &[], "/api/clients", None).await;
    assert_eq!(clients["online_clients"], json!(["d"]));
    let (status, _) = call(&gateway, &[], "/api/dispatch", Some(task("mine"))).await;
    assert_eq!(status, 200);

    for path in ["/api/clients", "/api/health"] {
        let (status, shown) = call(&gateway, &[FROM_ELSEWHERE], path, None).await;
        assert_eq!((status, &shown["online_clients"]), (200, &json!([])), "{path}");
    }
    let (status, refused) = call(&gateway, &[FROM_ELSEWHERE], "/api/dispatch", Some(task("theirs"))).await;
    assert_eq!(status, 403);
    assert_eq!(
        refused["detail"],
        "device 'd' is private; ask its owner for an invite"
    );
    let (status, _) = call(&gateway, &[FROM_ELSEWHERE], "/api/task_result/mine", None).await;
    assert_eq!(status, 404, "it is the task of another one");
    let (status, _) = call(&gateway, &[], "/api/task_result/mine", None).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_token_says_who_somebody_from_elsewhere_is() {
    let gateway = TestGateway::start().await;
    let _device = gateway.device("d").await;
    let with_token = [FROM_ELSEWHERE, ("x-api-key", TOKEN)];
    let (_, clients) = call(&gateway, &with_token, "/api/clients", None).await;
    assert_eq!(clients["online_clients"], json!(["d"]));
}
