//! `FederationService`: other relays push what changed there, and pull what changed here.
//!
//! The one rule: whoever pushes is a stranger unless it is one of the relays that we were told of, and a stranger has a
//! quota.

use std::{net::IpAddr, sync::Arc};

use agentanycast_proto::{
    decoded_size::MessageKind,
    v1::{
        PushRegistrationsRequest, PushRegistrationsResponse, SyncRegistrationsRequest,
        SyncRegistrationsResponse,
    },
};
use tonic::{Request, Status, transport::server::TcpConnectInfo};

use super::{
    MAX_REQUEST, call_context,
    codec::RawRequest,
    unary::{self, calls, service},
};
use crate::{
    federation::sync_cursor::{PAGE, PageRequest},
    registry::{ChangesReader, RecordSender, nanos_of, timestamp},
    registry_handle::Handle,
};

/// Most records that are taken from one push.
const MAX_PUSH: usize = 2000;

/// Records that are merged before other calls have their turn: some milliseconds where each is signed.
const AT_ONCE: usize = 32;

/// Longest id of a relay.
const MAX_ID: usize = 256;

/// Most records, skills, tags and proofs that a push is decoded with: a full page of ordinary agents.
const MOST_ELEMENTS: usize = 400_000;

/// Largest request for a page.
const SMALL_REQUEST: usize = 4096;

const SYNC: &str = "/agentanycast.v1.FederationService/SyncRegistrations";
const PUSH: &str = "/agentanycast.v1.FederationService/PushRegistrations";

service! {
    /// Federation.
    FederationServer("agentanycast.v1.FederationService") {
        SYNC => SyncRegistrations, None, SMALL_REQUEST;
        PUSH => PushRegistrations, Some((MessageKind::Registrations, MOST_ELEMENTS)), MAX_REQUEST;
    }
}

calls! {
    SyncRegistrations(SyncRegistrationsRequest) -> SyncRegistrationsResponse = sync;
    PushRegistrations(PushRegistrationsRequest) -> PushRegistrationsResponse = push;
}

#[allow(clippy::unused_async, reason = "all calls have the same shape")]
async fn sync(
    handle: &Handle,
    request: Request<RawRequest<SyncRegistrationsRequest>>,
) -> Result<SyncRegistrationsResponse, Status> {
    call_context::check_rate(handle, call_context::source(request.extensions()), 1)?;
    let asked = request.into_inner().message;
    let epoch = handle.epoch();
    let most = usize::try_from(asked.limit).ok().filter(|limit| *limit > 0);
    let question = PageRequest {
        since: asked.since.map_or(0, nanos_of),
        epoch: asked.epoch,
        most: most.map_or(PAGE, |most| most.min(PAGE)),
        everything: asked.everything,
    };
    let question = question.in_epoch(epoch);
    let reader = ChangesReader {
        relay: &asked.relay_id,
        everything: question.everything,
    };
    let page = handle.changes(question.since, question.most, reader);
    Ok(SyncRegistrationsResponse {
        registrations: page.records,
        sync_timestamp: Some(timestamp(page.cursor)),
        epoch,
        more: page.more,
    })
}

#[allow(clippy::unused_async, reason = "all calls have the same shape")]
async fn push(
    handle: &Handle,
    request: Request<RawRequest<PushRegistrationsRequest>>,
) -> Result<PushRegistrationsResponse, Status> {
    let source = call_context::source(request.extensions());
    call_context::check_rate(handle, source, 1)?;
    let ip = ip(&request);
    let pushed = request.into_inner().message;
    if pushed.relay_id.is_empty() || pushed.relay_id.len() > MAX_ID {
        return Err(Status::invalid_argument(
            "relay_id is empty or longer than 256 bytes",
        ));
    }
    if pushed.registrations.len() > MAX_PUSH {
        return Err(Status::resource_exhausted(format!(
            "records in one push: {MAX_PUSH} at most; push fewer"
        )));
    }
    let is_chosen = ip.is_none_or(|ip| handle.knows_relay_at(ip));
    // Each signature takes as long as many requests; a stranger pays for all of them.
    let proofs = pushed.registrations.iter().map(|told| told.proofs.len());
    call_context::check_rate(
        handle,
        source.filter(|_| !is_chosen),
        (pushed.registrations.len() + proofs.sum::<usize>()) as u64,
    )?;
    let via: Arc<str> = pushed.relay_id.into();
    let by = RecordSender {
        via: Some(&via),
        source,
        is_trusted: is_chosen,
    };
    let (mut accepted, mut rejected) = (0, 0);
    let mut left = pushed.registrations.into_iter();
    while left.len() > 0 {
        let taken = handle.merge(left.by_ref().take(AT_ONCE).collect(), by);
        accepted += taken.accepted as i32;
        rejected += taken.rejected as i32;
        tokio::task::yield_now().await;
    }
    Ok(PushRegistrationsResponse { accepted, rejected })
}

fn ip<T>(request: &Request<T>) -> Option<IpAddr> {
    let address = request.extensions().get::<TcpConnectInfo>()?.remote_addr()?;
    Some(address.ip().to_canonical())
}
