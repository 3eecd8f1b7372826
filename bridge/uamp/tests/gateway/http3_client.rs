//! A client over HTTP/3.

use std::{net::SocketAddr, sync::Arc};

use bytes::{Buf as _, Bytes};
use h3::client::SendRequest;
use http::{Method, Request, StatusCode};
use quinn::{ClientConfig, Endpoint, crypto::rustls::QuicClientConfig};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    fixture::{TOKEN, TestGateway, soon},
    socket_clients::tls,
};

/// A connection over HTTP/3.
pub(crate) struct Http3Client {
    requests: SendRequest<h3_quinn::OpenStreams, Bytes>,
    address: SocketAddr,
    _endpoint: Endpoint,
    _driver: AbortOnDropHandle<()>,
}

impl Http3Client {
    pub(crate) async fn connect(gateway: &TestGateway) -> Self {
        let crypto = QuicClientConfig::try_from(tls(b"h3")).unwrap();
        let mut endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
        let address = gateway.address();
        let connection = soon(endpoint.connect(address, "localhost").unwrap())
            .await
            .unwrap();
        let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection))
            .await
            .unwrap();
        let driver = tokio::spawn(async move {
            let _ = driver.wait_idle().await;
        });
        Self {
            requests,
            address,
            _endpoint: endpoint,
            _driver: AbortOnDropHandle::new(driver),
        }
    }

    /// The status, the place of the stream, and the whole body.
    pub(crate) async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> (StatusCode, Option<String>, Vec<u8>) {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/uamp+json;v=1")
            .body(())
            .unwrap();
        let mut stream = soon(self.requests.send_request(request)).await.unwrap();
        if !body.is_empty() {
            stream.send_data(body.into()).await.unwrap();
        }
        stream.finish().await.unwrap();
        let head = soon(stream.recv_response()).await.unwrap();
        let location = head.headers().get("location");
        let location = location.map(|location| location.to_str().unwrap().to_owned());
        let mut whole = Vec::new();
        while let Some(mut piece) = soon(stream.recv_data()).await.unwrap() {
            whole.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
        }
        (head.status(), location, whole)
    }
}
