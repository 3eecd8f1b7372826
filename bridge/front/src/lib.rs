//! The front of a gateway: a listener with TLS, who may call and how much, bodies that are bounded in size and time, and
//! what a stop leaves to be answered.
//!
//! It speaks the errors of no protocol: what does not come in is a [`Refusal`](refusal::Refusal), which a gateway says in the
//! words of its protocol. `front` puts all together from settings. `listener` and `connection` take connections, with `tls`; `auth`, `origin_policy`, `cors` and
//! `admission` decide who comes in; `request_body`, `json_body`, `json_scan` and `grpc_size` bound what comes, and
//! `response_body` what goes; `drain` sees to what is left of a body; `sse` is streams of events, `websocket` sockets; `offload` keeps large
//! contents off the thread that serves everybody; `client_connection`, `host`, `path_segment`, `trace`, `json_response` and `request_counts` are
//! what most fronts need besides.

#![forbid(unsafe_code)]

pub mod admission;
pub mod auth;
pub mod client_connection;
pub mod connection;
pub mod cors;
mod drain;
pub mod front;
pub mod grpc_size;
pub mod host;
pub mod json_body;
pub mod json_response;
pub mod json_scan;
mod lingering_io;
pub mod listener;
pub mod origin_policy;
pub mod path_segment;
pub mod refusal;
pub mod request_body;
pub mod request_counts;
pub mod response_body;
pub mod sse;
pub mod tls;
pub mod trace;
pub mod websocket;

pub use agentanycast_limits::http::offload;
