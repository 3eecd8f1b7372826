//! Servers on two pipes that do what servers of others do.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use std::{sync::Arc, time::Duration};

use agentanycast_mcp_client::{
    CallEvent, ClientIdentity, ElicitationAnswer, FailureKind, McpClient, McpFailure, Tool,
};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex},
    sync::mpsc,
    time::timeout,
};

/// How long a test waits for something that has to come.
const PATIENCE: Duration = Duration::from_mins(1);

const CLIENT: ClientIdentity = ClientIdentity {
    name: "test",
    version: "1",
    asks: true,
};

/// Where the lines of a server go; an empty one ends it.
type Lines = mpsc::UnboundedSender<Vec<u8>>;

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

/// The answer that any server of the handshake gives, to what is no call.
fn usual(message: &Value) -> Option<Value> {
    let result = match message["method"].as_str()? {
        "initialize" => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}})
        }
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        "ping" => json!({}),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

/// A client of a server that answers each message as told.
async fn client_of(server: impl FnMut(&Value, &Lines) + Send + 'static) -> Result<McpClient, McpFailure> {
    let (ours, theirs) = duplex(1 << 20);
    let (stdout, stdin) = tokio::io::split(ours);
    tokio::spawn(serve(theirs, server));
    let starting = McpClient::over_pipes(stdout, stdin, CLIENT, 1 << 20, |_| false);
    timeout(PATIENCE, starting).await.unwrap()
}

async fn serve(pipe: tokio::io::DuplexStream, mut server: impl FnMut(&Value, &Lines) + Send + 'static) {
    let (reader, mut writer) = tokio::io::split(pipe);
    let (sender, mut outgoing) = mpsc::unbounded_channel::<Vec<u8>>();
    tokio::spawn(async move {
        while let Some(bytes) = outgoing.recv().await {
            if bytes.is_empty() || writer.write_all(&bytes).await.is_err() {
                let _ = writer.shutdown().await;
                return;
            }
        }
    });
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        server(&serde_json::from_str(&line).unwrap(), &sender);
    }
}

/// As [`client_of`], for a server of the handshake that is told what it does with a call.
async fn usual_client(mut call: impl FnMut(&Value, &Lines) + Send + 'static) -> McpClient {
    let client = client_of(move |message, lines| match usual(message) {
        Some(answer) => lines.send(line(&answer)).unwrap(),
        None if message.get("method").is_none_or(|method| method == "tools/call") => call(message, lines),
        None => {}
    });
    client.await.unwrap()
}

async fn tool(client: &McpClient) -> Tool {
    let list = timeout(PATIENCE, client.list_tools()).await.unwrap();
    list.unwrap().tools.remove(0)
}

/// The result of a call with these arguments.
async fn call(client: &McpClient, arguments: Value) -> Result<Value, McpFailure> {
    let mut call = client.call(&tool(client).await, object(arguments));
    loop {
        match timeout(PATIENCE, call.next()).await.expect("the call ends")? {
            CallEvent::Done(result) => return Ok(result.into()),
            CallEvent::Question(question) => call.answer(question, &ElicitationAnswer::Decline).await,
            _ => {}
        }
    }
}

fn result_of(id: &Value, text: &str) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}}))
}

