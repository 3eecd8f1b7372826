//! `anycast man`: the manual pages, one printed or all written.

use std::{fs, path::Path, path::PathBuf};

use agentanycast_daemon_kit::{manpages, settings::CommandLine};
use clap::Args;
use serde_json::json;

use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    output, parts,
    program_names::Program,
};

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command whose page is printed, such as send or policy check [default: anycast itself]
    #[arg(conflicts_with = "output")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this directory, and those of the other programs that are in this one
    #[arg(long, short = 'o', value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &ManArgs) -> Result<(), CommandFailure> {
    if let Some(directory) = &args.output {
        let mut pages = Vec::new();
        for program in all_programs() {
            pages.extend(manpages::manual(program)?);
        }
        return write_files(context, directory, &pages);
    }
    let pages = manpages::manual(super::command())?;
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

/// The command lines of this program and the others in it.
pub(super) fn all_programs() -> impl Iterator<Item = CommandLine> {
    let others = parts::get().map(Program::command_lines).unwrap_or_default();
    std::iter::once(super::command()).chain(others)
}

/// Writes files, and says so.
pub(super) fn write_files(
    context: &Context,
    directory: &Path,
    files: &[(String, Vec<u8>)],
) -> Result<(), CommandFailure> {
    let failed = |path: &Path, error: &std::io::Error| {
        CommandFailure::new(
            FailureCode::General,
            "Io",
            format!("cannot write {}: {error}", path.display()),
        )
    };
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
    for (name, text) in files {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    }
    if context.json {
        let names: Vec<&String> = files.iter().map(|(name, _)| name).collect();
        return Ok(output::json(&json!({"path": directory, "files": names}))?);
    }
    Ok(output::line(&format!(
        "wrote {} files into {}",
        files.len(),
        directory.display()
    ))?)
}
