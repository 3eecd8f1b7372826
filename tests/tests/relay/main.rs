//! The relay as a process: its registry, its federation, its faces, its circuits. One file per matter; all on free
//! ports of the loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod autonat;
mod circuits;
mod clock;
mod commands;
mod dashboard;
mod disk_failure;
mod doctor;
mod duplicate_key;
mod fd_exhaustion;
mod federation;
mod federation_poisoning;
mod http_endpoints;
mod interfaces;
mod large_records;
mod limits;
mod load;
mod many_agents;
mod mcp;
mod nat;
mod registry;
mod registry_elsewhere;
mod registry_requests;
mod registry_tls;
mod registry_unreachable;
mod relay_moved;
mod replayed_signatures;
mod skill_routing;
mod slow_http_clients;
mod start_and_stop;
mod tls_proxy;
mod trace_hops;
mod traces;
mod websocket;
