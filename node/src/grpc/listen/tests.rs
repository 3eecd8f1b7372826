//! The listener with real sockets, real files, and the gRPC library on both ends.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net as blocking,
    },
    path::Path,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    sync::oneshot,
};
use tonic::{
    Code, Request,
    service::InterceptorLayer,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Server, server::Connected as _},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::*;
use crate::grpc::auth::RequireToken;

/// Longest wait for what a test expects.
const DEADLINE: Duration = Duration::from_secs(10);

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

async fn unix(path: &Path) -> Result<GrpcListener, ListenError> {
    bind(&GrpcListen::Unix(path.to_owned()), &GrpcAccess::default()).await
}

async fn tcp(access: &GrpcAccess) -> GrpcListener {
    bind(
        &GrpcListen::Tcp {
            host: "127.0.0.1".into(),
            port: 0,
        },
        access,
    )
    .await
    .unwrap()
}

fn port(listener: &GrpcListener) -> u16 {
    match listener.address() {
        GrpcListen::Tcp { port, .. } => *port,
        GrpcListen::Unix(path) => panic!("{}", path.display()),
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn names(directory: &Path) -> Vec<String> {
    fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

async fn until(mut true_: impl FnMut() -> bool) {
    let wait = async {
        while !true_() {
            tokio::task::yield_now().await;
        }
    };
    time::timeout(DEADLINE, wait).await.unwrap();
}

/// A server of the health service; ends when the sender is dropped.
fn serve(
    listener: GrpcListener,
    token: Option<RequireToken>,
) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let (_, health) = tonic_health::server::health_reporter();
    let guard = move |request: Request<()>| match &token {
        Some(token) => tonic::service::Interceptor::call(&mut token.clone(), request),
        None => Ok(request),
    };
    let server = Server::builder()
        .layer(InterceptorLayer::new(guard))
        .add_service(health);
    let running = tokio::spawn(async move {
        let incoming = Box::pin(listener.into_incoming());
        server
            .serve_with_incoming_shutdown(incoming, async { drop(stopped.await) })
            .await
            .unwrap();
    });
    (stop, running)
}

async fn check(channel: Channel) -> Result<(), tonic::Status> {
    let request = HealthCheckRequest {
        service: String::new(),
    };
    HealthClient::new(channel).check(request).await.map(drop)
}

#[tokio::test]
async fn the_socket_and_its_directory_are_private_and_the_socket_goes_at_the_end() {
    let home = home();
    let path = home.path().join("a/b/daemon.sock");
    let listener = unix(&path).await.unwrap();
    assert_eq!(
        (
            mode(&home.path().join("a")),
            mode(&home.path().join("a/b")),
            mode(&path)
        ),
        (0o700, 0o700, 0o600)
    );
    assert_eq!(names(&home.path().join("a/b")), ["daemon.sock"]);
    drop(listener);
    assert!(names(&home.path().join("a/b")).is_empty());
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_an_error() {
    let home = home();
    let path = home.path().join("daemon.sock");
    drop(blocking::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the standard library leaves the file");
    let first = unix(&path).await.unwrap();
    let error = unix(&path).await.unwrap_err();
    assert!(matches!(error, ListenError::InUse { .. }), "{error}");
    assert_eq!(names(home.path()), ["daemon.sock"]);
    drop(first);
    unix(&path).await.unwrap();
}

#[test]
fn of_two_that_start_at_once_one_wins() {
    for _ in 0..20 {
        let home = home();
        let path = home.path().join("daemon.sock");
        drop(blocking::UnixListener::bind(&path).unwrap());
        let start = || {
            let path = path.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                let result = runtime.block_on(unix(&path));
                // The runtime is kept, since the socket is registered with it.
                (result, runtime)
            })
        };
        let results = [start(), start()].map(|thread| thread.join().unwrap());
        assert_eq!(results.iter().filter(|(result, _)| result.is_ok()).count(), 1);
        let mut errors = results.iter().filter_map(|(result, _)| result.as_ref().err());
        assert!(errors.all(|error| matches!(error, ListenError::InUse { .. })));
    }
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let home = home();
    let path = home.path().join("file");
    fs::write(&path, "mine").unwrap();
    let error = unix(&path).await.unwrap_err();
    assert!(matches!(error, ListenError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    let error = unix(&home.path().join("file/daemon.sock")).await.unwrap_err();
    assert!(matches!(error, ListenError::Io { .. }), "{error}");
    let error = unix(&home.path().join("x".repeat(120))).await.unwrap_err();
    assert!(matches!(error, ListenError::PathTooLong { .. }), "{error}");
    let deep = home.path().join("d".repeat(100)).join("daemon.sock");
    let error = unix(&deep).await.unwrap_err();
    assert!(matches!(error, ListenError::PathTooLong { .. }), "{error}");
}

#[tokio::test]
async fn a_socket_that_another_has_placed_meanwhile_is_not_removed() {
    let home = home();
    let path = home.path().join("daemon.sock");
    let listener = unix(&path).await.unwrap();
    fs::remove_file(&path).unwrap();
    let _other = blocking::UnixListener::bind(&path).unwrap();
    drop(listener);
    // The other one is there, and served.
    UnixStream::connect(&path).await.unwrap();
    fs::remove_file(&path).unwrap();
    let listener = unix(&path).await.unwrap();
    UnixStream::connect(&path).await.unwrap();
    drop(listener);
    assert!(!path.exists(), "its own it takes away");
}

#[tokio::test]
async fn a_deleted_socket_file_is_made_again_and_another_file_stays() {
    let home = home();
    let path = home.path().join("daemon.sock");
    let mut listener = unix(&path).await.unwrap();
    let accepting = tokio::spawn(async move {
        loop {
            listener.accept().await;
        }
    });
    fs::remove_file(&path).unwrap();
    until(|| blocking::UnixStream::connect(&path).is_ok()).await;
    assert_eq!(mode(&path), 0o600);
    let other = home.path().join("other");
    fs::write(&other, "of another").unwrap();
    fs::rename(&other, &path).unwrap();
    // It has looked twice.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "of another");
    accepting.abort();
    assert!(accepting.await.unwrap_err().is_cancelled());
    assert_eq!(
        names(home.path()),
        ["daemon.sock"],
        "it is not this listener's to remove"
    );
}

#[tokio::test]
async fn a_caller_is_known_by_user_and_connection_until_it_hangs_up() {
    let home = home();
    let path = home.path().join("daemon.sock");
    let mut listener = unix(&path).await.unwrap();
    let connections = listener.connections();
    let mut clients = Vec::new();
    let mut accepted = Vec::new();
    for _ in 0..3 {
        clients.push(UnixStream::connect(&path).await.unwrap());
        accepted.push(listener.accept().await);
    }
    let callers: Vec<CallerInfo> = accepted.iter().map(Conn::connect_info).collect();
    let own = rustix::process::geteuid().as_raw();
    assert!(
        callers
            .iter()
            .all(|caller| caller.uid == Some(own) && connections.is_alive(caller.connection))
    );
    assert_ne!(callers[0].connection, callers[1].connection);
    accepted.remove(1);
    let alive: Vec<bool> = callers
        .iter()
        .map(|caller| connections.is_alive(caller.connection))
        .collect();
    assert_eq!(alive, [true, false, true]);
}

#[tokio::test]
async fn connections_beyond_the_bound_wait() {
    let mut listener = tcp(&GrpcAccess::default()).await;
    let address = ("127.0.0.1", port(&listener));
    let slots = Arc::clone(&listener.slots);
    let taken = slots.acquire_many(MAX_CONNECTIONS as u32 - 1).await.unwrap();
    let _clients = (
        TcpStream::connect(address).await.unwrap(),
        TcpStream::connect(address).await.unwrap(),
    );
    let first = listener.accept().await;
    assert!(
        time::timeout(Duration::from_millis(20), listener.accept())
            .await
            .is_err()
    );
    drop(first);
    time::timeout(DEADLINE, listener.accept()).await.unwrap();
    drop(taken);
}

#[tokio::test]
async fn calls_over_the_unix_socket() {
    let home = home();
    let path = home.path().join("daemon.sock");
    let listener = unix(&path).await.unwrap();
    let connections = listener.connections();
    let (stop, running) = serve(listener, None);
    let channel = Endpoint::from_shared(format!("unix://{}", path.display()))
        .unwrap()
        .connect()
        .await
        .unwrap();
    for _ in 0..50 {
        check(channel.clone()).await.unwrap();
    }
    assert!(connections.is_alive(ConnectionId(1)));
    drop(channel);
    until(|| !connections.is_alive(ConnectionId(1))).await;
    drop(stop);
    running.await.unwrap();
    assert!(!path.exists(), "the socket goes with the server");
}

/// The bytes of a recorded grpcio client, whose authority holds `%`.
#[tokio::test]
async fn a_recorded_grpcio_client_is_answered() {
    is_answered(&crate::grpc::authority_fix::recorded_client()).await;
}

/// The same with the raw path of the socket as its authority, as grpc-java sends it.
#[tokio::test]
async fn a_client_with_a_raw_path_for_an_authority_is_answered() {
    let (encoded, raw) = (b"tmp%2Fa%20b%2Fdaemon.sock", b"/tmp/agents/a/daemon.sock");
    let mut bytes = crate::grpc::authority_fix::recorded_client();
    let at = bytes.windows(raw.len()).position(|part| part == encoded).unwrap();
    bytes[at..at + raw.len()].copy_from_slice(raw);
    is_answered(&bytes).await;
}

/// The same with an empty authority, as grpc-go sends it where a dialer of the program's own connects.
#[tokio::test]
async fn a_client_with_an_empty_authority_is_answered() {
    let recorded = crate::grpc::authority_fix::recorded_client();
    let place = |bytes: &[u8]| {
        recorded
            .windows(bytes.len())
            .position(|part| part == bytes)
            .unwrap()
    };
    let field = [&b"\x40\x0a:authority\x19"[..], b"tmp%2Fa%20b%2Fdaemon.sock"].concat();
    // The first call alone: the second one has its authority by its place in the client's table.
    let (head, at, end) = (
        place(b"\x00\x01\x0a\x01\x04\0\0\0\x01"),
        place(&field),
        place(b"\0\0\x23\x01\x04"),
    );
    let length = 0x10a - u16::try_from(field.len() - 1).unwrap();
    let frame = [&[0][..], &length.to_be_bytes()].concat();
    let empty = [
        &recorded[..head],
        &frame,
        &recorded[head + 3..at],
        b"\x81",
        &recorded[at + field.len()..end],
    ];
    is_answered(&empty.concat()).await;
}

/// Sends these bytes over the socket until a call is answered.
async fn is_answered(bytes: &[u8]) {
    let home = home();
    let path = home.path().join("daemon.sock");
    let _running = serve(unix(&path).await.unwrap(), None);
    let mut client = UnixStream::connect(&path).await.unwrap();
    client.write_all(bytes).await.unwrap();
    let answer = async {
        let mut header = [0; 9];
        loop {
            client.read_exact(&mut header).await.unwrap();
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            let mut payload = vec![0; length];
            client.read_exact(&mut payload).await.unwrap();
            match header[3] {
                // HEADERS: an answer (UNIMPLEMENTED here, of a service that is not served).
                1 => return,
                // RST_STREAM and GOAWAY.
                3 | 7 => panic!("refused: {payload:02x?}"),
                _ => {}
            }
        }
    };
    time::timeout(DEADLINE, answer).await.unwrap();
}

#[tokio::test]
async fn tls_and_a_token_over_tcp() {
    let home = home();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let file = |name: &str, content: &str| {
        let path = home.path().join(name);
        fs::write(&path, content).unwrap();
        Some(path)
    };
    let token = "c2VjcmV0LXRva2VuLW9mLXRlc3Rz";
    let access = GrpcAccess {
        token_file: file("token", token),
        tls_cert: file("cert.pem", &made.cert.pem()),
        tls_key: file("key.pem", &made.key_pair.serialize_pem()),
        allow_remote: false,
    };
    let listener = tcp(&access).await;
    let address = format!("https://localhost:{}", port(&listener));
    let silent = TcpStream::connect(("127.0.0.1", port(&listener))).await.unwrap();
    let guard = RequireToken::from_file(access.token_file.as_deref().unwrap()).unwrap();
    let _running = serve(listener, Some(guard));

    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(made.cert.pem()));
    let endpoint = Endpoint::from_shared(address.clone())
        .unwrap()
        .tls_config(tls)
        .unwrap();
    let channel = endpoint.connect().await.unwrap();
    assert_eq!(
        check(channel.clone()).await.unwrap_err().code(),
        Code::Unauthenticated
    );
    let with_token = |mut request: Request<()>| {
        request
            .metadata_mut()
            .insert("authorization", format!("Bearer {token}").parse().unwrap());
        Ok(request)
    };
    let mut client = HealthClient::with_interceptor(channel, with_token);
    client
        .check(HealthCheckRequest {
            service: String::new(),
        })
        .await
        .unwrap();
    assert!(
        check(
            Endpoint::from_shared(address.replace("https", "http"))
                .unwrap()
                .connect_lazy()
        )
        .await
        .is_err()
    );
    drop(silent);
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_named() {
    let home = home();
    let (cert, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
    let access = GrpcAccess {
        tls_cert: Some(cert.clone()),
        tls_key: Some(key.clone()),
        ..GrpcAccess::default()
    };
    let listen = GrpcListen::Tcp {
        host: "127.0.0.1".into(),
        port: 0,
    };
    let named = |error: ListenError| match error {
        ListenError::Tls { path, .. } => path,
        other => panic!("{other}"),
    };
    assert_eq!(named(bind(&listen, &access).await.unwrap_err()), cert);
    fs::write(&cert, "no certificate").unwrap();
    assert_eq!(named(bind(&listen, &access).await.unwrap_err()), cert);
    let (one, other) = (0, 1);
    let made =
        [one, other].map(|_| rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap());
    fs::write(&cert, made[0].cert.pem()).unwrap();
    assert_eq!(named(bind(&listen, &access).await.unwrap_err()), key);
    fs::write(&key, made[1].key_pair.serialize_pem()).unwrap();
    assert_eq!(named(bind(&listen, &access).await.unwrap_err()), cert);
}

/// Runs only as root, which can take another user's place.
#[tokio::test]
async fn another_user_is_refused() {
    let own = rustix::process::geteuid();
    if !own.is_root() {
        return;
    }
    let home = home();
    let path = home.path().join("daemon.sock");
    let mut listener = unix(&path).await.unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    // Python is not needed to build; without it there is nobody to connect as.
    let script = format!(
        "import socket;s=socket.socket(1);s.connect({:?});print(s.recv(1))",
        path.display().to_string()
    );
    let mut command = std::process::Command::new("python3");
    std::os::unix::process::CommandExt::uid(command.args(["-c", &script]), 65534);
    let Ok(other) = command.stdout(std::process::Stdio::piped()).spawn() else {
        return;
    };
    let output = tokio::task::spawn_blocking(move || other.wait_with_output());
    tokio::select! {
        _ = listener.accept() => panic!("another user was let in"),
        output = output => assert_eq!(output.unwrap().unwrap().stdout, b"b''\n"),
    }
    assert_eq!(listener.refused_users, HashSet::from([65534]));
}
