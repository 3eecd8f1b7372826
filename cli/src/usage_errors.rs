//! What the command line itself is answered: help, version, and errors of usage, which repeat arguments.

use std::{ffi::OsString, io, process::ExitCode};

use agentanycast_daemon_kit::{process::OUTPUT_CLOSED, sanitize};
use clap::error::{ContextKind, ContextValue};

use crate::failure::CommandFailure;

/// Prints what the parser says, and gives the exit code: 0 for help and version, 2 for an error.
pub(crate) fn report(error: clap::Error) -> ExitCode {
    let error = sanitized(error);
    if error.use_stderr() && wants_json(std::env::args_os()) {
        return CommandFailure::usage(told(&error)).report_usage();
    }
    match error.print() {
        Err(failed) if !error.use_stderr() => match failed.kind() {
            io::ErrorKind::BrokenPipe => ExitCode::from(OUTPUT_CLOSED),
            _ => ExitCode::FAILURE,
        },
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX)),
    }
}

/// Whether JSON was asked for, in arguments that cannot be read otherwise; behind `--` there are none.
fn wants_json(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments
        .by_ref()
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

/// What is wrong, without the usage and the tips.
fn told(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let wrong = text.split("\n\n").next().unwrap_or_default();
    wrong.trim_start_matches("error: ").to_owned()
}

/// The error with every argument in it on one line, without control characters and secrets of URLs.
fn sanitized(mut error: clap::Error) -> clap::Error {
    let contexts: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| Some((kind, safe(kind, value)?)))
        .collect();
    for (kind, value) in contexts {
        error.insert(kind, value);
    }
    error
}

/// The safe form of what an error is about; `None`: it is safe as it is.
fn safe(kind: ContextKind, value: &ContextValue) -> Option<ContextValue> {
    match value {
        ContextValue::String(text) => Some(ContextValue::String(argument(text))),
        ContextValue::Strings(texts) => Some(ContextValue::Strings(
            texts.iter().map(|text| argument(text)).collect(),
        )),
        ContextValue::StyledStrs(tips) if kind == ContextKind::Suggested => {
            let tips = tips.iter().map(|tip| argument(&tip.to_string()).into());
            Some(ContextValue::StyledStrs(tips.collect()))
        }
        _ => None,
    }
}

fn argument(text: &str) -> String {
    sanitize::one_line(&sanitize::value_without_url_secrets(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cmd::Args;

    #[test]
    fn errors_repeat_arguments_without_what_drives_a_terminal_and_without_secrets_of_urls() {
        const URL: &str = "https://u:secret@h/\u{1b}[2J\nerror: \u{202e}";
        let dashed = format!("--{URL}");
        for arguments in [
            [URL, "", "", ""],
            ["task", "x", URL, ""],
            ["task", "x", "--timeout", URL],
            ["tasks", "--status", URL, ""],
            ["tasks", "--limit", URL, ""],
            ["send", "x", "y", &dashed],
            ["discover", "x", "--tag", URL],
        ] {
            let given = ["anycast"]
                .into_iter()
                .chain(arguments)
                .filter(|argument| !argument.is_empty());
            let error = Args::try_parse_from(given).unwrap_err();
            let plain = error.to_string();
            let said = sanitized(error).to_string();
            assert!(plain.contains("secret"), "{arguments:?} is repeated: {plain}");
            for removed in ["secret", "\u{1b}", "\u{202e}", "\nerror: "] {
                assert!(!said.contains(removed), "{arguments:?}: {removed:?} in {said:?}");
            }
            assert!(said.contains("https://***@h/"), "{said}");
        }
    }
}
