//! The parts of a program as these tests know them: their settings are read and checked, and nothing is started.

use agentanycast_gateway::{
    NodePort,
    composition::{Composition, OutsideCalls, RunnerPart},
    registration::{Front, GatewayModule, Registration},
    running::RunningGateway,
    settings::{a2a, mcp},
};

macro_rules! settings_of {
    ($module:ident, $name:expr, $settings:ty) => {
        struct $module;

        impl GatewayModule for $module {
            const NAME: &'static str = $name;

            type Settings = $settings;

            async fn start(_: NodePort, _: Front, _: $settings) -> anyhow::Result<RunningGateway> {
                anyhow::bail!("it is not started here")
            }
        }
    };
}

settings_of!(A2aSection, a2a::NAME, a2a::A2aSettings);
settings_of!(McpSection, mcp::NAME, mcp::McpSettings);

pub(in crate::load_config) static COMPOSITION: &Composition = &Composition {
    gateways: &[
        Registration::new::<A2aSection>(),
        Registration::new::<McpSection>(),
    ],
    outside: OutsideCalls::BuiltIn {
        fetcher: |_| anyhow::bail!("it is not started here"),
        carry: |_, _, _| anyhow::bail!("it is not started here"),
    },
    runner: RunnerPart::BuiltIn {
        serve: |_, _| unreachable!("it is not started here"),
        helper: |_| unreachable!("it is not started here"),
    },
};
