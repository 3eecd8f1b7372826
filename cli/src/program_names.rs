//! The other programs that this one is: packages carry it once, with their names as links to it.

use std::{ffi::OsString, path::Path, process::ExitCode};

use agentanycast_daemon_kit::settings::CommandLine;

use crate::{
    context::Context,
    failure::CommandFailure,
    parts::{PartProgram, ProgramParts},
};

/// A program beside the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Daemon,
    Relay,
    Bridge,
}

impl Program {
    const ALL: [Self; 3] = [Self::Daemon, Self::Relay, Self::Bridge];

    /// The program whose name this one was called by; `None`: by any other.
    pub(crate) fn called_by(name: Option<&OsString>) -> Option<Self> {
        let name = Path::new(name?).file_name()?;
        Self::ALL.into_iter().find(|program| name == program.name())
    }

    /// The name of the program.
    fn name(self) -> &'static str {
        match self {
            Self::Daemon => "agentanycastd",
            Self::Relay => "agentanycast-relay",
            Self::Bridge => "agentanycast-bridge",
        }
    }

    /// The command that runs it.
    fn command(self) -> &'static str {
        match self {
            Self::Daemon => "anycast daemon",
            Self::Relay => "anycast relay",
            Self::Bridge => "anycast bridge",
        }
    }

    /// The command lines of those that are in this build.
    pub(crate) fn command_lines(parts: &'static ProgramParts) -> Vec<CommandLine> {
        let mut programs = vec![agentanycast_node::command_line(parts.composition)];
        let others = [parts.relay, parts.bridge].into_iter().flatten();
        programs.extend(others.map(|program| (program.command_line)()));
        programs
    }

    /// Runs it in this process. `args` begins with its name.
    pub(crate) fn run(self, parts: &'static ProgramParts, args: Vec<OsString>) -> ExitCode {
        let mut args = args.into_iter();
        let part = match self {
            Self::Daemon => return agentanycast_node::main_with_args(args, parts.composition),
            Self::Relay => parts.relay,
            Self::Bridge => parts.bridge,
        };
        match part {
            Ok(PartProgram { main, .. }) => main(&mut args),
            Err(missing) => CommandFailure::usage(missing.to_string()).report(false),
        }
    }

    /// Runs it as a command of `anycast`. The options of all commands say where a daemon is: the bridge is
    /// beside that one, and a relay has to do with none.
    pub(crate) fn run_as_command(
        self,
        context: &Context,
        parts: &'static ProgramParts,
        arguments: Vec<OsString>,
    ) -> ExitCode {
        let is_beside_daemon = self == Self::Bridge;
        let refused = [
            ("--home", context.home.is_given() && !is_beside_daemon),
            ("--daemon", context.daemon_given() && !is_beside_daemon),
            ("--json", context.json),
        ];
        if let Some((option, _)) = refused.iter().find(|(_, is_refused)| *is_refused) {
            let command = self.command();
            let failure = CommandFailure::usage(format!(
                "{option} is no option of `{command}`; `{command} --help` lists those that it has"
            ));
            return failure.report(context.json);
        }
        let daemon = match context.daemon_argument() {
            Ok(daemon) => daemon.filter(|_| is_beside_daemon),
            Err(failure) => return failure.report(context.json),
        };
        let args = [self.command().into()].into_iter().chain(daemon);
        self.run(parts, args.chain(arguments).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_the_name_that_it_is_called_by() {
        let called = |name: &str| Program::called_by(Some(&name.into()));
        assert_eq!(called("agentanycastd"), Some(Program::Daemon));
        assert_eq!(called("/usr/bin/agentanycast-relay"), Some(Program::Relay));
        assert_eq!(called("./agentanycast-bridge"), Some(Program::Bridge));
        for other in ["anycast", "/opt/agentanycastd/anycast", "agentanycastd-0.7", ""] {
            assert_eq!(called(other), None, "{other}");
        }
        assert_eq!(Program::called_by(None), None);
    }
}
