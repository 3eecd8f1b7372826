//! A bare server of WebSockets with the frames of the service: it answers the first frame of a client, sends
//! commands some ahead of their answers, and counts the answers. It reads nothing and keeps nothing.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use soketto::{
    Data, Incoming,
    handshake::{Server, server::Response},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
};
use tokio_util::compat::TokioAsyncReadCompatExt as _;

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
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let _ = socket.set_nodelay(true);
            tokio::spawn(converse(socket, begun.clone(), Arc::clone(&counted)));
        }
    });
    announce(&url).await;
    begin.send_replace(true);
    ended.all.notified().await;
    println!("done");
    std::future::pending::<()>().await;
}

async fn converse(socket: TcpStream, mut begun: watch::Receiver<bool>, ended: Arc<Ended>) {
    let mut handshake = Server::new(socket.compat());
    let key = handshake.receive_request().await.unwrap().key();
    let accept = Response::Accept { key, protocol: None };
    handshake.send_response(&accept).await.unwrap();
    let (mut sender, mut receiver) = handshake.into_builder().finish();
    let mut buffer = Vec::new();
    receiver.receive_data(&mut buffer).await.unwrap();
    let welcome = r#"{"type":"heartbeat","status":"ok","timestamp":"2030-01-01T00:00:00.000000Z","response_id":"00000000-0000-0000-0000-000000000000"}"#;
    sender.send_text(welcome).await.unwrap();
    sender.flush().await.unwrap();
    begun.wait_for(|begun| *begun).await.unwrap();
    let (text, count) = ("x".repeat(200), commands_of_each());
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        while sent < count && sent < answered + AHEAD {
            sender.send_text(command(sent, &text)).await.unwrap();
            sender.flush().await.unwrap();
            sent += 1;
        }
        buffer.clear();
        if let Incoming::Data(Data::Text(_)) = receiver.receive(&mut buffer).await.unwrap() {
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
