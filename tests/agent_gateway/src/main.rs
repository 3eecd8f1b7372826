//! A daemon with an agent behind a gateway in it.

use std::process::ExitCode;

use agentanycast_agent_gateway::AgentGateway;
use agentanycast_daemon_kit::missing_feature::MissingFeature;
use agentanycast_gateway::{
    composition::{Composition, OutsideCalls, RunnerPart},
    registration::Registration,
};

/// What this program has nothing of.
const NOTHING: MissingFeature = MissingFeature {
    part: "rest",
    feature: "full",
};

static PARTS: Composition = Composition {
    gateways: &[Registration::new::<AgentGateway>()],
    outside: OutsideCalls::LeftOut(NOTHING),
    runner: RunnerPart::LeftOut(NOTHING),
};

fn main() -> ExitCode {
    agentanycast_node::main_with_args(std::env::args_os(), &PARTS)
}
