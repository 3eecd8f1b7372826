//! Connections to hosts that somebody outside names: filtered, bounded in size and time, with the credentials that are set
//! for each host.
//!
//! `egress_filter` decides which addresses are connected to; `client` is HTTP on such connections; `fetch` gets documents
//! that others name by their URL; `error` is why a call failed.

#![forbid(unsafe_code)]

pub mod client;
pub mod egress_filter;
pub mod error;
pub mod fetch;
