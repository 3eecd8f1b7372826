//! Calls of gRPC, of both versions: they come in as other requests do, and are refused in gRPC's own words.

use std::sync::Arc;

use agentanycast_proto::{
    a2a::a2a_service_server::A2aServiceServer, a2a_0_3::a2a_service_server::A2aServiceServer as OldServer,
};
use axum::{body::Body, extract::Request, response::Response};
use http_body_util::BodyExt as _;
use tower::Service as _;

use super::{
    A2aFront, A2aFrontConfig, RequestBody, RequestHost,
    admission::{AdmittedRequest, ClientConnection},
    grpc_size, json_body,
    response_body::bounded_response,
};
use crate::{
    a2a::version::Version,
    grpc::{GrpcService, status},
};

/// Where the methods of each version are.
const SERVICES: [(Version, &str); 2] = [
    (Version::V10, "/lf.a2a.v1.A2AService/"),
    (Version::V03, "/a2a.v1.A2AService/"),
];

/// The services that calls go to.
pub(super) struct GrpcMux {
    v1_0: A2aServiceServer<GrpcService>,
    v0_3: OldServer<GrpcService>,
}

impl GrpcMux {
    pub(super) fn new(service: GrpcService, max_body: usize) -> Self {
        let service = Arc::new(service);
        Self {
            v1_0: A2aServiceServer::from_arc(Arc::clone(&service))
                .max_decoding_message_size(max_body)
                .max_encoding_message_size(usize::MAX),
            v0_3: OldServer::from_arc(service)
                .max_decoding_message_size(max_body)
                .max_encoding_message_size(usize::MAX),
        }
    }
}

/// The version that a call is of; none if it is no call of gRPC.
pub(super) fn version(request: &Request) -> Option<Version> {
    let path = request.uri().path();
    let is_there = |methods: &str| {
        path.strip_prefix(methods)
            .is_some_and(|method| !method.is_empty())
    };
    let found = SERVICES.into_iter().find(|(_, methods)| is_there(methods));
    found.map(|(version, _)| version)
}

pub(super) async fn answer(front: &A2aFront, version: Version, mut request: Request) -> Response {
    if let Err(refusal) = front.0.config.origin_policy().check(&request) {
        return refusal.grpc();
    }
    let peer = request.extensions().get::<ClientConnection>().cloned();
    let AdmittedRequest {
        caller,
        permit: place,
    } = match front.0.admission.admit(request.headers(), peer.as_ref()).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.grpc(),
    };
    // A call of gRPC does not show its authority otherwise.
    let host = RequestHost::from_request(&request);
    request.extensions_mut().insert(host);
    request.extensions_mut().insert(caller);
    let A2aFrontConfig {
        body_timeout,
        max_body,
        ..
    } = *front.0.config;
    let request = request.map(|body| Body::new(RequestBody::new(body, &place, body_timeout)));
    let request = match grpc_size::check_size(request, max_body, Some(&place)).await {
        Ok(request) => {
            let failed = move |error| status::from_a2a_error(version, &json_body::broken(error));
            request.map(|body| Body::new(body.map_err(failed)))
        }
        Err(error) => return status::from_a2a_error(version, &error).into_http(),
    };
    let Ok(response) = match version {
        Version::V03 => front.0.grpc.v0_3.clone().call(request).await,
        Version::V10 => front.0.grpc.v1_0.clone().call(request).await,
    };
    let response = response.map(Body::new);
    place.release_body();
    bounded_response(response, place).unwrap_or_else(|refusal| refusal.grpc())
}
