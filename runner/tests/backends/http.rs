//! HTTP services as agents: one that is posted to, a model, an A2A agent.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentanycast_proto::v1::{self, part::Content};
use agentanycast_runner::{
    Backend, TaskResult,
    http::{HttpConfig, HttpStyle},
};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use flate2::{Compression, write::GzEncoder};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fake_task::{FIRST, FakeTask, failure, run, text, text_of};

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn config(url: String, style: Option<HttpStyle>) -> HttpConfig {
    HttpConfig {
        url,
        style,
        model: Some("small".to_owned()),
        token: Some("the-secret".to_owned()),
        max_output: 2 << 20,
        answer_within: Duration::from_secs(10),
    }
}

async fn backend(url: &str, style: HttpStyle) -> Box<dyn Backend> {
    config(url.to_owned(), Some(style)).backend().await.unwrap()
}

async fn posted(Path(what): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    match what.as_str() {
        "echo" => {
            let names = [
                "x-anycast-task",
                "x-anycast-context",
                "x-anycast-skill",
                "x-anycast-sender",
            ];
            let shown = json!({"body": String::from_utf8_lossy(&body), "type": header("content-type"),
                "auth": header("authorization"), "headers": names.map(header)});
            Json(shown).into_response()
        }
        "text" => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "<p>").into_response(),
        "empty" => StatusCode::NO_CONTENT.into_response(),
        "large" => vec![b'x'; 1 << 20].into_response(),
        "too-large" => vec![b'x'; 3 << 20].into_response(),
        "teapot" => (
            StatusCode::IM_A_TEAPOT,
            format!("no the-secret {}", "y".repeat(9000)),
        )
            .into_response(),
        "latin" => (
            StatusCode::BAD_REQUEST,
            [(header::CONTENT_TYPE, "text/html; charset=ISO-8859-1")],
            &b"<h1>caf\xe9 &amp; I can&#39;t</h1>"[..],
        )
            .into_response(),
        "zstd" => (
            StatusCode::BAD_GATEWAY,
            [(header::CONTENT_ENCODING, "zstd")],
            &b"\x28\xb5\x2f\xfd\x00"[..],
        )
            .into_response(),
        "moved" => (StatusCode::FOUND, [(header::LOCATION, "/echo")]).into_response(),
        _ => std::future::pending().await,
    }
}

/// Takes JSON alone, and says what it got.
async fn takes_json(State(asked): State<Asked>, headers: HeaderMap, body: Bytes) -> Response {
    let kind = headers["content-type"].to_str().unwrap().to_owned();
    let body = String::from_utf8_lossy(&body).into_owned();
    asked.lock().unwrap().push(json!([kind, body]));
    match serde_json::from_str::<Value>(&body) {
        Ok(_) if kind == "application/json" => {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            std::io::Write::write_all(&mut packed, body.as_bytes()).unwrap();
            // Without a word that it is packed.
            (
                [(header::CONTENT_TYPE, "application/json")],
                packed.finish().unwrap(),
            )
                .into_response()
        }
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "a valid dictionary is wanted").into_response(),
    }
}

#[tokio::test]
async fn a_service_that_takes_json_is_given_json() {
    let asked = Asked::default();
    let router = Router::new()
        .route("/", post(takes_json))
        .with_state(Arc::clone(&asked));
    let url = serve(router).await;
    let given = |words: &str| FakeTask::text("c", "", words);
    let seen = || std::mem::take(&mut *asked.lock().unwrap());

    let service = backend(&url, HttpStyle::Post).await;
    for tries in [2, 1] {
        let artifacts = run(&*service, &given("{\"n\": 1}")).await.unwrap();
        let said = agentanycast_proto::parts::data_of(&artifacts[0].parts[0]);
        assert_eq!(said, Some(json!({"n": 1})));
        // The form is remembered.
        assert_eq!(seen().len(), tries);
    }
    // Text that is no JSON goes as text, once.
    let why = failure(&*service, &given("hello")).await;
    assert!(why.contains("a valid dictionary"), "{why}");
    assert_eq!(seen(), [json!(["text/plain; charset=utf-8", "hello"])]);

    let service = backend(&url, HttpStyle::Json).await;
    run(&*service, &given("[1]")).await.unwrap();
    assert_eq!(seen(), [json!(["application/json", "[1]"])]);
    let why = failure(&*service, &given("hello")).await;
    assert!(why.contains("takes JSON"), "{why}");
    assert!(seen().is_empty());
}

