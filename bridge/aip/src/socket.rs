//! A WebSocket of the front as a connection of AIP.

use agentanycast_aip::transport::{FrameReceiver, FrameSender, Transport, TransportError, WireFrame};
use agentanycast_front::websocket::{WebSocket, WebSocketMessage, WebSocketSender};
use async_trait::async_trait;

/// A connection over this socket.
pub(super) fn transport(socket: WebSocket) -> Transport {
    Transport::new(SocketSender(socket.sender()), SocketReceiver(socket))
}

struct SocketSender(WebSocketSender);

#[async_trait]
impl FrameSender for SocketSender {
    async fn send(&mut self, frame: WireFrame) -> Result<(), TransportError> {
        let sent = match frame {
            WireFrame::Text(text) => self.0.send_text(&text).await,
            WireFrame::Binary(bytes) => self.0.send_binary(bytes).await,
        };
        if sent { Ok(()) } else { Err(TransportError::Closed) }
    }

    async fn close(&mut self, code: u16) {
        self.0.close_with(code, "").await;
    }
}

struct SocketReceiver(WebSocket);

#[async_trait]
impl FrameReceiver for SocketReceiver {
    async fn receive(&mut self) -> Option<Result<WireFrame, TransportError>> {
        match self.0.receive().await? {
            Ok(WebSocketMessage::Text(text)) => Some(Ok(WireFrame::Text(text))),
            Ok(WebSocketMessage::Binary(bytes)) => Some(Ok(WireFrame::Binary(bytes.into()))),
            Err(refusal) => Some(Err(TransportError::Protocol {
                reason: refusal.to_string(),
            })),
        }
    }

    fn release(&mut self) {
        self.0.release_message();
    }
}
