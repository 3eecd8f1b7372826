//! The bare handler: axum, the JSON parsed, an answer as long as the bridge's.

use axum::{Json, Router, routing::post};
use serde_json::{Value, json};

async fn answer(Json(mut call): Json<Value>) -> Json<Value> {
    let mut message = call["params"]["message"].take();
    let text = format!(
        "echo: {}",
        message["parts"][0]["text"].as_str().unwrap_or_default()
    );
    let (task, context) = (
        "019c2f6e-3a52-7d01-9b43-6f1a2c3d4e5f",
        "019c2f6e-3a52-7d01-9b43-6f1a2c3d4e60",
    );
    message["taskId"] = task.into();
    message["contextId"] = context.into();
    Json(
        json!({"jsonrpc": "2.0", "id": call["id"].take(), "result": {"task": {
            "id": task,
            "contextId": context,
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-02T03:04:05.678Z"},
            "artifacts": [{"artifactId": "a-1", "parts": [{"text": text}]}],
            "history": [message],
            "metadata": {"agentanycast": {"createdAt": "2026-01-02T03:04:05.678Z", "originator": task, "assignee": task}},
        }}}),
    )
}

/// Says where it is and serves until it is ended.
pub(crate) async fn serve() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| stream.set_nodelay(true).unwrap());
    axum::serve(listener, Router::new().route("/", post(answer)))
        .await
        .unwrap();
}
