//! Calls of gRPC, of both versions: they come in as other requests do, and are refused in gRPC's own words.

use std::sync::Arc;

use agentanycast_front::{
    admission::{AdmittedRequest, RequestAdmission},
    client_connection::ClientConnection,
    host::RequestHost,
    json_body,
    request_body::RequestBody,
    response_body::bounded_response,
};
use agentanycast_proto::{
    a2a::a2a_service_server::A2aServiceServer, a2a_0_3::a2a_service_server::A2aServiceServer as OldServer,
};
use axum::{body::Body, extract::Request, response::Response};
use http_body_util::BodyExt as _;
use tower::Service as _;

use super::{GrpcService, message_size::check_size, status};
use crate::{front_config::A2aFrontConfig, protocol::version::Version};

/// Where the methods of each version are.
const SERVICES: [(Version, &str); 2] = [
    (Version::V10, "/lf.a2a.v1.A2AService/"),
    (Version::V03, "/a2a.v1.A2AService/"),
];

/// The services that calls go to.
pub(crate) struct GrpcMux {
    v1_0: A2aServiceServer<GrpcService>,
    v0_3: OldServer<GrpcService>,
}

impl GrpcMux {
    pub(crate) fn new(service: GrpcService, max_body: usize) -> Self {
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
pub(crate) fn version(request: &Request) -> Option<Version> {
    let path = request.uri().path();
    let is_there = |methods: &str| {
        path.strip_prefix(methods)
            .is_some_and(|method| !method.is_empty())
    };
    let found = SERVICES.into_iter().find(|(_, methods)| is_there(methods));
    found.map(|(version, _)| version)
}

impl GrpcMux {
    /// Answers a call of this version, if it may come in.
    pub(crate) async fn answer(
        &self,
        config: &A2aFrontConfig,
        admission: &Arc<RequestAdmission>,
        version: Version,
        mut request: Request,
    ) -> Response {
        if let Err(refusal) = config.origin_policy().check(&request) {
            return status::refused(refusal);
        }
        let peer = request.extensions().get::<ClientConnection>().cloned();
        let AdmittedRequest { caller, permit } = match admission.admit(request.headers(), peer.as_ref()).await
        {
            Ok(admitted) => admitted,
            Err(refusal) => return status::refused(refusal),
        };
        // A call of gRPC does not show its authority otherwise.
        let host = RequestHost::from_request(&request);
        request.extensions_mut().insert(host);
        request.extensions_mut().insert(caller);
        let A2aFrontConfig {
            body_timeout,
            max_body,
            ..
        } = *config;
        let request = request.map(|body| Body::new(RequestBody::new(body, &permit, body_timeout)));
        let request = match check_size(request, max_body, Some(&permit)).await {
            Ok(request) => {
                let failed = move |error| status::from_a2a_error(version, &json_body::broken(error).into());
                request.map(|body| Body::new(body.map_err(failed)))
            }
            Err(refusal) => return status::from_a2a_error(version, &refusal.into()).into_http(),
        };
        let Ok(response) = match version {
            Version::V03 => self.v0_3.clone().call(request).await,
            Version::V10 => self.v1_0.clone().call(request).await,
        };
        let response = response.map(Body::new);
        permit.release_body();
        bounded_response(response, permit).unwrap_or_else(status::refused)
    }
}
