//! Clients on a TLS connection of their own: WebSocket, and gRPC.

use std::sync::Arc;

use agentanycast_uamp::{
    record::{split_records, write_record},
    v1::agent_client::AgentClient,
};
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, DigitallySignedStruct, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        pki_types::{CertificateDer, ServerName, UnixTime},
    },
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest as _},
};
use tonic::{
    Request,
    metadata::MetadataValue,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn;

use crate::fixture::{TOKEN, TestGateway, soon};

/// Takes every certificate: the gateway's is made by itself.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519]
    }
}

pub(crate) fn tls(alpn: &[u8]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    config
}

async fn connect(address: std::net::SocketAddr, alpn: &[u8]) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(tls(alpn)))
        .connect(name, stream)
        .await
        .unwrap()
}

/// A client of the WebSocket binding.
pub(crate) struct SocketClient {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    pub(crate) is_text: bool,
    /// The code by which the gateway has closed it.
    pub(crate) closed_by: Option<u16>,
}

impl SocketClient {
    pub(crate) async fn open(gateway: &TestGateway) -> Self {
        let stream = connect(gateway.address(), b"http/1.1").await;
        let url = format!("ws://{}/uamp/1/ws", gateway.address());
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {TOKEN}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let (socket, _) = soon(client_async(request, stream)).await.unwrap();
        Self {
            socket,
            is_text: false,
            closed_by: None,
        }
    }

    pub(crate) async fn send(&mut self, json: &[u8]) {
        if self.is_text {
            let text = std::str::from_utf8(json).unwrap();
            self.socket.send(Message::text(text)).await.unwrap();
        } else {
            let mut message = Vec::new();
            write_record(json, &mut message);
            self.socket.send(Message::binary(message)).await.unwrap();
        }
    }

    /// Sends bytes as they are.
    pub(crate) async fn send_raw(&mut self, message: &[u8]) {
        self.socket.send(Message::binary(message.to_vec())).await.unwrap();
    }

    /// The next record; `None`: the socket is closed.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            match soon(self.socket.next()).await?.ok()? {
                Message::Text(text) => {
                    assert!(self.is_text);
                    return Some(text.as_bytes().to_vec());
                }
                Message::Binary(message) => {
                    let records = split_records(&message, 8 << 20).unwrap();
                    assert_eq!(records.len(), 1);
                    return Some(records[0].to_vec());
                }
                Message::Close(frame) => self.closed_by = frame.map(|frame| frame.code.into()),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

type WithToken = fn(Request<()>) -> Result<Request<()>, tonic::Status>;

pub(crate) type GrpcClient = AgentClient<InterceptedService<Channel, WithToken>>;

/// A client of the gRPC binding.
pub(crate) fn grpc(gateway: &TestGateway) -> GrpcClient {
    let address = gateway.address();
    let connector = service_fn(move |_: Uri| async move {
        Ok::<_, std::io::Error>(TokioIo::new(connect(address, b"h2").await))
    });
    // The connector speaks TLS, so the endpoint does not.
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect_with_connector_lazy(connector);
    let with_token: WithToken = |mut request| {
        let bearer: MetadataValue<_> = format!("Bearer {TOKEN}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        Ok(request)
    };
    AgentClient::with_interceptor(channel, with_token).max_decoding_message_size(8 << 20)
}