async fn post_service() -> String {
    serve(Router::new().route("/{what}", post(posted))).await
}

#[tokio::test]
async fn a_message_is_posted_and_the_answer_is_the_result() {
    let url = post_service().await;
    let service = backend(&format!("{url}/echo"), HttpStyle::Post).await;
    let artifacts = run(&*service, &FakeTask::text("ctx", "sum", "hello"))
        .await
        .unwrap();
    let Some(Content::DataPart(data)) = &artifacts[0].parts[0].content else {
        panic!("{artifacts:?}")
    };
    let shown = Value::Object(agentanycast_proto::json::from_struct(data.data.as_ref().unwrap()));
    assert_eq!(shown["body"], "hello");
    assert_eq!(shown["type"], "text/plain; charset=utf-8");
    assert_eq!(shown["auth"], "Bearer the-secret");
    assert_eq!(shown["headers"], json!(["task-1", "ctx", "sum", "12D3Sender"]));

    let html = backend(&format!("{url}/text"), HttpStyle::Post).await;
    let artifacts = run(&*html, &FakeTask::text("c", "", "x")).await.unwrap();
    assert_eq!(
        artifacts[0].parts,
        [v1::Part {
            media_type: "text/html".to_owned(),
            ..text("<p>")
        }]
    );
    let empty = backend(&format!("{url}/empty"), HttpStyle::Post).await;
    assert!(
        run(&*empty, &FakeTask::text("c", "", "x"))
            .await
            .unwrap()
            .is_empty()
    );
    let large = backend(&format!("{url}/large"), HttpStyle::Post).await;
    let task = FakeTask::text("c", "", "x");
    assert!(run(&*large, &task).await.unwrap().is_empty());
    assert_eq!(task.streamed_text().len(), 1 << 20);
}

#[tokio::test]
async fn what_is_no_answer_is_a_failure() {
    let url = post_service().await;
    let why = |what: &'static str| {
        let url = format!("{url}/{what}");
        async move {
            let service = backend(&url, HttpStyle::Post).await;
            failure(&*service, &FakeTask::text("c", "", "x")).await
        }
    };
    let teapot = why("teapot").await;
    assert!(
        teapot.starts_with("the service answered 418") && teapot.contains("no *** yyy"),
        "{teapot}"
    );
    assert!(teapot.len() <= 4 << 10);
    let latin = why("latin").await;
    assert_eq!(latin, "the service answered 400 Bad Request: café & I can't");
    let zstd = why("zstd").await;
    assert!(
        zstd.ends_with("it is packed with `zstd`, which was not asked for"),
        "{zstd}"
    );
    let moved = why("moved").await;
    assert!(moved.contains("302") && moved.contains("not followed"), "{moved}");
    assert!(why("too-large").await.contains("--max-output"));
    let gone = backend("http://127.0.0.1:1/", HttpStyle::Post).await;
    let gone = failure(&*gone, &FakeTask::text("c", "", "x")).await;
    assert!(gone.starts_with("the service cannot be reached"), "{gone}");

    let waits = backend(&format!("{url}/waits"), HttpStyle::Post).await;
    let task = FakeTask::text("c", "", "x");
    task.cancelled.cancel();
    waits.run(&task, FIRST).await.unwrap_err();
    for url in ["ftp://h/", "http://user:pass@h/", "no url"] {
        assert!(config(url.to_owned(), None).backend().await.is_err(), "{url}");
    }
}

type Asked = Arc<Mutex<Vec<Value>>>;

