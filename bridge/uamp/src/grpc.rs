//! The gRPC binding (UAMP 1.0 §7), `uamp.v1.Agent`: JSON in bytes, by the handler that all bindings use.
//!
//! Invariant: each refusal has the status of its cause, and the signed error envelope in the metadata
//! `uamp-error-bin`.

use std::{pin::Pin, sync::Arc};

use agentanycast_front::admission::AdmittedRequest;
use agentanycast_uamp::{
    error::{UampCode, UampError},
    v1::{
        Accepted, Delta, Envelope, Frame, Manifest, ManifestRequest, StreamRequest,
        agent_server::{Agent, AgentServer},
        frame,
    },
};
use async_stream::stream;
use axum::{body::Body, extract::Request, response::Response};
use futures::Stream;
use tonic::{Code, Status, Streaming, metadata::MetadataValue};
use tower::ServiceExt as _;

use super::{
    handler::{Rejected, UampHandler, UampSender},
    manifest,
    session::{SessionOut, UampSession},
    stream::{ReadFrom, begin_reading},
};

/// What a message of gRPC has besides its JSON, in bytes.
const BESIDES: usize = 1024;

/// The metadata with the error envelope.
const ERROR: &str = "uamp-error-bin";

/// The status of an error.
fn status_of(error: &UampError) -> Status {
    Status::new(error.grpc_code(), error.to_string())
}

/// The binding. Cheap to clone.
#[derive(Clone)]
pub(super) struct UampGrpc(Arc<UampHandler>);

/// Who calls, with its place among requests; put beside each request by [`UampGrpc::answer`].
#[derive(Clone)]
struct GrpcCaller(Arc<(UampSender, AdmittedRequest)>);

impl GrpcCaller {
    fn sender(&self) -> &UampSender {
        &self.0.0
    }
}

impl UampGrpc {
    pub(super) fn new(handler: Arc<UampHandler>) -> Self {
        Self(handler)
    }

    /// Answers a call of a caller that was let in.
    pub(super) async fn answer(&self, mut request: Request, admitted: AdmittedRequest) -> Response {
        let sender = UampSender::new(&admitted, request.extensions());
        let caller = GrpcCaller(Arc::new((sender, admitted)));
        request.extensions_mut().insert(caller);
        let most = self.0.max_envelope() + BESIDES;
        let server = AgentServer::new(self.clone()).max_decoding_message_size(most);
        let response = match server.oneshot(request).await {
            Ok(response) => response.map(Body::new),
            Err(never) => match never {},
        };
        // The library refuses a message that is too large by itself, with the code of a missing frame.
        let refused = Status::from_header_map(response.headers());
        if refused.is_some_and(|status| status.code() == Code::OutOfRange)
            && !response.headers().contains_key(ERROR)
        {
            return self.status(&self.too_large().into()).into_http::<Body>();
        }
        response
    }

    fn too_large(&self) -> UampError {
        let most = self.0.max_envelope();
        UampError::coded(
            UampCode::PayloadTooLarge,
            format!("the envelope has more than {most} bytes; send large content by its URL"),
        )
    }

    /// A call that was not let in.
    pub(super) fn refused(error: &UampError) -> Response {
        status_of(error).into_http::<Body>()
    }

    fn status(&self, rejected: &Rejected) -> Status {
        let mut status = status_of(&rejected.error);
        let envelope = self.0.error_envelope(rejected).to_string();
        let metadata = status.metadata_mut();
        metadata.insert_bin(ERROR, MetadataValue::from_bytes(envelope.as_bytes()));
        if let Some(after) = rejected.error.retry_after() {
            metadata.insert("retry-after", after.as_secs().max(1).into());
        }
        status
    }
}

fn caller<T>(request: &tonic::Request<T>) -> Result<GrpcCaller, Status> {
    request
        .extensions()
        .get::<GrpcCaller>()
        .cloned()
        .ok_or_else(|| Status::internal("the caller of this request is not known"))
}

type FrameStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Agent for UampGrpc {
    type StreamStream = FrameStream<Delta>;
    type ConnectStream = FrameStream<Frame>;

    async fn send(&self, request: tonic::Request<Envelope>) -> Result<tonic::Response<Accepted>, Status> {
        let caller = caller(&request)?;
        let accepted = self.0.accept(caller.sender(), &request.get_ref().json).await;
        let accepted = accepted.map_err(|rejected| self.status(&rejected))?;
        Ok(tonic::Response::new(Accepted {
            location: accepted.location().unwrap_or_default(),
            stream_id: accepted.stream_id.unwrap_or_default(),
        }))
    }

    async fn stream(
        &self,
        request: tonic::Request<StreamRequest>,
    ) -> Result<tonic::Response<Self::StreamStream>, Status> {
        let caller = caller(&request)?;
        let wanted = request.into_inner();
        let from = wanted.from_seq.unwrap_or(0);
        let refused = |error: UampError| self.status(&error.into());
        let stream = self
            .0
            .open(&caller.sender().caller, &wanted.stream_id)
            .await
            .map_err(refused)?;
        begin_reading(&stream, ReadFrom::at(from)).map_err(refused)?;
        let (reader, handler) = (stream.reader(), Arc::clone(&self.0));
        let deltas = stream! {
            let _caller = caller;
            let mut seq = from;
            loop {
                let next = tokio::select! {
                    next = reader.0.next(seq) => next,
                    () = handler.stop.cancelled() => return,
                };
                match next {
                    Ok(Some(delta)) => {
                        handler.counters.delta();
                        yield Ok(Delta { json: delta.to_json().into() });
                    }
                    Ok(None) => return,
                    Err(error) => {
                        yield Err(status_of(&error));
                        return;
                    }
                }
                seq += 1;
            }
        };
        Ok(tonic::Response::new(Box::pin(deltas)))
    }

    async fn connect(
        &self,
        request: tonic::Request<Streaming<Frame>>,
    ) -> Result<tonic::Response<Self::ConnectStream>, Status> {
        let caller = caller(&request)?;
        let mut incoming = request.into_inner();
        let (session, mut written) = UampSession::new(Arc::clone(&self.0), caller.sender().clone());
        let (stop, too_large) = (self.0.stop.clone(), self.too_large());
        let reading = tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    () = stop.cancelled() => return,
                    message = incoming.message() => message,
                };
                match message {
                    Ok(Some(Frame {
                        frame: Some(frame::Frame::Envelope(envelope)),
                    })) => {
                        session.take(&envelope.json).await;
                    }
                    Ok(Some(Frame {
                        frame: Some(frame::Frame::Delta(delta)),
                    })) => session.take(&delta.json).await,
                    Ok(Some(Frame { frame: None })) => {}
                    // A client that sends no more still reads until its streams have ended.
                    Ok(None) => {
                        session.finished().await;
                        return;
                    }
                    // Nothing can be read behind it; the streams that are followed go on to their ends.
                    Err(status) if status.code() == Code::OutOfRange => {
                        session.refuse(&too_large.into()).await;
                        session.finished().await;
                        return;
                    }
                    Err(_) => return,
                }
            }
        });
        let reading = tokio_util::task::AbortOnDropHandle::new(reading);
        let frames = stream! {
            let _caller = caller;
            let _reading = reading;
            while let Some(out) = written.recv().await {
                let frame = match out {
                    SessionOut::Envelope(json) => frame::Frame::Envelope(Envelope { json: json.into() }),
                    SessionOut::Delta(json) => frame::Frame::Delta(Delta { json: json.into() }),
                };
                yield Ok(Frame { frame: Some(frame) });
            }
        };
        Ok(tonic::Response::new(Box::pin(frames)))
    }

    async fn get_manifest(
        &self,
        _: tonic::Request<ManifestRequest>,
    ) -> Result<tonic::Response<Manifest>, Status> {
        let jws = manifest::manifest(&self.0);
        Ok(tonic::Response::new(Manifest { jws }))
    }
}
