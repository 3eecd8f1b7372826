//! The bare service: tonic as the relay sets it up, and one answer for every request.

use std::{
    convert::Infallible,
    net::SocketAddr,
    process::Stdio,
    task::{Context, Poll},
};

use agentanycast_proto::v1::DiscoverBySkillRequest;
use futures::{StreamExt as _, future::BoxFuture};
use prost::Message as _;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, body::Body, server::NamedService, transport::Server};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use crate::load::EncodedAgents;

/// A bare service in a process of its own; dropping it ends it.
pub(crate) struct BareRegistry {
    pub(crate) address: SocketAddr,
    _child: Child,
}

/// Starts one that answers this.
pub(crate) async fn start(answer: &EncodedAgents) -> BareRegistry {
    let hex = answer.encode_to_vec().iter().fold(String::new(), |hex, byte| {
        use std::fmt::Write as _;
        let mut hex = hex;
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--bare", &hex])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    BareRegistry {
        address,
        _child: child,
    }
}

#[derive(Clone)]
struct FixedAnswer(EncodedAgents);

impl NamedService for FixedAnswer {
    const NAME: &'static str = "agentanycast.v1.RegistryService";
}

impl Service<http::Request<Body>> for FixedAnswer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = self.0.clone();
        Box::pin(async move {
            let mut grpc =
                tonic::server::Grpc::new(ProstCodec::<EncodedAgents, DiscoverBySkillRequest>::default());
            let respond = service_fn(|_: Request<DiscoverBySkillRequest>| {
                let answer = answer.clone();
                async move { Ok::<_, Status>(Response::new(answer)) }
            });
            Ok(grpc.unary(respond, request).await)
        })
    }
}

/// Says where it is and serves until it is ended.
pub(crate) async fn serve(hex: &str) {
    let pairs = hex.as_bytes().chunks(2);
    let bytes: Vec<u8> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    let answer = EncodedAgents::decode(&*bytes).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    // tonic sets this only on listeners of its own; without it answers wait for delayed acknowledgements.
    let incoming =
        TcpListenerStream::new(listener).map(|stream| stream.inspect(|s| s.set_nodelay(true).unwrap()));
    Server::builder()
        .add_service(FixedAnswer(answer))
        .serve_with_incoming(incoming)
        .await
        .unwrap();
}
