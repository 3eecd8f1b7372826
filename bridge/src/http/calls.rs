//! Calls of gRPC, of both versions: they come in as other requests do, and are refused in gRPC's own words.

use std::sync::Arc;

use agentanycast_proto::{
    a2a::a2a_service_server::A2aServiceServer, a2a_0_3::a2a_service_server::A2aServiceServer as OldServer,
};
use axum::{body::Body, extract::Request, response::Response};
use http_body_util::BodyExt as _;
use tower::Service as _;

use super::{
    Arriving, Front, FrontConfig, Host, body,
    entry::{Admitted, Peer},
    leaving::leaving,
    unfolding,
};
use crate::{
    a2a::version::Version,
    grpc::{Service, status},
};

/// Where the methods of each version are.
const SERVICES: [(Version, &str); 2] = [
    (Version::V10, "/lf.a2a.v1.A2AService/"),
    (Version::V03, "/a2a.v1.A2AService/"),
];

/// The services that calls go to.
pub(super) struct Grpc {
    new: A2aServiceServer<Service>,
    old: OldServer<Service>,
}

impl Grpc {
    pub(super) fn new(service: Service, max_body: usize) -> Self {
        let service = Arc::new(service);
        Self {
            new: A2aServiceServer::from_arc(Arc::clone(&service))
                .max_decoding_message_size(max_body)
                .max_encoding_message_size(usize::MAX),
            old: OldServer::from_arc(service)
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

pub(super) async fn answer(front: &Front, version: Version, mut request: Request) -> Response {
    if let Err(refusal) = front.0.config.pages().check(&request) {
        return refusal.grpc();
    }
    let peer = request.extensions().get::<Peer>().cloned();
    let Admitted { caller, place } = match front.0.entry.admit(request.headers(), peer.as_ref()).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.grpc(),
    };
    // A call of gRPC does not show its authority otherwise.
    let host = Host::of(&request);
    request.extensions_mut().insert(host);
    request.extensions_mut().insert(caller);
    let FrontConfig {
        body_timeout,
        max_body,
        ..
    } = *front.0.config;
    let request = request.map(|body| Body::new(Arriving::new(body, &place, body_timeout)));
    let request = match unfolding::checked(request, max_body, Some(&place)).await {
        Ok(request) => {
            let failed = move |error| status::of(version, &body::broken(error));
            request.map(|body| Body::new(body.map_err(failed)))
        }
        Err(error) => return status::of(version, &error).into_http(),
    };
    let Ok(response) = match version {
        Version::V03 => front.0.grpc.old.clone().call(request).await,
        Version::V10 => front.0.grpc.new.clone().call(request).await,
    };
    let response = response.map(Body::new);
    place.forget_body();
    leaving(response, place).unwrap_or_else(|refusal| refusal.grpc())
}
