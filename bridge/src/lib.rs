//! Gateways between AgentAnycast and the protocols outside.
//!
//! `gateway` is the port to the mesh; `a2a` is the gateway for A2A, and `http` the front that its clients reach it by.

#![forbid(unsafe_code)]

pub mod a2a;
pub mod gateway;
