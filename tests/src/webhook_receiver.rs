//! A webhook that remembers what it was told, and refuses it while it is told to.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::wait::within;

/// What came: the head in small letters, and the body.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    /// Request line and headers.
    pub head: String,
    /// The JSON.
    pub body: Value,
}

/// See the module's text.
#[derive(Debug)]
pub struct WebhookReceiver {
    url: String,
    told: mpsc::UnboundedReceiver<WebhookRequest>,
    refusing: Arc<AtomicBool>,
}

impl WebhookReceiver {
    /// On a free port of the loopback.
    ///
    /// # Panics
    /// When there is none.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (sender, told) = mpsc::unbounded_channel();
        let refusing = Arc::new(AtomicBool::new(false));
        let refuses = Arc::clone(&refusing);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, sender.clone(), Arc::clone(&refuses)));
            }
        });
        Self {
            url: format!("http://{address}/hook"),
            told,
            refusing,
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Refuses what comes from now on, or takes it again. What is refused is not remembered.
    pub fn refuse(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::SeqCst);
    }

    /// What it is told next.
    ///
    /// # Panics
    /// When it is told nothing.
    pub async fn next(&mut self) -> WebhookRequest {
        let next = within("the webhook is told something", self.told.recv()).await;
        next.expect("the webhook is there")
    }
}

/// Answers one request, and closes the connection.
async fn answer(
    mut stream: TcpStream,
    told: mpsc::UnboundedSender<WebhookRequest>,
    refusing: Arc<AtomicBool>,
) {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            break (head.to_ascii_lowercase(), body);
        }
    };
    let refuse = refusing.load(Ordering::SeqCst);
    let status = if refuse { "503 Later" } else { "200 OK" };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    // Whoever was killed does not read it, and tells it again.
    if !refuse {
        let _ = told.send(WebhookRequest { head, body });
    }
    let _ = stream.write_all(answer.as_bytes()).await;
}
