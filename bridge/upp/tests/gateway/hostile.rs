//! Requests that are malformed, too large or not allowed are refused, and begin no task.

use serde_json::json;

use crate::fixture::{MAX_BODY, TestGateway, answer, body, soon};

#[tokio::test]
async fn a_malformed_request_is_told_its_field() {
    let gateway = TestGateway::start().await;
    for (body, field) in [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "`request`"),
        (r#"{"model": "x"}"#, "`messages`"),
        (r#"{"messages": []}"#, "`model`"),
        (
            r#"{"model": "x", "messages": [{"type": "user"}]}"#,
            "`messages[0]`",
        ),
        (
            r#"{"model": "x", "messages": [{"type": "user", "id": 1}]}"#,
            "`messages[0].id`",
        ),
        (
            r#"{"model": "x", "messages": [{"type": "robot"}]}"#,
            "`messages[0].type`",
        ),
        (r#"{"model": "x", "messages": [], "tools": 1}"#, "`tools`"),
        (r#"{"model": "x", "messages": [], "structure": 3}"#, "`structure`"),
    ] {
        let request = gateway.post("self", "application/json").body(body);
        let (status, error) = answer(soon(request.send()).await.unwrap()).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (400, &json!("INVALID_REQUEST")),
            "{body}"
        );
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(field), "{body}: {message}");
    }
    assert!(gateway.node.sent.lock().unwrap().is_empty());
}

#[tokio::test]
async fn sizes_have_bounds() {
    let gateway = TestGateway::start().await;
    let long = body(&"x".repeat(MAX_BODY));
    let many = format!(
        r#"{{"model": "x", "messages": [], "params": {{"a": [{}1]}}}}"#,
        "1,".repeat(100_000)
    );
    let chunked = reqwest::Body::wrap_stream(futures::stream::iter(
        std::iter::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 64 << 10])).take(2 * (MAX_BODY >> 16)),
    ));
    for sent in [reqwest::Body::from(long), many.into(), chunked] {
        let request = gateway.post("self", "application/json").body(sent);
        let (status, error) = answer(soon(request.send()).await.unwrap()).await;
        let code = &error["error"]["code"];
        assert_eq!(
            (status, code),
            (413, &json!("CONTEXT_LENGTH_EXCEEDED")),
            "{error}"
        );
    }
    let deep = format!(
        r#"{{"model": "x", "messages": {}{}}}"#,
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let request = gateway.post("self", "application/json").body(deep);
    assert_eq!(soon(request.send()).await.unwrap().status(), 400);
    assert!(gateway.node.sent.lock().unwrap().is_empty());
}

#[tokio::test]
async fn callers_say_who_they_are() {
    let gateway = TestGateway::start().await;
    let request = gateway.post("self", "application/json").body(body("hi"));
    let mut request = request.build().unwrap();
    request.headers_mut().remove("authorization");
    let response = soon(gateway.client.execute(request)).await.unwrap();
    assert!(response.headers().contains_key("www-authenticate"));
    let (status, error) = answer(response).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (401, &json!("AUTHENTICATION_FAILED"))
    );
    assert!(gateway.node.sent.lock().unwrap().is_empty());
}

#[tokio::test]
async fn other_paths_methods_and_types_are_refused() {
    let gateway = TestGateway::start().await;
    let post = |target: &str| gateway.post(target, "application/json").body(body("hi"));
    for target in ["", "skill:", "did:web:example.com", "a/b/c", "%ff"] {
        assert_eq!(soon(post(target).send()).await.unwrap().status(), 404, "{target}");
    }
    let mut request = post("self").build().unwrap();
    *request.method_mut() = reqwest::Method::PUT;
    let response = soon(gateway.client.execute(request)).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["allow"]),
        (405, &"POST".parse().unwrap())
    );
    for (name, value) in [("content-type", "text/plain"), ("content-encoding", "gzip")] {
        let mut request = post("self").build().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
        let (status, error) = answer(soon(gateway.client.execute(request)).await.unwrap()).await;
        assert_eq!(
            (status, &error["error"]["code"]),
            (415, &json!("INVALID_REQUEST")),
            "{name}"
        );
    }
    assert!(gateway.node.sent.lock().unwrap().is_empty());
}
