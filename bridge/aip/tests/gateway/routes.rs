//! Who comes in, and the REST routes.

use agentanycast_aip::{
    messages::MAX_MESSAGE,
    transport::{Connector as _, TransportError, WebSocketEndpoint},
};
use agentanycast_aip_gateway::settings::AipSettings;
use agentanycast_gateway::fake::TWO_AGENTS;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    client_async,
    tungstenite::{Bytes, Message},
};

use crate::fixture::{TOKEN, TestGateway, data, soon};

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
    let url = format!("http://{}{path}", gateway.running.address().unwrap());
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
    assert_eq!(
        call(&gateway, "/api/task_result/other", None).await,
        (404, json!({ "detail": "no task has this name" }))
    );
    let large = json!({ "client_id": "d", "request": "x".repeat(2 << 20) });
    assert_eq!(call(&gateway, "/api/dispatch", Some(large)).await.0, 400);
    let url = format!("http://{}/api/clients", gateway.running.address().unwrap());
    assert_eq!(reqwest::get(url).await.unwrap().status().as_u16(), 401);
}

#[tokio::test]
async fn a_message_above_the_largest_closes_its_socket_and_disturbs_no_other() {
    let gateway = TestGateway::start().await;
    let _device = gateway.device("d").await;
    let address = gateway.running.address().unwrap();
    let request = format!("ws://{address}/ws?token={TOKEN}");
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, _) = client_async(request, stream).await.unwrap();
    let register = json!({ "type": "register", "status": "ok", "client_id": "large" });
    socket.send(Message::text(register.to_string())).await.unwrap();
    let accepted = async {
        loop {
            if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
                return text;
            }
        }
    };
    assert!(soon(accepted).await.contains("heartbeat"));
    let (mut sender, mut receiver) = socket.split();
    let sent = tokio::spawn(async move {
        let bytes = Bytes::from(vec![b' '; MAX_MESSAGE + 1]);
        sender.send(Message::binary(bytes)).await
    });
    let closed = async {
        loop {
            match receiver.next().await {
                Some(Ok(Message::Close(frame))) => return frame.unwrap(),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let closed = soon(closed).await;
    assert_eq!(u16::from(closed.code), 1009, "{closed:?}");
    let _ = soon(sent).await;
    gateway.give("t", "aip:d:say", data(&json!({ "text": "still here" })));
    assert_eq!(gateway.result_of("t").await, json!({ "said": "still here" }));
}
