//! How adapters fail: statuses, Retry-After, garbage, half a stream, a server that is away.

use std::time::Duration;

use agentanycast_upp::{
    ErrorCode, ExponentialBackoff, Llm, ModelReference, ProviderConfig, UppError, llm,
    providers::{anthropic, gemini, ollama, openai, openai_responses, proxy},
};
use serde_json::json;

use crate::stub::{Answer, Stub};

fn all() -> Vec<ModelReference> {
    vec![
        openai("m"),
        openai_responses("m"),
        anthropic("m"),
        gemini("m"),
        ollama("m"),
        proxy("http://unused.invalid", "m"),
    ]
}

fn at(url: &str, model: ModelReference) -> Llm {
    llm(model)
        .config(ProviderConfig::new().base_url(url).api_key("k"))
        .build()
        .unwrap()
}

async fn both_ways(model: ModelReference, answer: Answer) -> [UppError; 2] {
    let stub = Stub::new([answer.clone(), answer]).await;
    let model = at(&stub.url, model);
    let whole = model.generate("hi").await.unwrap_err();
    let streamed = model.stream("hi").result().await.unwrap_err();
    [whole, streamed]
}

#[tokio::test]
async fn the_error_table_holds_for_every_provider() {
    let table = [
        (400, ErrorCode::InvalidRequest),
        (401, ErrorCode::AuthenticationFailed),
        (402, ErrorCode::QuotaExceeded),
        (404, ErrorCode::ModelNotFound),
        (408, ErrorCode::Timeout),
        (413, ErrorCode::ContextLengthExceeded),
        (429, ErrorCode::RateLimited),
        (451, ErrorCode::ContentFiltered),
        (503, ErrorCode::ProviderError),
        (302, ErrorCode::ProviderError),
    ];
    for (status, code) in table {
        for model in all() {
            let name = model.provider().name().to_owned();
            let mut answer = Answer::new(status, json!({"error": {"message": "no"}}).to_string());
            answer.headers.push(("retry-after", "7".into()));
            // A redirect is not followed: it would carry the key away.
            answer.headers.push(("location", "http://127.0.0.1:1/".into()));
            for error in both_ways(model, answer).await {
                assert_eq!(error.code(), code, "{name} {status}");
                assert_eq!(error.message(), "no");
                assert_eq!(error.status(), Some(status));
                assert_eq!(error.provider(), Some(name.as_str()));
                assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
            }
        }
    }
}

#[tokio::test]
async fn names_in_the_body_say_more_than_the_status() {
    let body = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    for error in both_ways(openai("m"), Answer::new(400, body.to_string())).await {
        assert_eq!(error.code(), ErrorCode::ContextLengthExceeded);
    }
    let body = json!({"error": {"message": "pay", "code": "insufficient_quota"}});
    for error in both_ways(openai("m"), Answer::new(429, body.to_string())).await {
        assert_eq!(error.code(), ErrorCode::QuotaExceeded);
    }
}

#[tokio::test]
async fn garbage_is_an_invalid_response() {
    let garbage = [
        "<html>hello</html>",
        "{\"choices\": 3}",
        "data: {\n\n",
        "data: [[[\n\n",
        "",
        "{}",
        "data: {\"messages\": 1, \"usage\": 2, \"cycles\": 3}\n\n",
    ];
    for body in garbage {
        for model in all() {
            let name = model.provider().name().to_owned();
            for error in both_ways(model, Answer::new(200, body)).await {
                assert_eq!(error.code(), ErrorCode::InvalidResponse, "{name} {body}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn half_a_stream_fails_and_is_not_repeated() {
    let chunk = |text: &str| json!({"choices": [{"delta": {"content": text}}]});
    let half = Answer::events(&[chunk("half"), chunk(" of it")], "");
    let mut broken = half.clone();
    broken.breaks = true;
    for (answer, code) in [
        (half, ErrorCode::InvalidResponse),
        (broken, ErrorCode::NetworkError),
    ] {
        let stub = Stub::new([answer.clone(), answer]).await;
        let config = ProviderConfig::new()
            .base_url(&stub.url)
            .retry(ExponentialBackoff::default());
        let model = llm(openai("m")).config(config).build().unwrap();
        assert_eq!(model.stream("hi").result().await.unwrap_err().code(), code);
        assert_eq!(stub.seen().len(), 1);
    }
}

#[tokio::test]
async fn errors_inside_of_a_stream_keep_their_code() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let limited = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}});
    let proxied = json!({"error": "slow", "code": "RATE_LIMITED"});
    let cases = [
        (anthropic("m"), overloaded, ErrorCode::ProviderError),
        (anthropic("m"), limited, ErrorCode::RateLimited),
        (
            proxy("http://unused.invalid", "m"),
            proxied,
            ErrorCode::RateLimited,
        ),
        (
            openai("m"),
            json!({"error": {"message": "x"}}),
            ErrorCode::ProviderError,
        ),
        (
            gemini("m"),
            json!({"promptFeedback": {"blockReason": "SAFETY"}}),
            ErrorCode::ContentFiltered,
        ),
    ];
    for (model, event, code) in cases {
        let stub = Stub::new([Answer::events(&[event], "")]).await;
        let error = at(&stub.url, model).stream("hi").result().await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_a_network_error() {
    // The port of a listener that is closed again.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for model in all() {
        let error = at(&url, model).generate("hi").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NetworkError, "{error}");
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn a_failed_try_over_http_is_repeated() {
    let good = json!({"choices": [{"finish_reason": "stop", "message": {"content": "at last"}}]});
    let stub = Stub::new([Answer::new(503, "busy"), Answer::json(&good)]).await;
    let retry = ExponentialBackoff {
        base: Duration::from_millis(1),
        ..ExponentialBackoff::default()
    };
    let config = ProviderConfig::new()
        .base_url(&stub.url)
        .retry(retry)
        .header("x-extra", "1");
    let model = llm(openai("m")).config(config).build().unwrap();
    assert_eq!(model.generate("hi").await.unwrap().text(), "at last");
    assert_eq!(stub.seen().len(), 2);
    assert_eq!(stub.seen()[1].headers["x-extra"], "1");
}

#[tokio::test]
async fn a_model_id_that_would_change_the_path_is_refused() {
    let stub = Stub::new([]).await;
    for id in ["", "a?b", "../x", "a b"] {
        let error = at(&stub.url, gemini(id)).generate("hi").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidRequest);
    }
    assert!(stub.seen().is_empty());
}
