//! The settings of the MCP gateway: `[mcp]`; who may call is set with the front of A2A.

use agentanycast_daemon_kit::{key, settings::SettingKey};

use crate::{
    a2a,
    part::{Host, Section, SettingTables},
};

/// The gateway's name: what its callers begin with in the policy.
pub const NAME: &str = "mcp";

/// What the gateway is told besides what every front is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpSettings {
    /// Flag `--mcp`: on standard input and output. Default: false.
    pub stdio: bool,
}

impl SettingTables for McpSettings {
    #[rustfmt::skip] // A table.
    const OWN: &'static [SettingKey<Self>] = &[
        key!(McpSettings, "stdio", stdio).only_flag().flag("", "", "Serve MCP on standard input and output too; the start-up lines go to standard error, and the end of the input ends the program"),
    ];

    const ABOUT: &'static str = "MCP over HTTP";

    const LISTEN: &'static str = "Turn on MCP over HTTP at HOST:PORT; who may call is as for A2A";

    fn section(_: &str, _: Host) -> Section {
        Section::new("mcp.", "mcp-", "MCP_")
    }

    fn front_section(_: &str, host: Host) -> Section {
        a2a::section(host)
    }

    fn wanted_without_front(&self) -> Option<&'static str> {
        self.stdio.then_some("stdio")
    }
}
