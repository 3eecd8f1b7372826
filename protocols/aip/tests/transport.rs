//! WebSockets as transports: frames both ways, TLS, sizes, refusals, silence.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use std::{sync::Arc, time::Duration};

use agentanycast_aip::transport::{
    CLOSE_NORMAL, Connector as _, Transport, TransportError, WebSocketEndpoint, WebSocketSettings, WireFrame,
    accept,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

const SOON: Duration = Duration::from_secs(20);

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    (listener, url)
}

async fn pair(settings: WebSocketSettings) -> (Transport, Transport) {
    let (listener, url) = listen().await;
    let endpoint = WebSocketEndpoint::new(&url).unwrap();
    let accepted = async {
        let (socket, _) = listener.accept().await.unwrap();
        accept(socket, &settings, |_| Ok(())).await.unwrap()
    };
    let (client, server) = tokio::join!(endpoint.connect(), accepted);
    (client.unwrap(), server)
}

async fn received(transport: &mut Transport) -> Option<Result<WireFrame, TransportError>> {
    timeout(SOON, transport.receiver.receive()).await.unwrap()
}

#[tokio::test]
async fn frames_go_both_ways_and_closing_ends() {
    let (mut client, mut server) = pair(WebSocketSettings::default()).await;
    let large = WireFrame::Binary(vec![7; 3 << 20].into());
    let text = WireFrame::Text("héllo".to_owned());
    client.sender.send(text.clone()).await.unwrap();
    assert_eq!(received(&mut server).await, Some(Ok(text.clone())));
    let (sent, found) = tokio::join!(server.sender.send(large.clone()), received(&mut client));
    sent.unwrap();
    assert_eq!(found, Some(Ok(large)));
    server.sender.send(text.clone()).await.unwrap();
    server.sender.close(CLOSE_NORMAL).await;
    assert_eq!(received(&mut client).await, Some(Ok(text.clone())));
    assert_eq!(received(&mut client).await, None);
    assert_eq!(received(&mut server).await, None);
    assert_eq!(client.sender.send(text).await, Err(TransportError::Closed));
}

#[tokio::test]
async fn a_message_that_is_too_large_is_an_error() {
    let settings = WebSocketSettings {
        max_message: 1000,
        ..WebSocketSettings::default()
    };
    let (mut client, mut server) = pair(settings).await;
    let fits = WireFrame::Text("x".repeat(1000));
    client.sender.send(fits.clone()).await.unwrap();
    assert_eq!(received(&mut server).await, Some(Ok(fits)));
    client
        .sender
        .send(WireFrame::Text("x".repeat(1001)))
        .await
        .unwrap();
    assert_eq!(
        received(&mut server).await,
        Some(Err(TransportError::TooLarge { max: 1000 }))
    );
    assert_eq!(received(&mut server).await, None);
}

#[tokio::test]
async fn a_refusal_names_its_status() {
    let (listener, url) = listen().await;
    let endpoint = WebSocketEndpoint::new(&url).unwrap().with_token("wrong");
    let accepted = async {
        let (socket, _) = listener.accept().await.unwrap();
        let admit = |path: &str| {
            if path == "/ws?token=right" {
                Ok(())
            } else {
                Err(403)
            }
        };
        accept(socket, &WebSocketSettings::default(), admit)
            .await
            .unwrap_err()
    };
    let (client, server) = tokio::join!(endpoint.connect(), accepted);
    assert!(matches!(
        client.unwrap_err(),
        TransportError::Rejected { status: 403, .. }
    ));
    assert!(matches!(server, TransportError::Rejected { status: 403, .. }));
}

#[tokio::test]
async fn an_endless_handshake_is_given_up() {
    let (listener, url) = listen().await;
    let endpoint = WebSocketEndpoint::new(&url).unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.write_all(b"HTTP/1.1 101 X\r\nA: ").await;
        while socket.write_all(&[b'a'; 4096]).await.is_ok() {}
    });
    let error = timeout(Duration::from_secs(10), endpoint.connect())
        .await
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    timeout(SOON, server).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_silent_peer_is_gone() {
    let (listener, url) = listen().await;
    let settings = WebSocketSettings {
        ping: Duration::from_millis(20),
        pong_timeout: Duration::from_millis(200),
        ..WebSocketSettings::default()
    };
    let address = url
        .strip_prefix("ws://")
        .unwrap()
        .strip_suffix("/ws")
        .unwrap()
        .to_owned();
    let mut silent = TcpStream::connect(address).await.unwrap();
    silent
        .write_all(
            b"GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await
        .unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    let mut server = accept(socket, &settings, |_| Ok(())).await.unwrap();
    assert_eq!(received(&mut server).await, None);
    drop(server);
    // Its socket ends too.
    let mut rest = Vec::new();
    let _ = timeout(SOON, silent.read_to_end(&mut rest)).await.unwrap();
}

#[tokio::test]
async fn pings_keep_a_peer_that_says_nothing() {
    let settings = WebSocketSettings {
        ping: Duration::from_millis(20),
        pong_timeout: Duration::from_millis(400),
        ..WebSocketSettings::default()
    };
    let (client, mut server) = pair(settings).await;
    let lost = timeout(Duration::from_millis(1200), server.receiver.receive()).await;
    assert!(lost.is_err(), "{lost:?}");
    drop(client);
}

#[tokio::test]
async fn tls_trusts_the_authorities_of_a_file_only() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, certified.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(certified.key_pair.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let (listener, _) = listen().await;
    let url = format!("wss://localhost:{}/ws", listener.local_addr().unwrap().port());
    let server = tokio::spawn(async move {
        let mut accepted = Vec::new();
        for _ in 0..2 {
            let (socket, _) = listener.accept().await.unwrap();
            let Ok(socket) = tls.accept(socket).await else {
                continue;
            };
            accepted.push(
                accept(socket, &WebSocketSettings::default(), |_| Ok(()))
                    .await
                    .unwrap(),
            );
        }
        accepted
    });
    let endpoint = WebSocketEndpoint::new(&url).unwrap();
    let error = endpoint.connect().await.unwrap_err();
    assert!(
        matches!(
            error,
            TransportError::Connect { .. } | TransportError::Certificates { .. }
        ),
        "{error}"
    );
    if matches!(error, TransportError::Certificates { .. }) {
        // A machine without roots connects to nothing; the server waits for two.
        drop(TcpStream::connect(("127.0.0.1", url_port(&url))).await.unwrap());
    }
    let mut client = endpoint.with_ca_file(&file).connect().await.unwrap();
    let mut accepted = timeout(SOON, server).await.unwrap().unwrap();
    let text = WireFrame::Text("over TLS".to_owned());
    client.sender.send(text.clone()).await.unwrap();
    assert_eq!(received(&mut accepted[0]).await, Some(Ok(text)));
}

fn url_port(url: &str) -> u16 {
    url.split(':')
        .nth(2)
        .unwrap()
        .trim_end_matches("/ws")
        .parse()
        .unwrap()
}
