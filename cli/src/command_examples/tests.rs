//! Each example can be typed, and each command has some.

use clap::{CommandFactory as _, Parser as _};

use super::*;
use crate::cmd::Args;

/// What a shell makes of a line, up to a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            '|' | '>' if !quoted => break,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn each_example_can_be_typed() {
    for (path, examples) in all() {
        for (typed, does) in examples {
            assert!(Args::try_parse_from(words(typed)).is_ok(), "{typed}");
            let first = path.split(' ').next().unwrap();
            assert!(
                words(typed).iter().any(|word| word == first) && !does.is_empty(),
                "{typed}"
            );
        }
    }
}

#[test]
fn each_command_has_examples() {
    /// The other programs have help of their own.
    const OTHERS: [&str; 3] = ["daemon", "relay", "bridge"];
    fn lacking(command: &Command, path: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name()).trim().to_owned();
            if inner.has_subcommands() {
                lacking(inner, &path, found);
            } else if !OTHERS.contains(&path.as_str())
                && inner
                    .get_after_help()
                    .is_none_or(|help| !help.to_string().contains("Examples:"))
            {
                found.push(path);
            }
        }
    }
    let mut without = Vec::new();
    lacking(&added(Args::command()), "", &mut without);
    assert_eq!(without, [""; 0]);
}

#[test]
fn own_options_stand_before_those_of_all_commands() {
    let mut command = added(Args::command());
    command.build();
    let help = command
        .find_subcommand_mut("send")
        .unwrap()
        .render_help()
        .to_string();
    let place = |text: &str| {
        help.find(text)
            .unwrap_or_else(|| panic!("{text} is missing in {help}"))
    };
    let order = [
        "--timeout",
        "Options of every command:",
        "Print JSON for scripts",
        "Examples:",
        "Exit codes:",
    ]
    .map(place);
    assert!(order.is_sorted(), "{help}");
}
