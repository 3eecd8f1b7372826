//! The gRPC face of the node: the services that clients call, and the door that their connections come through.
//!
//! `services` has NodeService and the additive services, `session` carries the calls on tasks on one stream. Each takes a
//! message and the caller from the request, calls [`Service`], and puts the answer back; nothing is decided here. `status` translates errors, `caller` tells who calls and what its library takes, `size_errors`
//! says a refusal of the gRPC library in our terms; `listen`, `authority_fix` and `auth` are the door.

pub mod auth;
pub mod authority_fix;
mod caller;
pub mod listen;
mod services;
mod session;
pub mod size_errors;
mod status;

use std::pin::Pin;

use futures::{Stream, TryStreamExt as _};
use tonic::{Response, Status};

use crate::service::{Service, ServiceError};

/// What the gRPC server calls. Cheap to clone.
#[derive(Clone)]
pub struct GrpcFace {
    service: Service,
}

impl GrpcFace {
    /// Of this node.
    pub(crate) fn new(service: Service) -> Self {
        Self { service }
    }
}

type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A stream of the service as an answer. Dropped by the library when the client goes away, with all that it holds.
fn stream_response<T>(
    stream: impl Stream<Item = Result<T, ServiceError>> + Send + 'static,
) -> Response<ResponseStream<T>> {
    Response::new(Box::pin(stream.map_err(Status::from)))
}
