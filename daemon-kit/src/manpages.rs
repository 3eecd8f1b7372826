//! Man pages and shell completions, made from what a program's command line is.

use std::io;

use clap::Command;
pub use clap_complete::Shell;
use clap_complete::{Generator, generate};
use clap_mangen::Man;

/// The shells that people use; each looks for another name.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// What the shells complete the command line of a program with, by the names of the files that they look for.
pub fn completion_files(command: &Command) -> Vec<(String, Vec<u8>)> {
    let name = command.get_name();
    let files = SHELLS.map(|shell| (shell.file_name(name), completions(command.clone(), shell)));
    files.into()
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
