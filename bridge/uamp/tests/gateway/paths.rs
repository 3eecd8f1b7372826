//! Paths by their methods, and who may call them from a page.

use http::Method;
use serde_json::Value;

use crate::fixture::{TOKEN, TestGateway, http};

async fn ask(gateway: &TestGateway, method: &Method, path: &str) -> reqwest::Response {
    let request = http(false).request(method.clone(), gateway.url(path));
    request.bearer_auth(TOKEN).send().await.unwrap()
}

#[tokio::test]
async fn another_method_is_refused_with_the_one_that_is_served() {
    let gateway = TestGateway::start().await;
    for (path, allowed, others) in [
        ("/v1/messages", "POST", [Method::GET, Method::PUT, Method::DELETE]),
        ("/v1/stream/s", "GET", [Method::POST, Method::PUT, Method::DELETE]),
        ("/uamp/1/ws", "GET", [Method::POST, Method::PUT, Method::PATCH]),
        (
            "/.well-known/agent-manifest.json",
            "GET",
            [Method::POST, Method::PUT, Method::DELETE],
        ),
    ] {
        for method in others {
            let response = ask(&gateway, &method, path).await;
            assert_eq!(response.status(), 405, "{method} {path}");
            assert_eq!(response.headers()["allow"], allowed, "{method} {path}");
            let (_, content) = gateway.refusal(response).await;
            let wanted = format!("{method} is not served here; use {allowed}");
            assert_eq!(content["message"], wanted.as_str());
            assert_eq!(content.get("field"), None::<&Value>);
        }
    }
    for path in ["/", "/v1/message", "/v1/messages/x", "/v1/stream"] {
        for method in [Method::GET, Method::POST] {
            assert_eq!(
                ask(&gateway, &method, path).await.status(),
                404,
                "{method} {path}"
            );
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_hears_the_setting_that_lists_origins() {
    let gateway = TestGateway::start().await;
    let request = http(false).post(gateway.url("/v1/messages")).bearer_auth(TOKEN);
    let response = request.header("origin", "https://page.example").send().await;
    let (status, content) = gateway.refusal(response.unwrap()).await;
    assert_eq!((status, content["code"].as_str()), (403, Some("4.03")));
    let message = content["message"].as_str().unwrap();
    assert!(
        message.contains("; gateways.uamp.cors_origins lists"),
        "{message}"
    );
}
