//! `anycast man`: the manual pages, one printed or all written.

use std::{fs, path::Path, path::PathBuf};

use agentanycast_daemon_kit::manpages;
use clap::Args;
use serde_json::json;

use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    output,
};

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command whose page is printed, such as send or policy check [default: anycast itself]
    #[arg(conflicts_with = "output")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, short = 'o', value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &ManArgs) -> Result<(), CommandFailure> {
    let pages = manpages::manual(super::command())?;
    if let Some(directory) = &args.output {
        return write(context, directory, &pages);
    }
    let wanted = ["anycast"]
        .into_iter()
        .chain(args.command.iter().map(String::as_str));
    let name = wanted.collect::<Vec<_>>().join("-") + ".1";
    let page = pages.iter().find(|(page, _)| *page == name);
    let Some((_, text)) = page else {
        return Err(CommandFailure::usage(format!(
            "there is no command {:?}; `anycast --help` lists them",
            args.command.join(" ")
        )));
    };
    Ok(output::bytes(text)?)
}

fn write(context: &Context, directory: &Path, pages: &[(String, Vec<u8>)]) -> Result<(), CommandFailure> {
    let failed = |path: &Path, error: &std::io::Error| {
        CommandFailure::new(
            FailureCode::General,
            "Io",
            format!("cannot write {}: {error}", path.display()),
        )
    };
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
    for (name, text) in pages {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    }
    if context.json {
        let names: Vec<&String> = pages.iter().map(|(name, _)| name).collect();
        return Ok(output::json(&json!({"path": directory, "files": names}))?);
    }
    Ok(output::line(&format!(
        "wrote {} pages into {}",
        pages.len(),
        directory.display()
    ))?)
}
