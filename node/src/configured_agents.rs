//! `[[agents.run]]`, `[[agents.mcp]]` and `--mcp-proxy`: agents that the daemon itself serves, or, where the program is built
//! without the feature `run`, what stands in their place.

use agentanycast_gateways::run::{DAEMON_DRAIN, RunProgram, RunSettings, RunWork};

use crate::config::{AgentsConfig, Config};

#[cfg(not(feature = "run"))]
mod disabled;
#[cfg(feature = "run")]
mod enabled;

#[cfg(not(feature = "run"))]
pub(crate) use disabled::{ConfiguredAgents, MISSING};
#[cfg(feature = "run")]
pub(crate) use enabled::{ConfiguredAgents, MISSING};

/// The name of the agent of `--mcp-proxy`.
pub(crate) const MCP_PROXY: &str = "mcp-proxy";

/// The agents that the configuration has, in its order.
pub(crate) fn agents_of(config: &Config) -> Vec<RunSettings> {
    let AgentsConfig { run, mcp, .. } = &config.agents;
    let run = run.iter().map(|entry| &entry.0);
    let mcp = mcp.iter().map(|entry| &entry.0);
    let proxy = mcp_proxy(&config.mcp.proxy).map(|settings| RunSettings {
        open: config.mcp.proxy_open.then_some(true),
        ..settings
    });
    run.chain(mcp).cloned().chain(proxy).collect()
}

/// The agent of `--mcp-proxy`, by the words of its command as a shell splits them, or by its URL; `None`: there is none, or a
/// quote is left open.
pub(crate) fn mcp_proxy(target: &str) -> Option<RunSettings> {
    let work = if target.starts_with("http://") || target.starts_with("https://") {
        RunWork::McpUrl {
            url: target.to_owned(),
            api_key_env: None,
        }
    } else {
        let words = shlex::split(target).filter(|words| !words.is_empty())?;
        RunWork::McpProgram(RunProgram {
            command: words.into_iter().map(Into::into).collect(),
            ..RunProgram::default()
        })
    };
    let mut settings = RunSettings::new(MCP_PROXY.to_owned(), work);
    settings.drain = DAEMON_DRAIN;
    Some(settings)
}
