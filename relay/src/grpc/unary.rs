//! Services of unary calls, by hand around tonic's own server, with our codec.
//!
//! `service!` makes one of its paths, `calls!` makes the calls of functions.

use agentanycast_proto::codec::EncodedMessage;
use axum::http;
use prost::Message;
use tonic::{
    body::Body,
    server::{Grpc, UnaryService},
};

use super::codec::{ElementBound, RawRequest, RawRequestCodec};

/// Reads one request of at most `most` bytes, lets the service answer, writes the answer.
pub(super) async fn unary<S, D>(
    service: S,
    request: http::Request<Body>,
    bound: ElementBound,
    most: usize,
) -> http::Response<Body>
where
    S: UnaryService<RawRequest<D>, Response: EncodedMessage + Send + 'static>,
    D: Message + Default + 'static,
{
    let codec = RawRequestCodec::<S::Response, D>::new(bound);
    let mut grpc = Grpc::new(codec).apply_max_message_size_config(Some(most), None);
    grpc.unary(service, request).await
}

/// A service: its name, and of each call its path, its type, what its request may unfold to and its size in bytes.
macro_rules! service {
    ($(#[$about:meta])* $name:ident($full:literal) { $($path:path => $call:ident, $bound:expr, $most:expr;)+ }) => {
        $(#[$about])*
        #[derive(Clone)]
        pub(super) struct $name(crate::registry_handle::Handle);

        /// The paths of its calls.
        pub(super) const PATHS: [&str; [$($path),+].len()] = [$($path),+];

        impl $name {
            pub(super) fn new(handle: crate::registry_handle::Handle) -> Self {
                Self(handle)
            }
        }

        impl tonic::server::NamedService for $name {
            const NAME: &'static str = $full;
        }

        impl tower::Service<axum::http::Request<tonic::body::Body>> for $name {
            type Response = axum::http::Response<tonic::body::Body>;
            type Error = std::convert::Infallible;
            type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

            fn poll_ready(
                &mut self,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: axum::http::Request<tonic::body::Body>) -> Self::Future {
                let handle = self.0.clone();
                Box::pin(async move {
                    let answer = match request.uri().path() {
                        $($path => unary::unary($call(handle), request, $bound, $most).await,)+
                        path => tonic::Status::unimplemented(format!("there is no {path}")).into_http(),
                    };
                    Ok(answer)
                })
            }
        }
    };
}

/// Calls: what each is counted as, and the function that answers it.
macro_rules! calls {
    ($($name:ident($request:ty) -> $answer:ty = $run:ident;)+) => {$(
        struct $name(crate::registry_handle::Handle);

        impl tonic::server::UnaryService<RawRequest<$request>> for $name {
            type Response = $answer;
            type Future = futures::future::BoxFuture<'static, Result<tonic::Response<$answer>, Status>>;

            fn call(&mut self, request: Request<RawRequest<$request>>) -> Self::Future {
                let handle = self.0.clone();
                Box::pin(async move {
                    let outcome = $run(&handle, request).await;
                    let code = outcome.as_ref().map_or_else(Status::code, |_| tonic::Code::Ok);
                    handle.metrics().call(stringify!($name), code);
                    outcome.map(tonic::Response::new)
                })
            }
        }
    )+};
}

pub(super) use {calls, service};
