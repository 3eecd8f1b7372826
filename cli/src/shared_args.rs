//! Options that several commands have: those of all, and the file of settings that some of them read.

use std::path::PathBuf;

use clap::{Args, builder::FalseyValueParser};

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Directory of the daemon's key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home's
    #[arg(long, global = true, value_name = "ADDR", value_parser = daemon_address)]
    pub(crate) daemon: Option<String>,
    /// Print JSON for scripts
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Start no daemon where none runs
    #[arg(long, global = true, env = "ANYCAST_NO_START", value_parser = FalseyValueParser::new())]
    pub(crate) no_start: bool,
    /// Keep this relay in the home's settings, for the daemon that the command starts: a multiaddr that ends in
    /// /p2p/PEER_ID; can be repeated
    #[arg(long = "relay", global = true, value_name = "ADDR", conflicts_with = "daemon")]
    pub(crate) relays: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyFile {
    /// The daemon's settings [default: config.toml in --home if it is there, else ~/.agentanycast/config.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// What can be the address of a daemon; a path is one too.
fn daemon_address(text: &str) -> Result<String, String> {
    if text.contains('/') {
        return Ok(text.to_owned());
    }
    Err("give unix:///PATH or tcp://HOST:PORT".to_owned())
}
