//! The proxy wire of UPP: the JSON and the events with which one UPP program asks another one for an
//! inference.
//!
//! All of it is pure: [`parse_request`] reads a body, [`turn_json`] and the functions of [`sse`] write
//! answers, and [`error_answer`] maps an error to a status and a body. A server adds the HTTP, a client is
//! `providers::proxy`.

mod answer;
mod request;
pub mod sse;

pub use self::{
    answer::{
        AnswerForm, ErrorAnswer, error_answer, message_of_error_body, parse_retry_after, response_of,
        turn_json, turn_of,
    },
    request::{MAX_REQUEST_BYTES, WireError, WireRequest, parse_request},
};
