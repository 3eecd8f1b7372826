//! The WebSocket binding (UAMP 1.0 §7): binary messages of records, each a length of four bytes and JSON.
//! Text messages are bare JSON, and are answered by such.
//!
//! Invariant: a message that is not whole records, or has a record that is too large, closes the socket.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use agentanycast_front::{
    admission::RequestPermit,
    refusal::Refusal,
    websocket::{self, WebSocket, WebSocketMessage},
};
use agentanycast_uamp::{
    error::UampCode,
    record::{MAX_RECORD, check_record, split_records, write_record},
};
use axum::{extract::Request, response::Response};
use tokio_util::task::AbortOnDropHandle;

use super::{
    handler::{Rejected, UampHandler, UampSender},
    session::{SessionOut, UampSession},
};

/// Largest message, in bytes: four of the largest records.
const MAX_MESSAGE: usize = 4 * (MAX_RECORD + 4);

/// Why a socket is closed (RFC 6455, 7.4.1).
const CLOSE_NORMAL: u16 = 1000;
const CLOSE_INVALID: u16 = 1007;
const CLOSE_TOO_LARGE: u16 = 1009;

/// How long the last records may take to go out, and the close behind them.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Answers a request that becomes a socket.
///
/// # Errors
/// When it is not such a request.
pub(super) fn open(
    request: &mut Request,
    permit: RequestPermit,
    handler: Arc<UampHandler>,
    sender: UampSender,
) -> Result<Response, Refusal> {
    websocket::upgrade(request, permit, MAX_MESSAGE, move |socket| {
        serve(socket, handler, sender)
    })
}

async fn serve(mut socket: WebSocket, handler: Arc<UampHandler>, peer: UampSender) {
    let stop = handler.stop.clone();
    let (session, mut written) = UampSession::new(handler, peer);
    let is_text = Arc::new(AtomicBool::new(false));
    let (sender, as_text) = (socket.sender(), Arc::clone(&is_text));
    let writer = AbortOnDropHandle::new(tokio::spawn(async move {
        while let Some(SessionOut::Envelope(json) | SessionOut::Delta(json)) = written.recv().await {
            let is_there = if as_text.load(Relaxed) {
                sender.send_text(&String::from_utf8_lossy(&json)).await
            } else {
                let mut message = Vec::with_capacity(json.len() + 4);
                write_record(&json, &mut message);
                sender.send_binary(message).await
            };
            if !is_there {
                return;
            }
        }
    }));
    let mut code = CLOSE_NORMAL;
    loop {
        let received = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            received = socket.receive() => received,
        };
        match received {
            Some(Ok(WebSocketMessage::Text(text))) => {
                is_text.store(true, Relaxed);
                if let Err(error) = check_record(text.len(), MAX_RECORD) {
                    code = CLOSE_TOO_LARGE;
                    session.refuse(&Rejected::from(error)).await;
                    break;
                }
                session.take(text.as_bytes()).await;
            }
            Some(Ok(WebSocketMessage::Binary(message))) => match split_records(&message, MAX_RECORD) {
                Ok(records) => {
                    for record in records {
                        session.take(record).await;
                    }
                }
                Err(error) => {
                    code = match error.code() {
                        Some(UampCode::PayloadTooLarge) => CLOSE_TOO_LARGE,
                        _ => CLOSE_INVALID,
                    };
                    session.refuse(&Rejected::from(error)).await;
                    break;
                }
            },
            Some(Err(_)) | None => break,
        }
        socket.release_message();
    }
    drop(session);
    // What was said last goes out before the socket is closed. A client that reads nothing is not waited for: the
    // writer is given up, and with it its hold on the socket.
    let _ = tokio::time::timeout(LAST_WORDS, writer).await;
    let _ = tokio::time::timeout(LAST_WORDS, socket.close_with(code)).await;
}
