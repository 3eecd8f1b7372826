//! Our programs as the tests start them: without settings of the environment, their log in a file, and what they say line
//! by line.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

use crate::unread_pipe::UnreadPipe;

/// The variables of our programs begin with this.
const PREFIX: &str = "AGENTANYCAST_";

/// Takes away the variables of whoever runs the tests, and ends the program when it is dropped.
pub(crate) fn clear_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(PREFIX) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
}

/// Our program under one of its names. `cargo test --workspace` builds it, beside the test executables; its other names are
/// links to it in a folder beside it, as packages have them.
///
/// # Panics
/// When it is not there.
pub(crate) fn built_program(name: &str) -> PathBuf {
    const PROGRAM: &str = "anycast";
    let test = std::env::current_exe().expect("a test knows its executable");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join(PROGRAM);
    let release = if profile.ends_with("release") {
        " --release"
    } else {
        ""
    };
    assert!(
        program.is_file(),
        "{} is missing; build it with `cargo build{release} -p anycast --features full`",
        program.display()
    );
    if name == PROGRAM {
        return program;
    }
    let names = profile.join("names");
    fs::create_dir_all(&names).expect("a folder beside the program");
    for name in [
        PROGRAM,
        "agentanycastd",
        "agentanycast-relay",
        "agentanycast-bridge",
    ] {
        // It is there already, also where another test makes it at the same time.
        let _ = symlink(Path::new("..").join(PROGRAM), names.join(name));
    }
    let link = names.join(name);
    assert!(link.exists(), "{} cannot be made", link.display());
    link
}

/// Starts it, its log added to this file, or to the pipe. The lines end when its output does.
///
/// # Panics
/// When it cannot be run.
pub(crate) fn start(
    mut command: Command,
    log: &Path,
    unread: Option<&UnreadPipe>,
) -> (Child, mpsc::UnboundedReceiver<String>) {
    let log = || File::options().create(true).append(true).open(log);
    let log = unread.map_or_else(|| log().expect("a log file").into(), UnreadPipe::stdio);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| {
            panic!(
                "{} cannot be run: {error}",
                command.as_std().get_program().display()
            )
        });
    let stdout = child.stdout.take().expect("its output is piped");
    let (sender, lines) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut read = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = read.next_line().await {
            // Whoever no longer listens has what it wanted; the pipe has to be kept empty all the same.
            let _ = sender.send(line);
        }
    });
    (child, lines)
}
