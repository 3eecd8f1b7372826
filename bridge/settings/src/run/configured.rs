//! `[[agents.run]]`, `[[agents.mcp]]` and `--mcp-proxy`: the agents that a daemon itself serves.

use std::{collections::BTreeSet, time::Duration};

use agentanycast_daemon_kit::{
    duration, key,
    settings::{Bounds, ConfigError, SettingKey, ValueSources},
};

use super::{DAEMON_DRAIN, McpEntry, RunEntry, RunProgram, RunSettings, RunWork};
use crate::{
    front::bad_value,
    part::{PartValues, whole_table},
};

/// The name of the agent of `--mcp-proxy`.
pub const MCP_PROXY: &str = "mcp-proxy";

/// Most agents of each kind: each has processes.
const MAX_AGENTS: Bounds = Bounds::Items(0, 256);

/// Longest time for which tasks of an agent that the daemon serves may go on when it is told to stop. With what else a stop takes
/// it is less than the 15 s that the unit of systemd gives it.
const MAX_DAEMON_DRAIN: Duration = Duration::from_secs(8);

/// The agents that a daemon serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredAgents {
    /// Programs and HTTP services. Default: none.
    run: Vec<RunEntry>,
    /// MCP servers. Default: none.
    mcp: Vec<McpEntry>,
    /// Flag `--mcp-proxy`: the command of an MCP server, in words of a shell, or its URL. Default: none.
    proxy: String,
    /// Flag `--open`: every peer may use that agent. Default: as `agents.default_access` says.
    proxy_open: bool,
}

#[rustfmt::skip] // A table.
static TABLE: &[SettingKey<ConfiguredAgents>] = &[
    key!(ConfiguredAgents, "agents.run", run).what("Programs and HTTP services that are agents, each a table with the options of anycast run").bounds(MAX_AGENTS),
    key!(ConfiguredAgents, "agents.mcp", mcp).what("MCP servers whose tools are the skills of an agent, each a table with a name, and a command or a url").bounds(MAX_AGENTS),
    key!(ConfiguredAgents, "mcp.proxy", proxy).only_flag().flag("mcp-proxy", "COMMAND", "Make an agent, mcp-proxy, of the MCP server of this command, whose words are quoted as for a shell"),
    key!(ConfiguredAgents, "mcp.proxy_open", proxy_open).only_flag().flag("open", "", "Let every peer use the agent of --mcp-proxy"),
];

impl ConfiguredAgents {
    /// The settings, for the table of the daemon. Made once, when the program starts.
    pub fn keys() -> Vec<SettingKey<PartValues>> {
        whole_table(TABLE)
    }

    /// As they are set.
    pub fn read(values: &PartValues) -> Self {
        values.read_table(TABLE)
    }

    /// The settings that have agents.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("agents.run", !self.run.is_empty()),
            ("agents.mcp", !self.mcp.is_empty()),
            ("mcp.proxy", !self.proxy.is_empty()),
        ];
        given
            .into_iter()
            .filter_map(|(name, is_given)| is_given.then_some(name))
    }

    /// The value of a setting, as a user knows it.
    pub fn value(&self, name: &str) -> Option<String> {
        let key = TABLE.iter().find(|key| key.name == name);
        key.map(|key| key.plain(self))
    }

    /// The agents, in the order of the settings.
    pub fn all(&self) -> Vec<RunSettings> {
        let run = self.run.iter().map(|entry| &entry.0);
        let mcp = self.mcp.iter().map(|entry| &entry.0);
        let proxy = self.proxy().map(|settings| RunSettings {
            open: self.proxy_open.then_some(true),
            ..settings
        });
        run.chain(mcp).cloned().chain(proxy).collect()
    }

    /// The agent of `--mcp-proxy`; `None`: there is none, or a quote is left open.
    fn proxy(&self) -> Option<RunSettings> {
        let target = &self.proxy;
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

    /// Checks that each agent has a name of its own, and is stopped in time.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self, sources: &ValueSources) -> Result<(), ConfigError> {
        let bad = |name: &str, value: Option<String>, allowed: String| {
            Err(bad_value(name, value, sources, allowed))
        };
        if !self.proxy.is_empty() && self.proxy().is_none() {
            let allowed = "a command whose quotes are closed, or a URL".to_owned();
            return bad("mcp.proxy", self.value("mcp.proxy"), allowed);
        }
        let mut names = BTreeSet::new();
        for agent in self.all() {
            let key = match agent.work {
                RunWork::McpProgram(_) | RunWork::McpUrl { .. } => "agents.mcp",
                _ => "agents.run",
            };
            let name = Some(agent.name.clone());
            if agent.drain > MAX_DAEMON_DRAIN {
                let allowed = format!(
                    "a drain of at most {} for agent {}; `anycast run` serves one that takes longer to end",
                    duration::format(MAX_DAEMON_DRAIN),
                    agent.name
                );
                return bad(key, name, allowed);
            }
            if !names.insert(agent.name) {
                return bad(key, name, "the name of one agent only".to_owned());
            }
        }
        Ok(())
    }
}
