//! Gateways between AgentAnycast and the protocols outside.
//!
//! `gateway` is the port to the mesh; `a2a` is the gateway for A2A, `http` and `grpc` the fronts
//! that its clients reach it by.
//! `server` makes a process of them, with the settings of `config`.

#![forbid(unsafe_code)]

pub mod a2a;
pub mod config;
pub mod gateway;
mod grpc;
pub mod http;
mod server;

pub use server::main_with_args;