/// A server that answers each call by these bytes, in which `ID` is the id of the call.
async fn answering(answer: &'static [u8]) -> McpClient {
    usual_client(move |message, lines| {
        let id = message["id"].to_string();
        let mut bytes = Vec::new();
        let mut rest = answer;
        while let Some(at) = rest.windows(2).position(|two| two == b"ID") {
            bytes.extend_from_slice(&rest[..at]);
            bytes.extend_from_slice(id.as_bytes());
            rest = &rest[at + 2..];
        }
        bytes.extend_from_slice(rest);
        lines.send(bytes).unwrap();
    })
    .await
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_greeted_as_long_as_its_caller_says() {
    let (ours, theirs) = duplex(1 << 20);
    let (stdout, stdin) = tokio::io::split(ours);
    tokio::spawn(serve(theirs, |message, lines| {
        let code = match message["method"].as_str() {
            Some("initialize") => -32603,
            _ => -32601,
        };
        let error = json!({"code": code, "message": "warming up"});
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
        lines.send(line(&answer)).unwrap();
    }));
    let refused = std::sync::Mutex::new(Vec::new());
    let again = |failure: &McpFailure| {
        let mut refused = refused.lock().unwrap();
        refused.push(failure.to_string());
        refused.len() < 3
    };
    let starting = McpClient::over_pipes(stdout, stdin, CLIENT, 1 << 20, again);
    let failure = timeout(PATIENCE, starting).await.unwrap().unwrap_err();
    assert_eq!(failure.to_string(), "warming up");
    assert_eq!(*refused.lock().unwrap(), ["warming up"; 3]);
}

#[tokio::test]
async fn a_lone_surrogate_is_the_replacement_character() {
    let answer = b"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":\"half \\ud83d\"}}\n";
    let result = call(&answering(answer).await, json!({})).await.unwrap();
    assert_eq!(result["content"], "half \u{fffd}");
}

#[tokio::test]
async fn a_line_that_cannot_be_read_ends_its_call_with_the_line() {
    let cases: [(&[u8], &str); 11] = [
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"n\":NaN}}\n",
            "\"n\":NaN",
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"t\":\"caf\xe9\"}}\n",
            "caf\u{fffd}",
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\n",
            "trailing",
        ),
        (
            b"{\n  \"jsonrpc\": \"2.0\",\n  \"id\": ID,\n  \"result\": {}\n}\n",
            "several lines",
        ),
        (
            b"INFO: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\n",
            "INFO: {",
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n", "99999"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n",
            "no request has",
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"text\":\"cut o\n",
            "cut o",
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":ID}\n", "no message"),
        (b"{\"result\":{},\"id\":ID,}\n", "trailing comma"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"parse\"}}\n",
            "parse",
        ),
    ];
    for (answer, words) in cases {
        let client = answering(answer).await;
        let failure = timeout(Duration::from_secs(20), call(&client, json!({}))).await;
        let failure = failure.expect("it ends soon").unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Unreadable, "{failure}");
        assert!(failure.to_string().contains(words), "{failure}");
        assert!(failure.to_string().chars().count() < 500, "{failure}");
        // The server is not given up.
        assert!(client.ended().borrow().is_none());
    }
}

