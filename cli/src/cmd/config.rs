//! `anycast config`: the settings of the home's daemon, in its file.

use agentanycast_node::{
    config::{self, ValueSource, named_settings},
    load_config,
};
use clap::Subcommand;
use serde_json::json;

use crate::{
    background_daemon::BackgroundDaemon, context::Context, failure::CommandFailure, hints, output,
    settings_file::SettingsFile,
};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the value of a setting, its default where nothing sets it; with --json also where it comes from
    Get {
        /// The setting by its name in the file, such as log_level or policy.trust
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Set a setting in the home's file, after a check of the whole; a daemon that runs takes over rules of [policy] at
    /// once, and everything else at its next start
    Set {
        /// The setting by its name in the file
        #[arg(value_name = "KEY")]
        key: String,
        /// A word, a comma list for a list, or TOML for tables
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
    },
    /// Print a JSON Schema of the settings' file, by which an editor completes and checks it: type, default, bounds and a
    /// description of each setting
    Schema,
    /// Take a setting out of the home's file, so that its default counts
    Unset {
        /// The setting by its name in the file
        #[arg(value_name = "KEY")]
        key: String,
    },
}

/// When a change counts.
#[derive(Clone, Copy)]
enum ChangeTime {
    /// The daemon that runs has it.
    Now,
    /// It waits for a restart of the daemon that runs.
    AtRestart,
    /// No daemon runs.
    AtStart,
}

pub(crate) async fn run(context: &Context, command: ConfigCommand) -> Result<(), CommandFailure> {
    context.refuse_address()?;
    match command {
        ConfigCommand::Get { key } => get(context, &key),
        ConfigCommand::Schema => schema(context),
        ConfigCommand::Set { key, value } => {
            let file = SettingsFile::from_home(&context.home)?;
            let is_changed = file.set(&key, &value)?;
            apply_and_report(context, &file, &key, is_changed).await
        }
        ConfigCommand::Unset { key } => {
            let file = SettingsFile::from_home(&context.home)?;
            let is_changed = file.unset(&key)?;
            apply_and_report(context, &file, &key, is_changed).await
        }
    }
}

fn get(context: &Context, key: &str) -> Result<(), CommandFailure> {
    let wrong = |error: named_settings::SettingNameError| CommandFailure::usage(error.to_string());
    // A name that is wrong is told before settings that are.
    named_settings::display_value(key, &config::Config::defaults(None)).map_err(wrong)?;
    let daemon = BackgroundDaemon::new(&context.home)?;
    let value = named_settings::display_value(key, daemon.config()).map_err(wrong)?;
    if !context.json {
        return Ok(output::line(&value)?);
    }
    let source = match daemon.source_of(key) {
        // Those of the home are given to its daemon as flags.
        ValueSource::Flag(_) => "home".to_owned(),
        source => source.to_string(),
    };
    Ok(output::json(
        &json!({"key": key, "value": value, "source": source}),
    )?)
}

/// The same of every home: it is about this program.
fn schema(context: &Context) -> Result<(), CommandFailure> {
    let schema = load_config::schema();
    if context.json {
        return Ok(output::raw_json(&schema)?);
    }
    Ok(format!("{schema:#}").lines().try_for_each(output::line)?)
}

/// Has the daemon take the change over if it can, and says when the change counts.
async fn apply_and_report(
    context: &Context,
    file: &SettingsFile,
    key: &str,
    is_changed: bool,
) -> Result<(), CommandFailure> {
    let daemon = BackgroundDaemon::new(&context.home)?;
    let effect = if named_settings::is_reloaded(key) && is_changed {
        if daemon.reload().await? {
            ChangeTime::Now
        } else {
            ChangeTime::AtStart
        }
    } else if daemon.process().pid().await?.is_some() {
        ChangeTime::AtRestart
    } else {
        ChangeTime::AtStart
    };
    if context.json {
        let effect = match effect {
            _ if !is_changed => "none",
            ChangeTime::Now => "now",
            ChangeTime::AtRestart => "restart",
            ChangeTime::AtStart => "start",
        };
        let path = file.path().display().to_string();
        return Ok(output::json(
            &json!({"key": key, "changed": is_changed, "effect": effect, "file": path}),
        )?);
    }
    let path = file.path().display();
    let text = match effect {
        _ if !is_changed => format!("{path} says so already"),
        ChangeTime::Now => format!("changed in {path}; the daemon that runs reads it now"),
        ChangeTime::AtRestart => format!(
            "changed in {path}; `{}` makes the daemon that runs use it",
            hints::command("restart")
        ),
        ChangeTime::AtStart => format!("changed in {path}"),
    };
    output::warn(&text);
    if let source @ ValueSource::Environment(_) = daemon.source_of(key) {
        output::warn(&format!(
            "{source} goes before the file, for a daemon that is started with it"
        ));
    }
    Ok(())
}
