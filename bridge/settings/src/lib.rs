//! The settings of gateways, of the runner and of calls to hosts outside.
//!
//! A gateway is a crate that programs carry by a feature of its name. The settings of A2A, MCP and the runner are here, apart
//! from them, so that every program reads the same configuration file, and refuses what it cannot do by the name of the setting
//! that asks for it. PURE.

#![forbid(unsafe_code)]

pub mod a2a;
pub mod access;
pub mod front;
pub mod mcp;
pub mod outbound;
pub mod part;
pub mod run;
