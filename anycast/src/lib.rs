//! What the program `anycast` is made of: a node, some gateways and commands. This is the one place that names them.
//!
//! A gateway is its crate, a line in [`GATEWAYS`] and a feature. `bridge` is the bridge as a program of its own, `commands` are
//! those that parts bring, `outside_calls` calls hosts outside.

#![forbid(unsafe_code)]

#[cfg(feature = "bridge")]
mod bridge;
mod commands;
mod outside_calls;

use agentanycast_cli::parts::{PartProgram, ProgramParts};
use agentanycast_daemon_kit::missing_feature::MissingFeature;
use agentanycast_gateway::{
    composition::{Composition, RunnerPart},
    registration::Registration,
};

/// A line of [`GATEWAYS`]: the feature, the gateway, its name, and what it is called where it is left out. The second form is of
/// one whose settings each program knows.
macro_rules! gateway {
    ($feature:literal, $gateway:path, $name:literal, $called:literal) => {{
        #[cfg(feature = $feature)]
        const REGISTRATION: Registration = Registration::new::<$gateway>();
        #[cfg(not(feature = $feature))]
        const REGISTRATION: Registration = Registration::left_out($name, left_out($called, $feature));
        REGISTRATION
    }};
    ($feature:literal, $gateway:path, $name:literal, $called:literal, $settings:path) => {{
        #[cfg(feature = $feature)]
        const REGISTRATION: Registration = Registration::new::<$gateway>();
        #[cfg(not(feature = $feature))]
        const REGISTRATION: Registration =
            Registration::left_out_with_settings::<$settings>($name, left_out($called, $feature));
        REGISTRATION
    }};
}

/// The gateways, one line each. All run in the daemon and in `anycast bridge`.
pub static GATEWAYS: &[Registration] = &[
    gateway!(
        "bridge",
        agentanycast_a2a::A2aGateway,
        "a2a",
        "bridge",
        agentanycast_gateway::settings::a2a::A2aSettings
    ),
    gateway!(
        "bridge",
        agentanycast_mcp::McpGateway,
        "mcp",
        "bridge",
        agentanycast_gateway::settings::mcp::McpSettings
    ),
    gateway!(
        "aip",
        agentanycast_aip_gateway::AipGateway,
        "aip",
        "gateway for AIP"
    ),
    gateway!(
        "uamp",
        agentanycast_uamp_gateway::UampGateway,
        "uamp",
        "gateway for UAMP"
    ),
    gateway!(
        "uap-hub",
        agentanycast_uap_hub_gateway::UapHubGateway,
        "uap-hub",
        "hub of execution agents"
    ),
    gateway!(
        "upp",
        agentanycast_upp_gateway::UppGateway,
        "upp",
        "gateway for UPP"
    ),
];

/// What the node and the bridge of this program have.
pub static COMPOSITION: Composition = Composition {
    gateways: GATEWAYS,
    outside: outside_calls::PART,
    runner: RUNNER,
};

#[cfg(feature = "run")]
const RUNNER: RunnerPart = agentanycast_runner::configured::PART;
#[cfg(not(feature = "run"))]
const RUNNER: RunnerPart = RunnerPart::LeftOut(left_out("runner", "run"));

#[cfg(feature = "relay")]
const RELAY: Result<PartProgram, MissingFeature> = Ok(PartProgram {
    main: |args| agentanycast_relay::main_with_args(args),
    command_line: agentanycast_relay::command_line,
});
#[cfg(not(feature = "relay"))]
const RELAY: Result<PartProgram, MissingFeature> = Err(left_out("relay", "relay"));

#[cfg(feature = "bridge")]
const BRIDGE: Result<PartProgram, MissingFeature> = Ok(bridge::PART);
#[cfg(not(feature = "bridge"))]
const BRIDGE: Result<PartProgram, MissingFeature> = Err(left_out("bridge", "bridge"));

/// All that the program has.
pub static PARTS: ProgramParts = ProgramParts {
    composition: &COMPOSITION,
    relay: RELAY,
    bridge: BRIDGE,
    commands: commands::ALL,
};

/// What is said where a part is left out.
#[allow(dead_code, reason = "a program with all features leaves nothing out")]
const fn left_out(part: &'static str, feature: &'static str) -> MissingFeature {
    MissingFeature { part, feature }
}
