//! The tables of all settings: name in TOML, flag, variable, and the field that each fills.

use agentanycast_daemon_kit::{key, settings};
use agentanycast_gateways::settings_table;

use super::Config;

/// A setting of the bridge as a program of its own.
pub(super) type BridgeKey = settings::SettingKey<Config>;

#[rustfmt::skip] // A table.
const OWN: &[BridgeKey] = &[
    key!(Config, "daemon", daemon).variable("DAEMON").flag("daemon", "ADDR", "The daemon, unix://PATH or tcp://HOST:PORT"),
    key!(Config, "mcp.listen", mcp_listen).variable("MCP_LISTEN").flag("mcp-listen", "ADDR", "Where MCP clients connect over HTTP, HOST:PORT; who may call is as for A2A"),
    key!(Config, "log_level", log_level).variable("LOG_LEVEL").flag("log-level", "LEVEL", "error, warn, info, debug or trace"),
    key!(Config, "log_format", log_format).variable("LOG_FORMAT").flag("log-format", "FORMAT", "json or text"),
];

const FRONT: &[BridgeKey] = settings_table!(Config, front, "", "", "");

static JOINED: [BridgeKey; OWN.len() + FRONT.len()] = settings::join(&[OWN, FRONT]);

/// All of them.
pub(super) static KEYS: &[BridgeKey] = &JOINED;
