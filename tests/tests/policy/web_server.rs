//! A web server with TLS, whose pages a test writes, or which passes requests on to a bridge; and a name server.

use std::{
    collections::HashMap,
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentanycast_tests::http::HttpClient;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig, crypto,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

/// What is at a path.
#[derive(Clone, Debug)]
pub(crate) enum WebPage {
    Text(String),
    /// Without an end.
    Endless,
    /// Whatever the bridge at this address has there.
    Behind(SocketAddr),
}

/// See the module's text. It is called `localhost`.
#[derive(Clone, Debug)]
pub(crate) struct TestWebServer {
    port: u16,
    home: Arc<TempDir>,
    pages: Arc<Mutex<HashMap<String, WebPage>>>,
    asked: Arc<AtomicUsize>,
}

impl TestWebServer {
    pub(crate) async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let home = Arc::new(TempDir::new().unwrap());
        fs::write(home.path().join("ca.pem"), made.cert.pem()).unwrap();
        let chain = vec![CertificateDer::from(made.cert.der().to_vec())];
        let key = PrivateKeyDer::from_pem_slice(made.key_pair.serialize_pem().as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let web = Self {
            port: listener.local_addr().unwrap().port(),
            home,
            pages: Arc::default(),
            asked: Arc::default(),
        };
        let (acceptor, shared) = (TlsAcceptor::from(Arc::new(config)), web.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, web) = (acceptor.clone(), shared.clone());
                tokio::spawn(async move { web.answer(acceptor, stream).await });
            }
        });
        web
    }

    /// The did:web of a path; without one, of the host.
    pub(crate) fn did(&self, path: &str) -> String {
        let path = path.replace('/', ":");
        format!("did:web:localhost%3A{}{path}", self.port)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// The settings of a daemon that may ask this server.
    pub(crate) fn known(&self) -> String {
        let ca: PathBuf = self.home.path().join("ca.pem");
        format!(
            "[bridge.outbound.\"localhost:{}\"]\nallow_private = true\nca = \"{}\"\n",
            self.port,
            ca.display()
        )
    }

    pub(crate) fn put(&self, path: &str, page: WebPage) {
        self.pages.lock().unwrap().insert(path.to_owned(), page);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.pages.lock().unwrap().remove(path);
    }

    /// How many connections were made to it.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Answers one request, and closes the connection.
    async fn answer(&self, acceptor: TlsAcceptor, stream: TcpStream) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let Ok(mut stream) = acceptor.accept(stream).await else {
            return;
        };
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut bytes = [0; 1024];
            match stream.read(&mut bytes).await {
                Ok(count) if count > 0 => head.extend_from_slice(&bytes[..count]),
                _ => return,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let page = self.pages.lock().unwrap().get(&path).cloned();
        let (status, body) = match page {
            None => ("404 Not Found".to_owned(), String::new()),
            Some(WebPage::Text(text)) => ("200 OK".to_owned(), text),
            Some(WebPage::Behind(bridge)) => {
                let (status, text) = HttpClient::new(format!("http://{bridge}")).text(&path).await;
                (status.to_string(), text)
            }
            Some(WebPage::Endless) => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"id\":\"").await;
                while stream.write_all(&[b'x'; 16 << 10]).await.is_ok() {}
                return;
            }
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

/// A name server with TXT records, over UDP.
#[derive(Clone, Debug)]
pub(crate) struct TxtNameServer {
    address: SocketAddr,
    records: Arc<Mutex<HashMap<String, String>>>,
}

impl TxtNameServer {
    pub(crate) async fn start() -> Self {
        Self::start_slow(Duration::ZERO).await
    }

    /// One that takes so long for each answer.
    pub(crate) async fn start_slow(pause: Duration) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let names = Self {
            address: socket.local_addr().unwrap(),
            records: Arc::default(),
        };
        let records = Arc::clone(&names.records);
        tokio::spawn(async move {
            let mut query = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut query).await {
                let answer = answer(&query[..length], &records.lock().unwrap());
                tokio::time::sleep(pause).await;
                let _ = socket.send_to(&answer, from).await;
            }
        });
        names
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        self.records
            .lock()
            .unwrap()
            .insert(name.to_owned(), text.to_owned());
    }
}

/// The answer to a question (RFC 1035): its record, or that there is no such name.
fn answer(query: &[u8], records: &HashMap<String, String>) -> Vec<u8> {
    let mut labels = Vec::new();
    let mut at = 12;
    while query[at] > 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_lowercase());
        at = end;
    }
    let question = &query[12..at + 5];
    let record = records.get(&labels.join("."));
    let flags = if record.is_some() { 0x8180_u16 } else { 0x8183 };
    let count = u16::from(record.is_some());
    let mut answer = query[..2].to_vec();
    for number in [flags, 1, count, 0, 0] {
        answer.extend_from_slice(&number.to_be_bytes());
    }
    answer.extend_from_slice(question);
    if let Some(text) = record {
        let length = u8::try_from(text.len()).unwrap();
        // The name of the question, TXT, the Internet, a minute.
        answer.extend_from_slice(&[0xC0, 12, 0, 16, 0, 1, 0, 0, 0, 60]);
        answer.extend_from_slice(&(u16::from(length) + 1).to_be_bytes());
        answer.push(length);
        answer.extend_from_slice(text.as_bytes());
    }
    answer
}
