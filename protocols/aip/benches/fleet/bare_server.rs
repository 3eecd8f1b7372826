//! A bare server of WebSockets, of axum alone, with the frames of the service: it answers the first frame of a client, sends
//! commands some ahead of their answers, and counts the answers. It reads nothing and keeps nothing.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use axum::{
    Router,
    extract::ws::{Message, WebSocket, WebSocketUpgrade},
    routing::any,
    serve::ListenerExt as _,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
};

use crate::{AHEAD, TOOL, commands_of_each, devices, server::announce};

#[derive(Default)]
struct Ended {
    count: AtomicUsize,
    all: Notify,
}

/// Serves until the process is ended.
pub(crate) async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    let (begin, begun) = watch::channel(false);
    let ended = Arc::<Ended>::default();
    let counted = Arc::clone(&ended);
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    let open = move |upgrade: WebSocketUpgrade| async move {
        upgrade.on_upgrade(move |socket| converse(socket, begun, counted))
    };
    let router = Router::new().route("/ws", any(open));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    announce(&url).await;
    begin.send_replace(true);
    ended.all.notified().await;
    println!("done");
    std::future::pending::<()>().await;
}

async fn converse(mut socket: WebSocket, mut begun: watch::Receiver<bool>, ended: Arc<Ended>) {
    socket.recv().await.unwrap().unwrap();
    let welcome = r#"{"type":"heartbeat","status":"ok","timestamp":"2030-01-01T00:00:00.000000Z","response_id":"00000000-0000-0000-0000-000000000000"}"#;
    socket.send(Message::text(welcome)).await.unwrap();
    begun.wait_for(|begun| *begun).await.unwrap();
    let (text, count) = ("x".repeat(200), commands_of_each());
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        while sent < count && sent < answered + AHEAD {
            socket.send(Message::text(command(sent, &text))).await.unwrap();
            sent += 1;
        }
        if let Message::Text(_) = socket.recv().await.unwrap().unwrap() {
            answered += 1;
        }
    }
    if ended.count.fetch_add(1, Relaxed) + 1 == devices() {
        ended.all.notify_one();
    }
    std::future::pending::<()>().await;
}

/// A COMMAND as the service sends it.
fn command(number: usize, text: &str) -> String {
    format!(
        r#"{{"type":"command","status":"continue","agent_name":"LinuxAgent","actions":[{{"tool_name":"{TOOL}","parameters":{{"number":{number},"text":"{text}"}},"tool_type":"action","call_id":"{number}"}}],"task_name":"bench","timestamp":"2030-01-01T00:00:00.000000Z","response_id":"00000000-0000-0000-0000-{number:012}"}}"#
    )
}
