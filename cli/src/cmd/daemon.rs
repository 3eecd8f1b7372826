//! `anycast daemon`: the same program as `agentanycastd`, in this process.

use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use crate::{
    background_daemon::{self, own_program},
    context::Context,
    failure::{CommandFailure, FailureCode},
    home::CONFIG_VARIABLE,
    parts::ProgramParts,
};

/// How the daemon calls itself.
const PROGRAM: &str = "anycast daemon";

/// What the daemon reads from the environment where no flag says otherwise.
const KEY_PATH: &str = "AGENTANYCAST_KEY_PATH";
const GRPC_LISTEN: &str = "AGENTANYCAST_GRPC_LISTEN";
const STORE_PATH: &str = "AGENTANYCAST_STORE_PATH";

/// Runs the daemon. `--home` becomes the daemon's own settings; since they travel in the environment,
/// this program then starts itself anew in its place.
pub(crate) fn run(context: &Context, parts: &ProgramParts, arguments: Vec<OsString>) -> ExitCode {
    background_daemon::leave_session();
    if !context.home.is_given() {
        // The first argument is the program's name, as in any argument list.
        let args = std::iter::once(PROGRAM.into()).chain(arguments);
        return agentanycast_node::main_with_args(args, parts.composition);
    }
    restart_with_home(context, &arguments).report(context.json)
}

/// Only returns when it fails.
fn restart_with_home(context: &Context, arguments: &[OsString]) -> CommandFailure {
    let found = context
        .home
        .directory()
        .and_then(|home| Ok((home, context.home.own_settings()?)));
    let (home, settings) = match found {
        Ok(found) => found,
        Err(failure) => return failure,
    };
    let program = match own_program() {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let mut socket = OsString::from("unix://");
    socket.push(home.join("daemon.sock"));
    let error = Command::new(program)
        .arg(OsStr::new("daemon"))
        .args(arguments)
        .env(KEY_PATH, home.join("key"))
        .env(GRPC_LISTEN, socket)
        .env(STORE_PATH, home.join("data"))
        .envs(settings.map(|path| (CONFIG_VARIABLE, path)))
        .exec();
    CommandFailure::new(
        FailureCode::General,
        "Io",
        format!("cannot start the daemon: {error}"),
    )
}
