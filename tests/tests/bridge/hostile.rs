//! Clients that mean harm, by hand: slow, endless, many, broken. Each costs the bridge a bounded time and memory, and
//! somebody who means well is served beside them.

use std::{net::SocketAddr, time::Duration};

use agentanycast::{HandlerError, IncomingTask};
use agentanycast_tests::{proc_stats, within};
use bytes::Bytes;
use h2::{Reason, client};
use http::{Request, StatusCode};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::Instant,
};

use crate::setup::{BridgeSetup, send_params};

/// The longest that a slow client may stand: a minute for a reader, and the time until it is looked at. Busy machines
/// take some more.
const AT_MOST: Duration = Duration::from_mins(4);

/// What an attack may leave in memory.
const ROOM: u64 = 96 << 20;

/// How a client of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

async fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Somebody who means well is served.
async fn serves(scene: &BridgeSetup) {
    let task = scene
        .client()
        .call("SendMessage", send_params("echo hello"))
        .await;
    assert_eq!(task["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

/// Writes a byte of this now and then, until the bridge has had enough; what it said by then.
async fn drip(address: SocketAddr, head: &str, byte: &[u8]) -> String {
    let (mut read, mut write) = connect(address).await.into_split();
    write.write_all(head.as_bytes()).await.unwrap();
    let byte = byte.to_vec();
    let writing = tokio::spawn(async move {
        while write.write_all(&byte).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    let mut said = Vec::new();
    let ended = tokio::time::timeout(AT_MOST, read.read_to_end(&mut said)).await;
    // Reset or closed, whichever comes first.
    let _ = ended.unwrap_or_else(|_| panic!("{head:?} is still there after {AT_MOST:?}"));
    writing.abort();
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: waits 200 s until slow clients are let go"]
async fn slow_clients_are_let_go() {
    let scene = BridgeSetup::talking().await;
    let address = scene.bridge.address();
    let body = "POST / HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n";
    let chunked = body.replace("content-length: 9000", "transfer-encoding: chunked");
    let (nothing, head, preface, slow_body, slow_chunks, window, reader, honest) = tokio::join!(
        drip(address, "", b""),
        drip(address, "POST / HTTP/1.1\r\nx: ", b"x"),
        drip(address, "PRI * HTTP/2.0", b""),
        drip(address, body, b" "),
        drip(address, &chunked, b"1\r\n \r\n"),
        closed_window(&scene),
        slow_reader(&scene),
        async {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) {
                serves(&scene).await;
            }
        }
    );
    for silent in [nothing, head, preface] {
        assert!(
            silent.is_empty() || silent.starts_with("HTTP/1.1 408"),
            "{silent}"
        );
    }
    for answered in [slow_body, slow_chunks] {
        assert!(answered.contains("the body took longer than"), "{answered}");
    }
    let ((), (), ()) = (window, reader, honest);
    serves(&scene).await;
}

/// Bytes of an answer that are more than what the systems of both ends keep.
const LARGE: usize = 36 << 20;

/// How long a reader at 1.6 KiB a second may be suffered: two minutes, and what a busy machine takes besides.
const SLOWEST: Duration = Duration::from_secs(200);

/// A task whose answer is larger than what the systems of both ends keep for a reader, and the request for it.
async fn large(scene: &BridgeSetup) -> String {
    let text = format!("echo {}", "x".repeat(LARGE / 3));
    let params = json!({"message": {"messageId": "large", "role": "ROLE_USER", "parts": [{"text": text}]}});
    let task = scene.client().call("SendMessage", params).await["task"].take();
    format!(
        "GET {}/tasks/{} HTTP/1.1\r\nhost: h\r\na2a-version: 1.0\r\n\r\n",
        scene.path(),
        task["id"].as_str().unwrap()
    )
}

/// A client that takes a piece of its answer now and then, so that something moves all the time: it only keeps the answer
/// in memory. What it has not taken when patience is over is thrown away.
async fn slow_reader(scene: &BridgeSetup) {
    let request = large(scene).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut stream = socket.connect(scene.bridge.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut piece = vec![0; 64 << 10];
    let begun = Instant::now();
    let mut taken = 0;
    while begun.elapsed() < SLOWEST {
        taken += stream.read(&mut piece).await.unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(40)).await;
    }
    let mut rest = Vec::new();
    let _ = within("what is left is read", stream.read_to_end(&mut rest)).await;
    taken += rest.len();
    assert!(
        taken < LARGE,
        "{taken} bytes were kept for a reader that took them one by one"
    );
}

/// A client of HTTP/2 that asks for a stream of events and opens no window for it.
async fn closed_window(scene: &BridgeSetup) {
    let stream = connect(scene.bridge.address()).await;
    let (mut sender, connection) = client::Builder::new()
        .initial_window_size(0)
        .handshake::<_, Bytes>(stream)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": send_params("wait")});
    let request = Request::post(format!("http://h{}/", scene.path()))
        .header("a2a-version", "1.0")
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let (answer, mut body) = sender.send_request(request, false).unwrap();
    body.send_data(call.to_string().into(), true).unwrap();
    let answer = within("the stream begins", answer).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    // Pings are answered by the library, so it is alive; it only does not read.
    let ended = tokio::time::timeout(AT_MOST, connection).await;
    assert!(
        ended.is_ok(),
        "a reader that stands still is there after {AT_MOST:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_body_ends() {
    let scene = BridgeSetup::talking().await;
    let before = proc_stats::rss_bytes(scene.bridge.pid());
    let (mut read, mut write) = connect(scene.bridge.address()).await.into_split();
    let head =
        "POST / HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    write.write_all(head.as_bytes()).await.unwrap();
    let writing = tokio::spawn(async move {
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(65536));
        let mut written = 0_usize;
        while write.write_all(chunk.as_bytes()).await.is_ok() {
            written += chunk.len();
        }
        written
    });
    let mut said = Vec::new();
    let _ = within("the answer ends", read.read_to_end(&mut said)).await;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("larger than"), "{said}");
    let written = within("writing ends", writing).await.unwrap();
    assert!(
        written < 100 << 20,
        "{written} bytes were taken of a body of 24 MiB at most"
    );
    let grown = proc_stats::rss_bytes(scene.bridge.pid()).saturating_sub(before);
    assert!(grown < ROOM, "{grown} bytes more");
    serves(&scene).await;
}

#[tokio::test]
async fn few_bytes_do_not_become_much_memory() {
    let scene = BridgeSetup::talking().await;
    let before = proc_stats::rss_bytes(scene.bridge.pid());
    let many = format!("[{}0]", "0,".repeat(8 << 20));
    for _ in 0..4 {
        let answer = scene
            .client()
            .request(http::Method::POST, "/", "application/json", many.clone())
            .await;
        assert!(
            answer.body["error"]["message"]
                .as_str()
                .unwrap()
                .contains("values"),
            "{}",
            answer.body
        );
    }
    let grown = proc_stats::peak_rss_bytes(scene.bridge.pid()).saturating_sub(before);
    assert!(grown < 3 * ROOM, "{grown} bytes more");
}

/// Names of headers that nobody knows.
const NAMES: [&str; 4] = ["one", "two", "three", "four"];

#[tokio::test]
async fn a_hundred_thousand_headers() {
    let scene = BridgeSetup::talking().await;
    let before = proc_stats::rss_bytes(scene.bridge.pid());
    let lines: String = (0..100_000)
        .flat_map(|number| ["x-", NAMES[number % 4], ": 1\r\n"])
        .collect();
    let head = format!("GET /.well-known/agent-card.json HTTP/1.1\r\nhost: h\r\n{lines}");
    let (mut read, mut write) = connect(scene.bridge.address()).await.into_split();
    let writing = tokio::spawn(async move { write.write_all(head.as_bytes()).await.is_ok() });
    let mut said = Vec::new();
    let _ = within("the answer ends", read.read_to_end(&mut said)).await;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
    writing.abort();

    // Over HTTP/2, where they come in frames of 16 KiB.
    let (mut sender, connection) = client::handshake(connect(scene.bridge.address()).await)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut request = Request::get("http://h/.well-known/agent-card.json");
    for number in 0..20_000 {
        request = request.header(format!("x-{number}"), "1");
    }
    let refused = match sender.send_request(request.body(()).unwrap(), true) {
        Ok((answer, _)) => match within("it is answered", answer).await {
            Ok(answer) => answer.status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Err(_) => true,
        },
        Err(_) => true,
    };
    assert!(refused);
    connection.abort();
    let grown = proc_stats::rss_bytes(scene.bridge.pid()).saturating_sub(before);
    assert!(grown < ROOM, "{grown} bytes more");
    serves(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_a_row_are_answered_in_a_row() {
    const ROW: usize = 2000;
    let scene = BridgeSetup::talking().await;
    let before = proc_stats::rss_bytes(scene.bridge.pid());
    let (mut read, mut write) = connect(scene.bridge.address()).await.into_split();
    let request = "GET /nothing HTTP/1.1\r\nhost: h\r\n\r\n";
    let last = "GET /nothing HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    let all = request.repeat(ROW - 1) + last;
    // Kept until the answers are there: a client that closes its half has gone.
    let writing = tokio::spawn(async move { write.write_all(all.as_bytes()).await.map(|()| write) });
    let mut said = Vec::new();
    within("the answers end", read.read_to_end(&mut said))
        .await
        .unwrap();
    within("they were written", writing).await.unwrap().unwrap();
    let said = String::from_utf8(said).unwrap();
    assert_eq!(said.matches("HTTP/1.1 404").count(), ROW);
    let grown = proc_stats::rss_bytes(scene.bridge.pid()).saturating_sub(before);
    assert!(grown < ROOM, "{grown} bytes more");
    serves(&scene).await;
}

/// Requests that are taken back in the same breath (CVE-2023-44487).
fn resets(count: u32) -> Vec<u8> {
    let mut frames = Vec::new();
    for stream in (0..count).map(|at| 2 * at + 1) {
        // POST, http, /, and the authority h.
        frames.extend([0, 0, 6, 1, 4]);
        frames.extend(stream.to_be_bytes());
        frames.extend([0x83, 0x86, 0x84, 1, 1, b'h']);
        frames.extend([0, 0, 4, 3, 0]);
        frames.extend(stream.to_be_bytes());
        frames.extend(8_u32.to_be_bytes());
    }
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_end_the_connection() {
    let scene = BridgeSetup::talking().await;
    let before = proc_stats::rss_bytes(scene.bridge.pid());
    for _ in 0..4 {
        let mut stream = connect(scene.bridge.address()).await;
        let attack = [PREFACE, SETTINGS, &resets(20_000)].concat();
        // It may be ended before it has said everything.
        let _ = within("it is written or refused", stream.write_all(&attack)).await;
        let mut said = Vec::new();
        let _ = within("the connection ends", stream.read_to_end(&mut said)).await;
        assert!(frames(&said).contains(&GOAWAY), "{said:?}");
    }
    // Slow enough that each is begun before it is taken back, which anybody may do: it costs nothing that stays.
    let stream = connect(scene.bridge.address()).await;
    let (mut sender, connection) = client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..20_000 {
        let request = Request::post("http://h/").body(()).unwrap();
        let Ok(ready) = sender.clone().ready().await else {
            break;
        };
        sender = ready;
        let Ok((_, mut body)) = sender.send_request(request, false) else {
            break;
        };
        body.send_reset(Reason::CANCEL);
        tokio::task::yield_now().await;
    }
    drop(sender);
    let _ = within("the connection ends", connection).await.unwrap();
    let grown = proc_stats::rss_bytes(scene.bridge.pid()).saturating_sub(before);
    assert!(grown < ROOM, "{grown} bytes more");
    serves(&scene).await;
}

#[tokio::test]
async fn bad_frames_end_their_connection_only() {
    let scene = BridgeSetup::talking().await;
    for (what, frame) in [
        ("a frame of 16 MiB", [0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1].to_vec()),
        ("data of no stream", vec![0, 0, 1, 0, 0, 0, 0, 0, 0, 7]),
        ("a continuation of nothing", vec![0, 0, 0, 9, 4, 0, 0, 0, 1]),
        ("an even stream", vec![0, 0, 1, 1, 5, 0, 0, 0, 2, 0x82]),
        (
            "headers that are no HPACK",
            vec![0, 0, 4, 1, 5, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
        ),
        (
            "a window beyond all",
            vec![0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff],
        ),
    ] {
        let mut stream = connect(scene.bridge.address()).await;
        stream
            .write_all(&[PREFACE, SETTINGS, &frame].concat())
            .await
            .unwrap();
        let mut said = Vec::new();
        let _ = within(what, stream.read_to_end(&mut said)).await;
        assert!(frames(&said).contains(&GOAWAY), "{what}: {said:?}");
    }
    serves(&scene).await;
}

/// The type of the frame by which HTTP/2 ends a connection.
const GOAWAY: u8 = 7;

/// The types of the frames of HTTP/2.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        types.push(*kind);
        bytes = rest.get(length..).unwrap_or_default();
    }
    types
}

/// Makes as many MiB as the message says, piece by piece.
async fn pour(task: IncomingTask) -> Result<(), HandlerError> {
    let Ok(mib) = task.message().text_content().parse::<usize>() else {
        return crate::setup::talk(task).await;
    };
    let mut flood = task
        .stream_artifact("flood.bin", "application/octet-stream")
        .await?;
    for _ in 0..mib * 16 {
        flood.write(vec![7; 65536]).await?;
    }
    flood.finish().await?;
    task.complete([]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reader_does_not_take_is_not_kept() {
    let scene = BridgeSetup::new(pour).await;
    let before = proc_stats::rss_bytes(scene.bridge.pid());
    let mut standing = Vec::new();
    for _ in 0..4 {
        let client = scene.client();
        let mut stream = client.stream("SendStreamingMessage", send_params("64")).await;
        stream.event().await;
        standing.push(stream);
    }
    for _ in 0..20 {
        serves(&scene).await;
    }
    let grown = proc_stats::rss_bytes(scene.bridge.pid()).saturating_sub(before);
    assert!(grown < ROOM, "{grown} bytes more for 256 MiB that nobody reads");
}
