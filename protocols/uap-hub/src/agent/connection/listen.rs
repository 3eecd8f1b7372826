//! One connection to a hub, from its registration to its loss: answers the proposals that come on the Listen
//! stream, and begins the sessions that the hub says are ready.
//!
//! `ready` is in the outgoing channel before the call is made: a server may send its response headers with
//! its first message only, and tonic's call resolves with them.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::{
    AgentState,
    reconnect::ConnectionEnd,
    registered::{MAX_ID, RegisteredConnection, header},
    session_stream,
};
use crate::{
    agent::{
        error::HubError,
        proposal::{Domain, Proposal},
    },
    v1::{
        ListenRequest, ListenResponse, SessionAcceptance, SessionProposal, listen_request, listen_response,
        session_proposal,
    },
};

/// Answers to proposals that wait until the hub reads them. Then the agent reads no further proposals.
const ANSWERS: usize = 16;

/// Connects, registers and listens until the connection is lost.
pub(super) async fn connection(agent: Arc<AgentState>) -> ConnectionEnd {
    let failed = |error| ConnectionEnd { stood: false, error };
    let registered = match RegisteredConnection::register(&agent).await {
        Ok(registered) => registered,
        Err(error) => return failed(error),
    };
    let (answers, outgoing) = mpsc::channel(ANSWERS);
    // The channel is new: there is room.
    let _ = answers.try_send(ListenRequest {
        event: Some(listen_request::Event::Ready(())),
    });
    let mut request = agent.endpoint.request(ReceiverStream::new(outgoing));
    request
        .metadata_mut()
        .insert("x-client-id", registered.client_id.clone());
    let incoming = match registered.control_client().listen(request).await {
        Ok(response) => response.into_inner(),
        Err(status) => return failed(HubError::ended("Listen", status)),
    };
    let client_id = registered.client_id.to_str().unwrap_or_default();
    tracing::info!(hub = agent.endpoint.url(), client_id, "available at the hub");
    agent.runner.connected(client_id);
    let error = answer_proposals(&agent, &registered, incoming, answers).await;
    agent.slots().forget_promises();
    ConnectionEnd { stood: true, error }
}

/// Reads the Listen stream to its end, which it says.
async fn answer_proposals(
    agent: &Arc<AgentState>,
    registered: &RegisteredConnection,
    mut incoming: Streaming<ListenResponse>,
    answers: mpsc::Sender<ListenRequest>,
) -> HubError {
    loop {
        // A stream that has failed once gives further errors: it ends with the first.
        let event = match incoming.message().await {
            Ok(Some(message)) => message.event,
            Ok(None) => return HubError::Closed,
            Err(status) => return HubError::ended("Listen", status),
        };
        match event {
            Some(listen_response::Event::SessionProposal(proposal)) => {
                let answer = ListenRequest {
                    event: Some(listen_request::Event::SessionAcceptance(decide(agent, proposal))),
                };
                // A hub that takes no answers any more ends the stream, which the next turn sees.
                let _ = answers.send(answer).await;
            }
            Some(listen_response::Event::SessionReady(ready)) => {
                let begun = agent.slots().begin(&ready.session_id);
                if let Some(proposal) = begun {
                    session_stream::spawn(agent.clone(), registered.clone(), proposal);
                } else {
                    tracing::warn!(session_id = %ready.session_id.escape_debug(), "ready: a session that was not accepted");
                }
            }
            // Of a newer protocol.
            None => {}
        }
    }
}

fn decide(agent: &AgentState, offered: SessionProposal) -> SessionAcceptance {
    let session_id = offered.session_id.clone();
    match promise(agent, offered) {
        Ok(()) => SessionAcceptance {
            session_id,
            accepted: true,
            reason: String::new(),
        },
        Err(reason) => SessionAcceptance {
            session_id,
            accepted: false,
            reason,
        },
    }
}

fn promise(agent: &AgentState, offered: SessionProposal) -> Result<(), String> {
    if header(&offered.session_id).is_none() {
        return Err(format!(
            "the session id cannot be sent as a header: give 1 to {MAX_ID} visible ASCII characters"
        ));
    }
    let (domain, kind) = match offered.details {
        Some(session_proposal::Details::Test(details)) => (Domain::Test, details.r#type),
        Some(session_proposal::Details::Translation(details)) => (Domain::Translation, details.r#type),
        None => return Err("the session is neither a test nor a translation".to_owned()),
    };
    let proposal = Proposal {
        session_id: offered.session_id,
        domain,
        kind,
    };
    if agent.draining.is_cancelled() {
        return Err("the agent stops".to_owned());
    }
    agent.runner.accepts(&proposal)?;
    let now = tokio::time::Instant::now().into_std();
    agent
        .slots()
        .promise(&proposal, now)
        .map_err(|error| error.to_string())
}
