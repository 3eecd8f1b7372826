//! The gRPC face of the bare road, which the benchmark `task_road` measures beside the node: one unary call
//! and a stream in each direction, of nothing but bytes. Written by hand, so that no message of the product
//! and no generated service stands in its way; used by the bin `bare_node` and by the benchmark.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::{Stream, future::BoxFuture, stream::BoxStream};
use http::uri::PathAndQuery;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    server::NamedService,
    transport::{Channel, Endpoint, Server},
};
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

const CARRY: &str = "/bare.Road/Carry";
const PUSH: &str = "/bare.Road/Push";
const PULL: &str = "/bare.Road/Pull";

/// HTTP/2 windows of the server, in bytes: the daemon's.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Bytes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BarePayload {
    /// The bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub bytes: Bytes,
}

impl From<Bytes> for BarePayload {
    fn from(bytes: Bytes) -> Self {
        Self { bytes }
    }
}

/// What a server of the bare road does.
pub trait BareGrpc: Clone + Send + Sync + 'static {
    /// Carries a payload to the other end and its answer back.
    fn carry(&self, payload: Bytes) -> BoxFuture<'static, Result<Bytes, Status>>;

    /// Takes a stream for the other end; answers when it has passed it on.
    fn push(&self, _payloads: Streaming<BarePayload>) -> BoxFuture<'static, Result<Bytes, Status>> {
        Box::pin(async { Err(Status::unimplemented("push")) })
    }

    /// Hands out the next stream that the other end sends.
    fn pull(&self) -> BoxFuture<'static, Result<BoxStream<'static, Result<BarePayload, Status>>, Status>> {
        Box::pin(async { Err(Status::unimplemented("pull")) })
    }
}

#[derive(Clone)]
struct BareGrpcServer<R>(R);

impl<R> NamedService for BareGrpcServer<R> {
    const NAME: &'static str = "bare.Road";
}

impl<R: BareGrpc> Service<http::Request<Body>> for BareGrpcServer<R> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let road = self.0.clone();
        let mut grpc = tonic::server::Grpc::new(ProstCodec::<BarePayload, BarePayload>::default());
        match request.uri().path() {
            CARRY => Box::pin(async move {
                let carry = service_fn(|request: Request<BarePayload>| {
                    let answer = road.carry(request.into_inner().bytes);
                    async { Ok(Response::new(BarePayload::from(answer.await?))) }
                });
                Ok(grpc.unary(carry, request).await)
            }),
            PUSH => Box::pin(async move {
                let push = service_fn(|request: Request<Streaming<BarePayload>>| {
                    let answer = road.push(request.into_inner());
                    async { Ok(Response::new(BarePayload::from(answer.await?))) }
                });
                Ok(grpc.client_streaming(push, request).await)
            }),
            PULL => Box::pin(async move {
                let pull = service_fn(|_: Request<BarePayload>| {
                    let stream = road.pull();
                    async { Ok(Response::new(stream.await?)) }
                });
                Ok(grpc.server_streaming(pull, request).await)
            }),
            _ => Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) }),
        }
    }
}

/// Serves `road` on a Unix socket for as long as the future is polled.
pub async fn serve<R: BareGrpc>(socket: &Path, road: R) -> anyhow::Result<()> {
    let incoming = UnixListenerStream::new(UnixListener::bind(socket)?);
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .add_service(BareGrpcServer(road))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

/// The client of the bare road. Clones share a connection.
#[derive(Clone, Debug)]
pub struct BareGrpcClient(tonic::client::Grpc<Channel>);

impl BareGrpcClient {
    /// Connects when it is first used.
    pub fn new(socket: PathBuf) -> Self {
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint.connect_with_connector_lazy(service_fn(move |_: http::Uri| {
            let socket = socket.clone();
            async move {
                let stream = UnixStream::connect(socket).await?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        }));
        Self(tonic::client::Grpc::new(channel))
    }

    async fn ready(&mut self) -> Result<(), Status> {
        let ready = self.0.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))
    }

    /// See [`BareGrpc::carry`].
    pub async fn carry(&mut self, payload: Bytes) -> Result<Bytes, Status> {
        self.ready().await?;
        let request = Request::new(BarePayload::from(payload));
        let path = PathAndQuery::from_static(CARRY);
        let codec = ProstCodec::<BarePayload, BarePayload>::default();
        let answer = self.0.unary(request, path, codec).await?;
        Ok(answer.into_inner().bytes)
    }

    /// See [`BareGrpc::push`].
    pub async fn push(
        &mut self,
        payloads: impl Stream<Item = BarePayload> + Send + 'static,
    ) -> Result<Bytes, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static(PUSH);
        let codec = ProstCodec::<BarePayload, BarePayload>::default();
        let answer = self
            .0
            .client_streaming(Request::new(payloads), path, codec)
            .await?;
        Ok(answer.into_inner().bytes)
    }

    /// See [`BareGrpc::pull`].
    pub async fn pull(&mut self) -> Result<Streaming<BarePayload>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static(PULL);
        let codec = ProstCodec::<BarePayload, BarePayload>::default();
        let answer = self
            .0
            .server_streaming(Request::new(BarePayload::default()), path, codec)
            .await?;
        Ok(answer.into_inner())
    }
}