/// Each shape of an answer comes twice: the second one is no part of the first.
#[tokio::test]
async fn an_answer_needs_no_end_of_line() {
    for (before, after) in [
        ("", ""),
        ("", "\r"),
        ("\r", "\r\n"),
        ("\u{1b}[32m", "\u{1b}[0m"),
        ("\u{1b}[K", "\n"),
    ] {
        let client = usual_client(move |message, lines| {
            let answer = String::from_utf8(result_of(&message["id"], "good")).unwrap();
            lines
                .send(format!("{before}{}{after}", answer.trim()).into_bytes())
                .unwrap();
        });
        let client = client.await;
        for _ in 0..2 {
            let result = timeout(Duration::from_secs(20), call(&client, json!({}))).await;
            let result = result.expect("it ends soon").unwrap();
            assert_eq!(result["content"][0]["text"], "good", "{before:?} {after:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_in_utf_16_is_named() {
    let client = usual_client(|message, lines| {
        let answer = String::from_utf8(result_of(&message["id"], "good")).unwrap();
        lines
            .send(answer.encode_utf16().flat_map(u16::to_le_bytes).collect())
            .unwrap();
    });
    let client = client.await;
    for _ in 0..2 {
        let failure = timeout(Duration::from_secs(20), call(&client, json!({}))).await;
        let failure = failure.expect("it ends soon").unwrap_err().to_string();
        assert!(
            failure.contains("UTF-16") && failure.contains("\"good\""),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn what_a_program_prints_besides_is_no_answer() {
    let client = answering(
        b"Server listening\n\x1b[2Kgot {\"jsonrpc\":\"2.0\",\"id\":ID,\"method\":\"tools/call\"}\n\
          debug {\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"content\":\"good\"}}\n\
          log: {\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n[INFO] {x}\n{\"level\":30,\"id\":ID,\"msg\":\"called\"}\n{'a': 1}\n\
          {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":NaN}}\n\xff\xfe\n\n\
          {\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"content\":\"good\"}}\n",
    );
    let client = client.await;
    assert_eq!(call(&client, json!({})).await.unwrap()["content"], "good");
}

#[tokio::test]
async fn other_calls_go_on() {
    let client = usual_client(|message, lines| {
        let id = &message["id"];
        let answer = match message["params"]["arguments"]["say"].as_str().unwrap() {
            "lost" => b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}\n".to_vec(),
            "bad" => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":NaN}}\n").into_bytes(),
            text => result_of(id, text),
        };
        lines.send(answer).unwrap();
    });
    let client = Arc::new(client.await);
    let calls = (0..40).map(|n| {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            let say = if n % 4 == 0 {
                "bad".to_owned()
            } else {
                n.to_string()
            };
            (say.clone(), call(&client, json!({"say": say})).await)
        })
    });
    let (calls, lost) = tokio::join!(
        futures::future::join_all(calls),
        call(&client, json!({"say": "lost"}))
    );
    assert!(lost.unwrap_err().to_string().contains("no request has"));
    for ended in calls {
        let (say, ended) = ended.unwrap();
        match ended {
            Ok(result) => assert_eq!(result["content"][0]["text"], say.as_str()),
            Err(failure) => assert_eq!((say.as_str(), failure.kind()), ("bad", FailureKind::Unreadable)),
        }
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_its_call() {
    for is_last in [false, true] {
        let client = usual_client(move |message, lines| {
            let (id, text) = (&message["id"], "x".repeat(3 << 20));
            let answer = if is_last {
                format!("{{\"result\":{{\"content\":\"{text}\"}},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n")
            } else {
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":\"{text}\"}}}}\n")
            };
            lines.send(answer.into_bytes()).unwrap();
        });
        let client = client.await;
        let failure = call(&client, json!({})).await.unwrap_err();
        let words = "the MCP server sent a message of more than 1048576 bytes; it was dropped";
        assert_eq!(failure.to_string(), words);
    }
}

#[tokio::test]
async fn a_server_that_says_little_of_itself_is_used() {
    let client = client_of(|message, lines| {
        let result = match message["method"].as_str() {
            Some("initialize") => json!({}),
            Some("tools/list") => json!({"tools": [{"name": "t"}, {"inputSchema": {}}]}),
            Some("tools/call") => json!({"content": []}),
            _ => return,
        };
        let answer = json!({"id": message["id"], "result": result});
        lines.send(line(&answer)).unwrap();
    });
    let client = client.await.unwrap();
    assert_eq!(client.server_name(), None);
    let list = client.list_tools().await.unwrap();
    assert_eq!((list.tools.len(), list.faults.len()), (1, 2));
    assert_eq!(call(&client, json!({})).await.unwrap(), json!({"content": []}));
}

#[tokio::test(start_paused = true)]
async fn the_pages_before_one_that_is_missing_are_kept() {
    for (answer, why) in [
        ("", "did not answer tools/list"),
        (
            r#"{"id":ID,"error":{"code":-32603,"message":"not yet"}}"#,
            "not yet",
        ),
        (r#"{"jsonrpc":"2.0","id":ID,"result":NaN}"#, "NaN"),
    ] {
        let client = client_of(move |message, lines| {
            let bytes = match (message["method"].as_str(), &message["params"]["cursor"]) {
                (Some("tools/list"), Value::Null) => {
                    let page = json!({"tools": [{"name": "t", "inputSchema": {}}], "nextCursor": "2"});
                    line(&json!({"id": message["id"], "result": page}))
                }
                (Some("tools/list"), _) => {
                    format!("{}\n", answer.replace("ID", &message["id"].to_string())).into_bytes()
                }
                _ => match usual(message) {
                    Some(answer) => line(&answer),
                    None => return,
                },
            };
            lines.send(bytes).unwrap();
        });
        let list = client.await.unwrap().list_tools().await.unwrap();
        assert_eq!((list.tools.len(), list.is_cut), (1, true));
        assert!(
            list.faults.len() == 1 && list.faults[0].contains(why),
            "{:?}",
            list.faults
        );
    }
}

#[tokio::test]
async fn a_server_without_tools_has_none() {
    let client = client_of(|message, lines| {
        let answer = usual(message).filter(|_| message["method"] == "initialize");
        let answer = answer.unwrap_or_else(
            || json!({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}}),
        );
        if message.get("id").is_some() {
            lines.send(line(&answer)).unwrap();
        }
    });
    let client = client.await.unwrap();
    assert!(client.list_tools().await.unwrap().tools.is_empty());
    // Any answer is a sign of life, also a refusal.
    client.is_alive(PATIENCE).await.unwrap();
}

/// What a server of the revision 2026-07-28 answers; a call asks once, then wants to be called again, then is
/// done.
fn modern(message: &Value, round: &mut u32) -> Option<Value> {
    let params = &message["params"];
    let result = match message["method"].as_str()? {
        "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "1"}}}),
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {}}]}),
        "tools/call" => {
            *round += 1;
            match *round {
                1 => {
                    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
                    let asked = json!({"message": "which?", "requestedSchema": schema});
                    json!({"resultType": "input_required", "requestState": "s1",
                        "inputRequests": {"a": {"method": "elicitation/create", "params": asked}}})
                }
                2 => {
                    let answer = json!({"action": "accept", "content": {"x": 1}});
                    assert_eq!(params["inputResponses"]["a"], answer);
                    assert_eq!(params["requestState"], "s1");
                    json!({"resultType": "input_required", "requestState": "s2"})
                }
                _ => {
                    assert!(params.get("inputResponses").is_none());
                    assert_eq!(params["requestState"], "s2");
                    assert_eq!(params["arguments"], json!({"q": 1}));
                    json!({"resultType": "complete", "content": "done"})
                }
            }
        }
        _ => return None,
    };
    let meta = &params["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test");
    Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_revision_without_a_handshake_is_used() {
    for refuses_a_handshake in [true, false] {
        let mut round = 0;
        let client = client_of(move |message, lines| {
            let answer = if message["method"] == "initialize" {
                let error = json!({"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}});
                refuses_a_handshake.then(|| json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
            } else {
                modern(message, &mut round)
            };
            if let Some(answer) = answer {
                lines.send(line(&answer)).unwrap();
            }
        });
        let client = client.await.unwrap();
        assert_eq!(client.server_name(), Some("modern"));
        let mut call = client.call(&tool(&client).await, object(json!({"q": 1})));
        let CallEvent::Question(question) = timeout(PATIENCE, call.next()).await.unwrap().unwrap() else {
            panic!("it asks")
        };
        assert_eq!(
            (question.message.as_str(), question.schema.is_some()),
            ("which?", true)
        );
        let answer = ElicitationAnswer::Accept(Some(object(json!({"x": 1}))));
        call.answer(question, &answer).await;
        let done = timeout(PATIENCE, call.next()).await.unwrap().unwrap();
        assert!(matches!(done, CallEvent::Done(result) if result["content"] == "done"));
    }
}

#[tokio::test]
async fn questions_and_progress_come_before_the_result() {
    let mut called = Value::Null;
    let client = usual_client(move |message, lines| {
        let say = |message: Value| lines.send(line(&message)).unwrap();
        if message["method"] == "tools/call" {
            called = message["id"].clone();
            let token = &message["params"]["_meta"]["progressToken"];
            for params in [
                json!({"progressToken": token, "progress": 1, "total": 2}),
                json!({"progressToken": "none", "progress": 1}),
            ] {
                say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
            }
            let schema = json!({"type": "object", "properties": {}});
            let asked = json!({"message": "sure?", "requestedSchema": schema});
            say(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": asked}));
            say(json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}));
        } else if message["id"] == "q" {
            let action = message["result"]["action"].as_str().unwrap();
            lines.send(result_of(&called, action)).unwrap();
        } else {
            assert_eq!(
                (&message["id"], &message["error"]["code"]),
                (&json!(5), &json!(-32601))
            );
        }
    });
    let client = client.await;
    let mut call = client.call(&tool(&client).await, Map::new());
    let next = timeout(PATIENCE, call.next()).await.unwrap().unwrap();
    assert!(matches!(next, CallEvent::Progress(text) if text == "1 of 2"));
    let CallEvent::Question(question) = timeout(PATIENCE, call.next()).await.unwrap().unwrap() else {
        panic!("it asks")
    };
    assert_eq!(question.message, "sure?");
    call.answer(question, &ElicitationAnswer::Accept(Some(Map::new())))
        .await;
    let done = timeout(PATIENCE, call.next()).await.unwrap().unwrap();
    assert!(matches!(done, CallEvent::Done(result) if result["content"][0]["text"] == "accept"));
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled() {
    let (sender, mut heard) = mpsc::unbounded_channel();
    let client = client_of(move |message, lines| match usual(message) {
        Some(answer) => lines.send(line(&answer)).unwrap(),
        None => sender.send(message.clone()).unwrap(),
    });
    let client = client.await.unwrap();
    let mut call = client.call(&tool(&client).await, Map::new());
    let called = async {
        loop {
            let message = heard.recv().await.unwrap();
            if message["method"] == "tools/call" {
                return message["id"].clone();
            }
        }
    };
    let id = tokio::select! {
        event = call.next() => panic!("{event:?}"),
        id = timeout(PATIENCE, called) => id.unwrap(),
    };
    drop(call);
    let cancelled = timeout(PATIENCE, heard.recv()).await.unwrap().unwrap();
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], id);
}

#[tokio::test]
async fn a_server_that_ends_ends_its_calls_and_takes_no_more() {
    let client = usual_client(|_, lines| lines.send(Vec::new()).unwrap()).await;
    let tool = tool(&client).await;
    let failure = call(&client, json!({})).await.unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Ended);
    let failure = client.call(&tool, Map::new()).next().await.unwrap_err();
    assert_eq!(failure.kind(), FailureKind::NotDone);
    assert!(client.ended().borrow().is_some());
}

#[tokio::test]
async fn a_server_that_answers_neither_way_says_so() {
    let failure = client_of(|message, lines| {
        if message.get("id").is_some() {
            let error = json!({"code": -32601, "message": format!("no {}", message["method"])});
            let answer = json!({"id": message["id"], "error": error});
            lines.send(line(&answer)).unwrap();
        }
    });
    let failure = failure.await.unwrap_err().to_string();
    assert!(
        failure.contains("initialize") && failure.contains("discover"),
        "{failure}"
    );
    let failure = client_of(|message, lines| {
        let result = json!({"protocolVersion": "2031-01-01", "supportedVersions": ["2031-01-01"]});
        let answer = json!({"id": message["id"], "result": result});
        lines.send(line(&answer)).unwrap();
    });
    let failure = failure.await.unwrap_err().to_string();
    assert!(failure.contains("2031-01-01"), "{failure}");
}
