//! The options of `anycast run --mcp`.

use clap::Args as ClapArgs;

/// The value of `--mcp` where the server is the program behind `--`.
pub(crate) const PROGRAM: &str = "";

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "MCP servers")]
pub(crate) struct McpArgs {
    /// The program behind -- is an MCP server, or the server is at this URL: its tools are the agent's skills. Defaults then:
    /// --timeout 60s, --concurrency 4
    #[arg(long, value_name = "URL", group = "kind", num_args = 0..=1, default_missing_value = PROGRAM)]
    pub(crate) mcp: Option<String>,
}