async fn complete(State(asked): State<Asked>, headers: HeaderMap, Json(request): Json<Value>) -> Response {
    assert_eq!(headers["authorization"], "Bearer the-secret");
    asked.lock().unwrap().push(request.clone());
    let last = request["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    let event = |json: Value| format!("data: {json}\n\n");
    let piece = |text: &str| event(json!({"choices": [{"delta": {"content": text}, "finish_reason": null}]}));
    let end =
        |why: &str| event(json!({"choices": [{"delta": {}, "finish_reason": why}]})) + "data: [DONE]\n\n";
    let events =
        |text: String| ([(header::CONTENT_TYPE, "text/event-stream")], Body::from(text)).into_response();
    match last.as_str().unwrap() {
        "whole" => Json(json!({"choices": [{"message": {"content": "at once"}, "finish_reason": "stop"}]}))
            .into_response(),
        "cut" => events(piece("half")),
        "cut-empty-reason" => events(event(
            json!({"choices": [{"delta": {"content": "half"}, "finish_reason": ""}]}),
        )),
        "page" => (
            [(header::CONTENT_TYPE, "text/html")],
            "<title>Bad gateway</title>",
        )
            .into_response(),
        "packed" => {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            std::io::Write::write_all(&mut packed, b"{\"detail\": \"no such model\"}").unwrap();
            let packed = packed.finish().unwrap();
            ([(header::CONTENT_ENCODING, "gzip")], packed).into_response()
        }
        "brotli" => ([(header::CONTENT_ENCODING, "br")], "x").into_response(),
        "abort" => events(piece("half") + &end("abort")),
        "blocked" => events(piece("half") + &end("SAFETY")),
        "refusal" => events(event(json!({"choices": [{"delta": {"refusal": "I will not"}}]})) + &end("stop")),
        "key" => Json(json!({"error": "the-secret is no key"})).into_response(),
        // Stays open behind its end.
        "open" => {
            let told = futures::stream::iter([Ok::<_, std::io::Error>(piece("open") + &end("stop"))]);
            let body = Body::from_stream(told.chain(futures::stream::pending()));
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        "strict" if request.get("stream_options").is_some() => {
            (StatusCode::UNPROCESSABLE_ENTITY, "extra field: stream_options").into_response()
        }
        "usage" => events(
            piece("counted")
                + &end("stop").replace("data: [DONE]\n\n", "")
                + ": ping\n\ndata:\n\ndata: ping\n\n"
                + &event(json!({"choices": null, "usage": {"prompt_tokens": 3, "completion_tokens": 4}}))
                + "data: [DONE]\n\n",
        ),
        "long" => events(piece("half") + &end("length")),
        "broken" => events(event(json!({"error": {"message": "out of memory"}}))),
        said => events(piece("you said ") + &piece(said) + &end("stop")),
    }
}

#[tokio::test]
async fn a_model_streams_its_answer_and_knows_the_conversation() {
    let asked = Asked::default();
    let router = Router::new()
        .route("/v1/chat/completions", post(complete))
        .with_state(Arc::clone(&asked));
    let url = serve(router).await;
    let model = backend(&format!("{url}/v1/"), HttpStyle::OpenAi).await;
    for (context, words, answer) in [
        ("a", "one", "you said one"),
        ("a", "whole", "at once"),
        ("b", "two", "you said two"),
    ] {
        let task = FakeTask::text(context, "", words);
        assert!(run(&*model, &task).await.unwrap().is_empty());
        assert_eq!(task.streamed_text(), answer);
    }
    {
        let asked = asked.lock().unwrap();
        assert_eq!(
            (&asked[0]["model"], &asked[0]["stream"]),
            (&json!("small"), &json!(true))
        );
        let said = |role: &str, content: &str| json!({"role": role, "content": content});
        let conversation = json!([
            said("user", "one"),
            said("assistant", "you said one"),
            said("user", "whole")
        ]);
        assert_eq!(asked[1]["messages"], conversation);
        assert_eq!(asked[2]["messages"], json!([said("user", "two")]));
    }
    for (words, reason) in [
        ("cut", "broke off"),
        ("long", "limit of tokens"),
        ("broken", "out of memory"),
        ("cut-empty-reason", "broke off"),
        ("page", "Bad gateway"),
        ("packed", "no such model"),
        ("brotli", "`br`"),
        ("abort", "`abort`"),
        ("blocked", "SAFETY"),
        ("refusal", "I will not"),
        ("key", "*** is no key"),
    ] {
        let task = FakeTask::text("a", "", words);
        let why = failure(&*model, &task).await;
        assert!(why.contains(reason), "{why}");
        assert!(
            task.streams
                .lock()
                .unwrap()
                .values()
                .all(|stream| !stream.is_whole)
        );
    }
    let requests = asked.lock().unwrap().len();
    run(&*model, &FakeTask::text("a", "", "again")).await.unwrap();
    let asked = asked.lock().unwrap();
    // What failed is no part of the conversation.
    assert_eq!(asked[requests]["messages"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn a_model_behind_a_query_tells_its_usage() {
    let asked = Asked::default();
    let router = Router::new()
        .route("/v1/chat/completions", post(complete))
        .with_state(Arc::clone(&asked));
    let url = serve(router).await;
    let model = backend(&format!("{url}/v1?api-version=1"), HttpStyle::OpenAi).await;
    let done = model.run(&FakeTask::text("", "", "usage"), FIRST).await.unwrap();
    let TaskResult::Completed {
        message: Some(message),
        ..
    } = done
    else {
        panic!("{done:?}")
    };
    let usage = agentanycast_proto::parts::data_of(&message.parts[0]).unwrap();
    assert_eq!(usage["usage"]["total_tokens"], 7);

    // A server that keeps its stream open is not waited for, and one that knows fewer options is asked again.
    for words in ["open", "strict", "strict"] {
        let task = FakeTask::text("", "", words);
        run(&*model, &task).await.unwrap();
        assert!(task.streamed_text().contains(words));
    }
    assert_eq!(asked.lock().unwrap().len(), 5);
}

/// An A2A agent: `ask` asks back, `wait` works until it is canceled, everything else is echoed.
#[derive(Default)]
struct A2aStub {
    is_canceled: AtomicBool,
    tasks: Mutex<Vec<Value>>,
}

async fn a2a(
    State(stub): State<Arc<A2aStub>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Json<Value> {
    assert_eq!(headers["authorization"], "Bearer the-secret");
    let params = &request["params"];
    let task = |id: &str, state: &str, words: &str, artifacts: Value| {
        json!({"id": id, "contextId": "remote", "artifacts": artifacts, "status": {"state": state,
            "message": {"messageId": format!("{id}-{words}"), "role": "ROLE_AGENT", "parts": [{"text": words}]}}})
    };
    let mut tasks = stub.tasks.lock().unwrap();
    let result = match request["method"].as_str().unwrap() {
        "SendMessage" => {
            let message = &params["message"];
            let words = message["parts"][0]["text"].as_str().unwrap();
            let id = message["taskId"]
                .as_str()
                .map_or_else(|| format!("t{}", tasks.len()), str::to_owned);
            let new = match words {
                "ask" => task(&id, "TASK_STATE_INPUT_REQUIRED", "which?", json!([])),
                "wait" => task(&id, "TASK_STATE_WORKING", "on it", json!([])),
                "fail" => task(&id, "TASK_STATE_FAILED", "it broke", json!([])),
                words => {
                    let echo = json!([{"artifactId": "1", "name": "echo", "parts": [{"text": format!("echo {words}")}]}]);
                    task(&id, "TASK_STATE_COMPLETED", "done", echo)
                }
            };
            tasks.retain(|known| known["id"] != id.as_str());
            tasks.push(new.clone());
            json!({ "task": new })
        }
        "GetTask" => tasks
            .iter()
            .find(|task| task["id"] == params["id"])
            .cloned()
            .unwrap(),
        "CancelTask" => {
            stub.is_canceled.store(true, Ordering::SeqCst);
            task(
                params["id"].as_str().unwrap(),
                "TASK_STATE_CANCELED",
                "canceled",
                json!([]),
            )
        }
        method => panic!("{method}"),
    };
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}

async fn a2a_service() -> (String, Arc<A2aStub>) {
    let stub = Arc::new(A2aStub::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let card = json!({"name": "stub", "description": "", "version": "1", "capabilities": {},
        "supportedInterfaces": [{"url": format!("{url}/rpc"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "skills": [{"id": "echo", "name": "Echo", "description": "says it again", "tags": []}]});
    let router = Router::new()
        .route(
            "/.well-known/agent-card.json",
            get(move || async move { Json(card) }),
        )
        .route("/rpc", post(a2a))
        .with_state(Arc::clone(&stub));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, stub)
}

#[tokio::test]
async fn an_a2a_agent_is_found_by_its_card() {
    let (url, _stub) = a2a_service().await;
    let agent = config(url, None).backend().await.unwrap();
    let skills = agent.skills().await.unwrap().unwrap();
    assert_eq!(
        (skills[0].id.as_str(), skills[0].description.as_str()),
        ("echo", "says it again")
    );
    let artifacts = run(&*agent, &FakeTask::text("c", "echo", "hello")).await.unwrap();
    assert_eq!(artifacts[0].parts, [text("echo hello")]);
    let why = failure(&*agent, &FakeTask::text("c", "echo", "fail")).await;
    assert_eq!(why, "it broke");
    agent.stop().await;

    // Where there is no card, a message is posted.
    let url = post_service().await;
    let service = config(format!("{url}/text"), None).backend().await.unwrap();
    let artifacts = run(&*service, &FakeTask::text("c", "", "x")).await.unwrap();
    assert_eq!(artifacts[0].parts[0].media_type, "text/html");
}

#[tokio::test]
async fn an_a2a_agent_asks_the_sender() {
    let (url, stub) = a2a_service().await;
    let agent = backend(&url, HttpStyle::A2a).await;
    let task = FakeTask::text("c", "echo", "ask").answering("that one");
    let artifacts = run(&*agent, &task).await.unwrap();
    assert_eq!(artifacts[0].parts, [text("echo that one")]);
    assert_eq!(text_of(&task.questions.lock().unwrap()[0]), "which?");
    assert_eq!(stub.tasks.lock().unwrap().len(), 1);
    agent.stop().await;
}

#[tokio::test]
async fn a_task_that_ends_here_is_canceled_at_the_a2a_agent() {
    let (url, stub) = a2a_service().await;
    let agent = backend(&url, HttpStyle::A2a).await;
    let task = FakeTask::text("c", "echo", "wait");
    let cancelling = async {
        task.until(|task| !task.progress.lock().unwrap().is_empty()).await;
        task.cancelled.cancel();
    };
    let (ended, ()) = tokio::join!(agent.run(&task, FIRST), cancelling);
    ended.unwrap_err();
    task.until(|_| stub.is_canceled.load(Ordering::SeqCst)).await;

    stub.is_canceled.store(false, Ordering::SeqCst);
    let task = FakeTask::text("c", "echo", "wait");
    let stopping = async {
        task.until(|task| !task.progress.lock().unwrap().is_empty()).await;
        agent.stop().await;
    };
    let (ended, ()) = tokio::join!(agent.run(&task, FIRST), stopping);
    assert!(ended.unwrap_err().is_interrupted());
    assert!(stub.is_canceled.load(Ordering::SeqCst));
}

/// Whether it is A2A or not is not known of a service that is away.
#[tokio::test]
async fn the_style_of_a_service_that_is_away_is_not_guessed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let Err(error) = config(url, None).backend().await else {
        panic!("it is away")
    };
    assert!(
        error.to_string().contains("start it first, or give its style"),
        "{error}"
    );
}
