//! The options of `anycast run --acp`.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

/// Who answers an agent that asks for permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermitOption {
    /// The sender of the task
    Ask,
    /// Reading and searching are permitted; the sender is asked for everything else
    Read,
    /// Everything is permitted, each time anew
    All,
    /// Everything is rejected
    None,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Coding agents (ACP)")]
pub(crate) struct AcpArgs {
    /// The program behind -- is an agent of the Agent Client Protocol. What it does by itself is not confined: it has the
    /// files, the network and the rights of this user. --cwd bounds the files that are read and written for it
    #[arg(long, group = "kind")]
    pub(crate) acp: bool,
    /// Who answers when the agent asks for permission
    #[arg(long, value_enum, default_value_t = PermitOption::Ask, value_name = "WHO", requires = "acp")]
    pub(crate) permit: PermitOption,
    /// Without an answer until then it is no
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = super::time, requires = "acp")]
    pub(crate) permit_timeout: Duration,
    /// Run commands for the agent
    #[arg(long, requires = "acp")]
    pub(crate) terminal: bool,
}
