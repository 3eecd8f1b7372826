//! Each example of the help can be typed, and each command has some.

use clap::Command;

/// All commands.
fn command() -> Command {
    agentanycast_cli::command(&anycast::PARTS)
}

/// The examples in the help of a command and of those below it: what is typed, and what that does.
fn examples(command: &Command, found: &mut Vec<(String, String)>) {
    let help = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut lines = help.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("anycast ") {
            found.push((line.to_owned(), lines.next().unwrap_or_default().to_owned()));
        }
    }
    command.get_subcommands().for_each(|inner| examples(inner, found));
}

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
    let mut found = Vec::new();
    examples(&command(), &mut found);
    assert!(found.len() > 80, "only {} were found", found.len());
    for (typed, does) in found {
        assert!(command().try_get_matches_from(words(&typed)).is_ok(), "{typed}");
        assert!(!does.is_empty(), "{typed}");
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
    lacking(&command(), "", &mut without);
    assert_eq!(without, [""; 0]);
}
