//! `anycast config`: the settings of the home's daemon, in its file.

use agentanycast_node::config::{self, ValueSource, by_name};
use serde_json::json;

use crate::{
    args::ConfigCommand, background::BackgroundDaemon, context::Context, failure::Failure, output,
    settings_file::SettingsFile,
};

/// When a change counts.
#[derive(Clone, Copy)]
enum Effect {
    /// The daemon that runs has it.
    Now,
    /// It waits for a restart of the daemon that runs.
    AtRestart,
    /// No daemon runs.
    AtStart,
}

pub(crate) async fn run(context: &Context, command: ConfigCommand) -> Result<(), Failure> {
    context.refuse_address()?;
    match command {
        ConfigCommand::Get { key } => get(context, &key),
        ConfigCommand::Schema => schema(context),
        ConfigCommand::Set { key, value } => {
            let file = SettingsFile::of(context)?;
            let is_changed = file.set(&key, &value)?;
            tell(context, &file, &key, is_changed).await
        }
        ConfigCommand::Unset { key } => {
            let file = SettingsFile::of(context)?;
            let is_changed = file.unset(&key)?;
            tell(context, &file, &key, is_changed).await
        }
    }
}

fn get(context: &Context, key: &str) -> Result<(), Failure> {
    let wrong = |error: by_name::NameError| Failure::usage(error.to_string());
    // A name that is wrong is told before settings that are.
    by_name::shown(key, &config::Config::defaults(None)).map_err(wrong)?;
    let daemon = BackgroundDaemon::new(context)?;
    let value = by_name::shown(key, daemon.config()).map_err(wrong)?;
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
fn schema(context: &Context) -> Result<(), Failure> {
    let schema = config::schema();
    if context.json {
        return Ok(output::raw_json(&schema)?);
    }
    Ok(format!("{schema:#}").lines().try_for_each(output::line)?)
}

/// Has the daemon take the change over if it can, and says when the change counts.
async fn tell(context: &Context, file: &SettingsFile, key: &str, is_changed: bool) -> Result<(), Failure> {
    let daemon = BackgroundDaemon::new(context)?;
    let effect = if by_name::is_reloaded(key) && is_changed {
        if daemon.reload().await? {
            Effect::Now
        } else {
            Effect::AtStart
        }
    } else if daemon.process().pid().await?.is_some() {
        Effect::AtRestart
    } else {
        Effect::AtStart
    };
    if context.json {
        let effect = match effect {
            _ if !is_changed => "none",
            Effect::Now => "now",
            Effect::AtRestart => "restart",
            Effect::AtStart => "start",
        };
        let path = file.path().display().to_string();
        return Ok(output::json(
            &json!({"key": key, "changed": is_changed, "effect": effect, "file": path}),
        )?);
    }
    let path = file.path().display();
    let text = match effect {
        _ if !is_changed => format!("{path} says so already"),
        Effect::Now => format!("changed in {path}; the daemon that runs reads it now"),
        Effect::AtRestart => format!(
            "changed in {path}; `anycast {}restart` makes the daemon that runs use it",
            context.home_option()
        ),
        Effect::AtStart => format!("changed in {path}"),
    };
    output::complain(&text);
    if let source @ ValueSource::Environment(_) = daemon.source_of(key) {
        output::complain(&format!(
            "{source} goes before the file, for a daemon that is started with it"
        ));
    }
    Ok(())
}
