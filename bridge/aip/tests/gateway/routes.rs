//! Who comes in, and the REST routes.

use agentanycast_aip::{
    gateway::settings::AipSettings,
    transport::{Connector as _, TransportError, WebSocketEndpoint},
};
use agentanycast_gateway::fake::TWO_AGENTS;
use serde_json::{Value, json};

use crate::fixture::{TOKEN, TestGateway, soon};

#[tokio::test]
async fn a_wrong_token_is_refused_before_the_socket() {
    let gateway = TestGateway::start().await;
    let none = WebSocketEndpoint::new(&gateway.url()).unwrap();
    let wrong = none.clone().with_token("fedcba9876543210");
    for endpoint in [none, wrong] {
        let error = endpoint.connect().await.unwrap_err();
        assert!(
            matches!(error, TransportError::Rejected { status: 403, .. }),
            "{error}"
        );
    }
    gateway.endpoint().connect().await.unwrap();
}

async fn call(gateway: &TestGateway, path: &str, body: Option<Value>) -> (u16, Value) {
    let url = format!("http://{}{path}", gateway.running.address());
    let client = reqwest::Client::new();
    let request = match body {
        Some(body) => client
            .post(url)
            .header("content-type", "application/json")
            .body(body.to_string()),
        None => client.get(url),
    };
    let answer = soon(request.header("x-api-key", TOKEN).send()).await.unwrap();
    let status = answer.status().as_u16();
    (
        status,
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap(),
    )
}

#[tokio::test]
async fn the_rest_routes_tell_of_clients_and_dispatch_tasks() {
    let gateway = TestGateway::with(AipSettings {
        planner: format!("{TWO_AGENTS}/two"),
        ..AipSettings::default()
    })
    .await;
    let _device = gateway.device("d").await;
    let (status, health) = call(&gateway, "/api/health", None).await;
    assert_eq!(
        (status, health),
        (200, json!({ "status": "healthy", "online_clients": ["d"] }))
    );
    let (_, clients) = call(&gateway, "/api/clients", None).await;
    assert_eq!(clients["clients"][0]["client_type"], "device");
    let task = json!({ "client_id": "d", "request": "say", "task_name": "work" });
    let (status, dispatched) = call(&gateway, "/api/dispatch", Some(task)).await;
    assert_eq!((status, &dispatched["status"]), (200, &json!("dispatched")));
    let done = async {
        loop {
            let (_, result) = call(&gateway, "/api/task_result/work", None).await;
            if result["status"] == "done" {
                return result;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let done = soon(done).await;
    assert_eq!(done["result"]["last"], json!({ "said": "planned" }));
    let nobody = json!({ "client_id": "x", "request": "say" });
    assert_eq!(call(&gateway, "/api/dispatch", Some(nobody)).await.0, 404);
    assert_eq!(call(&gateway, "/api/dispatch", Some(json!({}))).await.0, 400);
    assert_eq!(call(&gateway, "/nothing", None).await.0, 404);
    let large = json!({ "client_id": "d", "request": "x".repeat(2 << 20) });
    assert_eq!(call(&gateway, "/api/dispatch", Some(large)).await.0, 400);
    let url = format!("http://{}/api/clients", gateway.running.address());
    assert_eq!(reqwest::get(url).await.unwrap().status().as_u16(), 401);
}
