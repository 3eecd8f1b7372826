//! Man pages and shell completions, made from what a program's command line is, and committed in `deploy/`. Tests
//! keep them fresh: with `UPDATE_GENERATED=1` they are written.

use std::{fs, io, path::Path};

use clap::Command;
pub use clap_complete::Shell;
use clap_complete::{Generator, generate};
use clap_mangen::Man;

/// Where they are, from the top of the workspace.
const MAN: &str = "deploy/man";
const COMPLETIONS: &str = "deploy/completions";

/// The shells that people use; each looks for another name.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Compares the pages of a program with those in `deploy/` under `top`, or writes them if the variable
/// `UPDATE_GENERATED` is set.
///
/// # Errors
/// Which one is not as it is made, or cannot be read or written.
pub fn check(command: &Command, top: &Path) -> Result<(), String> {
    let manual = manual(command.clone()).map_err(|error| format!("the man page cannot be made: {error}"))?;
    let mut pages: Vec<(String, Vec<u8>)> = manual
        .into_iter()
        .map(|(name, text)| (format!("{MAN}/{name}"), text))
        .collect();
    let name = command.get_name().to_owned();
    for shell in SHELLS {
        let text = completions(command.clone(), shell);
        pages.push((format!("{COMPLETIONS}/{}", shell.file_name(&name)), text));
    }
    for (place, text) in pages {
        let path = top.join(&place);
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            let written =
                fs::create_dir_all(path.parent().unwrap_or(top)).and_then(|()| fs::write(&path, &text));
            written.map_err(|error| format!("{place}: {error}"))?;
        }
        if fs::read(&path).map_err(|error| format!("{place}: {error}"))? != text {
            return Err(format!(
                "{place} is stale; run the test again with UPDATE_GENERATED=1"
            ));
        }
    }
    Ok(())
}

/// What a shell completes the command line of a program with.
pub fn completions(command: Command, shell: Shell) -> Vec<u8> {
    let (name, mut command) = (command.get_name().to_owned(), built(command));
    let mut text = Vec::new();
    generate(shell, &mut command, name, &mut text);
    text
}

/// The manual pages of a program: of itself, and of each of its commands, as git has them: `anycast-send.1`.
///
/// # Errors
/// None that comes of a page.
pub fn manual(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    man(&built(command), &mut pages)?;
    Ok(pages)
}

/// A page says the version, and not what some build was made from.
fn built(command: Command) -> Command {
    let mut command = command.version(env!("CARGO_PKG_VERSION"));
    command.build();
    command
}

/// The page of a command, and one of each command in it, as git has them: `anycast-send.1`.
fn man(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    pages.push((format!("{name}.1"), text));
    let inner = command
        .get_subcommands()
        .filter(|inner| inner.get_name() != "help" && !inner.is_hide_set());
    for inner in inner {
        man(inner, pages)?;
    }
    Ok(())
}
