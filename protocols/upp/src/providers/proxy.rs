//! The client of the proxy wire ([`crate::wire`]).

use serde_json::Value;

use super::dialect::{Dialect, Flow, HttpCall, StreamDecoder, bearer};
use crate::{
    error::UppError,
    event::StreamEvent,
    provider::{Request, Response},
    scripted::events_of,
    turn::Turn,
    wire::{WireRequest, response_of, sse},
};

#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) endpoint: String,
}

impl Dialect for Proxy {
    type Decoder = ProxyDecoder;
    const NAME: &'static str = "proxy";

    fn call(&self, request: &Request, _streamed: bool) -> Result<HttpCall, UppError> {
        let body = serde_json::to_value(WireRequest::from(request))
            .map_err(|error| UppError::invalid_request(format!("the request has no JSON form: {error}")))?;
        Ok(HttpCall {
            url: request
                .config
                .base_url
                .clone()
                .unwrap_or_else(|| self.endpoint.clone()),
            headers: bearer(request),
            body,
        })
    }

    fn decoder(&self, _request: &Request) -> ProxyDecoder {
        ProxyDecoder::default()
    }
}

#[derive(Debug, Default)]
pub(super) struct ProxyDecoder {
    turn: Option<Turn>,
}

impl StreamDecoder for ProxyDecoder {
    fn feed(&mut self, piece: &Value, events: &mut Vec<StreamEvent>) -> Result<Flow, UppError> {
        match sse::read(piece)? {
            sse::Data::Event(event) => events.push(event),
            sse::Data::Turn(turn) => self.turn = Some(*turn),
            sse::Data::Done => return Ok(Flow::End),
        }
        Ok(Flow::More)
    }

    fn is_beside(piece: &Value) -> bool {
        let kind = piece["type"].as_str();
        kind.is_some_and(|kind| kind.ends_with("_delta"))
    }

    fn is_whole(&self) -> bool {
        self.turn.is_some()
    }

    fn finish(self) -> Result<Response, UppError> {
        let turn = self
            .turn
            .ok_or_else(|| UppError::invalid_response("the stream has no turn"))?;
        response_of(turn)
    }

    fn read(self, body: &Value, events: &mut Vec<StreamEvent>) -> Result<Response, UppError> {
        let turn: Turn = serde::Deserialize::deserialize(body).map_err(|error: serde_json::Error| {
            UppError::invalid_response(format!("the answer is not a turn: {error}")).with_source(error)
        })?;
        let response = response_of(turn)?;
        events.extend(events_of(&response.message));
        Ok(response)
    }
}
