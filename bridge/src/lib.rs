//! The bridge as a program: the gateways that are built in, before a daemon of its own or another host's.
//!
//! `config` is what it is told, `server` runs the gateways with it.

#![forbid(unsafe_code)]

pub mod config;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod server;

pub use server::{
    BridgeContext, GATEWAYS, GatewayRegistration, command_line, main_with_args, main_with_gateways,
};
