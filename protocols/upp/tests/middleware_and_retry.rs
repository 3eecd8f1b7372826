//! The order of the middleware's hooks, and tries of failed requests under a paused clock.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use agentanycast_upp::{
    ApiKey, ErrorCode, ExponentialBackoff, LinearBackoff, LlmContext, LlmMiddleware, ProviderConfig, Request,
    Response, RoundRobinKeys, Scripted, ScriptedReply, Tool, Turn, UppError, llm,
};
use serde_json::json;

type Log = Arc<Mutex<Vec<String>>>;

struct Recorder {
    label: &'static str,
    log: Log,
    refuse: bool,
}

impl Recorder {
    fn note(&self, hook: &str) {
        self.log.lock().unwrap().push(format!("{} {hook}", self.label));
    }
}

#[async_trait::async_trait]
impl LlmMiddleware for Recorder {
    fn name(&self) -> &str {
        self.label
    }
    async fn on_start(&self, _context: &mut LlmContext) -> Result<(), UppError> {
        self.note("start");
        Ok(())
    }
    async fn on_request(&self, _context: &mut LlmContext, request: &mut Request) -> Result<(), UppError> {
        self.note("request");
        request.params.insert(self.label.to_owned(), true.into());
        if self.refuse {
            Err(UppError::invalid_request("refused"))
        } else {
            Ok(())
        }
    }
    async fn on_response(&self, _context: &mut LlmContext, _response: &mut Response) -> Result<(), UppError> {
        self.note("response");
        Ok(())
    }
    async fn on_turn(&self, _context: &mut LlmContext, _turn: &mut Turn) -> Result<(), UppError> {
        self.note("turn");
        Ok(())
    }
    async fn on_end(&self, _context: &mut LlmContext) {
        self.note("end");
    }
    async fn on_error(&self, _context: &mut LlmContext, error: &UppError) {
        self.note(&format!("error {}", error.code()));
    }
}

fn pair(log: &Log, refuse: bool) -> [Recorder; 2] {
    ["a", "b"].map(|label| Recorder {
        label,
        log: log.clone(),
        refuse: refuse && label == "b",
    })
}

#[tokio::test]
async fn hooks_run_forward_and_then_in_reverse() {
    let log = Log::default();
    let [first, second] = pair(&log, false);
    let script = Scripted::new([
        ScriptedReply::call("t", "x", json!({})),
        ScriptedReply::text("done"),
    ]);
    let tool = Tool::new("x", "", json!({}), |_, _| async { Ok("ok") });
    let model = llm(script.model())
        .tool(tool)
        .middleware(first)
        .middleware(second)
        .build()
        .unwrap();
    model.generate("go").await.unwrap();
    let inference = ["a request", "b request", "b response", "a response"];
    let mut expected = vec!["a start", "b start"];
    expected.extend(inference);
    expected.extend(inference);
    expected.extend(["b turn", "a turn", "b end", "a end"]);
    assert_eq!(*log.lock().unwrap(), expected);
    assert_eq!(script.requests()[0].params.len(), 2);
}

#[tokio::test]
async fn an_error_of_a_hook_ends_the_turn() {
    let log = Log::default();
    let [first, second] = pair(&log, true);
    let script = Scripted::new([]);
    let model = llm(script.model())
        .middleware(first)
        .middleware(second)
        .build()
        .unwrap();
    assert_eq!(model.generate("go").await.unwrap_err().message(), "refused");
    let expected = [
        "a start",
        "b start",
        "a request",
        "b request",
        "a error INVALID_REQUEST",
        "b error INVALID_REQUEST",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
    assert!(script.requests().is_empty());
}

fn failing(code: ErrorCode, times: usize) -> Scripted {
    let mut replies: Vec<_> = (0..times)
        .map(|_| ScriptedReply::Fail(UppError::new(code, "no")))
        .collect();
    replies.push(ScriptedReply::text("at last"));
    Scripted::new(replies)
}

#[tokio::test(start_paused = true)]
async fn back_off_waits_and_gives_up_after_three_tries() {
    let exact = ExponentialBackoff {
        jitter: false,
        ..ExponentialBackoff::default()
    };
    for (failures, waited, succeeds) in [(1, 1, true), (2, 3, true), (3, 3, false)] {
        for streamed in [false, true] {
            let begun = tokio::time::Instant::now();
            let script = failing(ErrorCode::NetworkError, failures);
            let config = ProviderConfig::new().retry(exact);
            let model = llm(script.model()).config(config).build().unwrap();
            let outcome = if streamed {
                model.stream("go").result().await
            } else {
                model.generate("go").await
            };
            assert_eq!(outcome.is_ok(), succeeds, "{failures} failures");
            assert_eq!(begun.elapsed().as_secs(), waited);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for_and_each_try_takes_a_key() {
    let begun = tokio::time::Instant::now();
    let busy = UppError::new(ErrorCode::RateLimited, "busy").with_retry_after(Duration::from_secs(40));
    let script = Scripted::new([ScriptedReply::Fail(busy), ScriptedReply::text("at last")]);
    let config = ProviderConfig::new()
        .retry(LinearBackoff::default())
        .keys(RoundRobinKeys::new(["one", "two"]));
    let model = llm(script.model()).config(config).build().unwrap();
    assert_eq!(model.generate("go").await.unwrap().text(), "at last");
    assert_eq!(begun.elapsed().as_secs(), 40);
    let keys: Vec<_> = script
        .requests()
        .iter()
        .map(|request| request.api_key.clone().unwrap())
        .collect();
    assert_eq!(
        keys.iter().map(ApiKey::expose).collect::<Vec<_>>(),
        ["one", "two"]
    );
}

#[tokio::test]
async fn what_is_not_retryable_and_what_has_no_strategy_fails_at_once() {
    for (code, config) in [
        (
            ErrorCode::InvalidRequest,
            ProviderConfig::new().retry(ExponentialBackoff::default()),
        ),
        (ErrorCode::RateLimited, ProviderConfig::new()),
    ] {
        let script = failing(code, 1);
        let error = llm(script.model())
            .config(config)
            .build()
            .unwrap()
            .generate("go")
            .await
            .unwrap_err();
        assert_eq!(error.code(), code);
        assert_eq!(error.provider(), Some("scripted"));
        assert_eq!(script.requests().len(), 1);
    }
}
