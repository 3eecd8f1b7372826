//! What a program has besides the commands of this library: the parts of its node, other programs, and commands that its parts
//! bring.

use std::{ffi::OsString, process::ExitCode, sync::OnceLock};

use agentanycast_daemon_kit::{missing_feature::MissingFeature, settings::CommandLine};
use agentanycast_gateway::composition::Composition;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use futures::future::BoxFuture;

use crate::{context::Context, failure::CommandFailure};

/// A command by its path, with its examples: what is typed, and what that does.
pub type CommandExamples = (&'static str, [(&'static str, &'static str); 2]);

/// What a program has besides the commands of this library.
#[derive(Debug)]
pub struct ProgramParts {
    /// What its node has.
    pub composition: &'static Composition,
    /// The relay.
    pub relay: Result<PartProgram, MissingFeature>,
    /// The bridge as a program of its own.
    pub bridge: Result<PartProgram, MissingFeature>,
    /// Commands that its parts bring.
    pub commands: &'static [PartCommand],
}

/// A program in this one.
#[derive(Clone, Copy, Debug)]
pub struct PartProgram {
    /// Runs it; the arguments begin with its name.
    pub main: fn(&mut dyn Iterator<Item = OsString>) -> ExitCode,
    /// Its command line.
    pub command_line: fn() -> CommandLine,
}

/// A command that a part of the program brings.
#[derive(Clone, Copy, Debug)]
pub struct PartCommand {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What it does, or why it cannot.
    pub action: Result<PartAction, MissingFeature>,
}

/// What a command does.
#[derive(Clone, Copy, Debug)]
pub struct PartAction {
    /// The command with its options; it is given its name.
    pub options: fn(Command) -> Command,
    /// Two examples of it, or of each of its commands.
    pub examples: &'static [CommandExamples],
    /// Whether it needs a daemon, and starts the home's where none runs.
    pub starts_daemon: bool,
    /// Does it.
    pub run: for<'a> fn(&'a Context, &'a ArgMatches) -> BoxFuture<'a, Result<(), CommandFailure>>,
}

/// Those of this process, set once, when it starts.
static PARTS: OnceLock<&'static ProgramParts> = OnceLock::new();

/// From now on, this process has these.
pub(crate) fn set(parts: &'static ProgramParts) {
    let _ = PARTS.set(parts);
}

/// Those of this process; `None`: it has none.
pub(crate) fn get() -> Option<&'static ProgramParts> {
    PARTS.get().copied()
}

/// The commands that parts of this process bring.
pub(crate) fn commands() -> &'static [PartCommand] {
    get().map_or(&[], |parts| parts.commands)
}

impl PartCommand {
    /// The command as the parser knows it.
    pub(crate) fn definition(&self) -> Command {
        let command = Command::new(self.name).about(self.about);
        match &self.action {
            Ok(action) => (action.options)(command),
            // Whatever is typed behind it, it says what it is missing.
            Err(_) => command.arg(
                Arg::new("arguments")
                    .hide(true)
                    .action(ArgAction::Append)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .num_args(0..)
                    .value_parser(value_parser!(OsString)),
            ),
        }
    }

    /// Whether it needs a daemon, and starts the home's where none runs.
    pub(crate) fn starts_daemon(&self) -> bool {
        self.action.is_ok_and(|action| action.starts_daemon)
    }

    /// Does it.
    pub(crate) async fn run(&self, context: &Context, given: &ArgMatches) -> Result<(), CommandFailure> {
        match &self.action {
            Ok(action) => (action.run)(context, given).await,
            Err(missing) => Err(CommandFailure::usage(missing.to_string())),
        }
    }
}
