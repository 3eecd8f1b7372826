//! Two examples of each command, behind its help.

mod access;

use clap::Command;

use crate::parts::{self, CommandExamples};

/// Those of all commands but of [`access`].
const EXAMPLES: &[CommandExamples] = &[
    (
        "ps",
        [
            (
                "anycast ps",
                "which programs serve the agents here, and which of them failed",
            ),
            ("anycast --json ps", "with the reason of each failure, as JSON"),
        ],
    ),
    (
        "skills",
        [
            ("anycast skills", "what known agents can do"),
            ("anycast skills --local", "without asking registries"),
        ],
    ),
    (
        "alias add",
        [
            (
                "anycast alias add bob 12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK",
                "call this peer bob",
            ),
            (
                "anycast alias add bob alice --force",
                "bob is the one who is alice",
            ),
        ],
    ),
    (
        "alias ls",
        [
            ("anycast alias ls", "the names that were given"),
            ("anycast alias ls --full", "with whole ids"),
        ],
    ),
    (
        "alias rm",
        [
            ("anycast alias rm bob", "forget a name"),
            ("anycast alias rm bob alice", "forget two"),
        ],
    ),
    (
        "up",
        [
            ("anycast up", "start the daemon of the default home, which stays"),
            (
                "anycast up --relay /dns4/relay.example/tcp/4001/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK",
                "with a relay, so that it is reached behind a NAT",
            ),
        ],
    ),
    (
        "down",
        [
            ("anycast down", "stop the daemon of the default home"),
            ("anycast down --home /srv/agent", "of another home"),
        ],
    ),
    (
        "restart",
        [
            ("anycast restart", "take over changed settings"),
            ("anycast restart --home /srv/agent", "of another home"),
        ],
    ),
    (
        "logs",
        [
            ("anycast logs", "the last 100 lines"),
            ("anycast logs --follow -n 20", "20 lines, and what comes"),
        ],
    ),
    (
        "config get",
        [
            ("anycast config get log_level", "what it is set to"),
            ("anycast config get policy.trust --json", "and by what"),
        ],
    ),
    (
        "config set",
        [
            (
                "anycast config set log_level debug",
                "log more, from the next start on",
            ),
            (
                "anycast config set bootstrap_peers /dns4/relay.example/tcp/4001",
                "a list, of which this is all",
            ),
        ],
    ),
    (
        "config schema",
        [
            (
                "anycast config schema > config.schema.json",
                "for an editor that checks TOML by a schema",
            ),
            (
                "anycast config schema --json | jq '.properties | keys'",
                "on one line; what there is to set",
            ),
        ],
    ),
    (
        "config unset",
        [
            ("anycast config unset log_level", "back to the default"),
            ("anycast config unset bootstrap_peers", "no relay any more"),
        ],
    ),
    (
        "service install",
        [
            ("anycast service install", "start the daemon at login"),
            (
                "anycast service install --home /srv/agent",
                "that of another home",
            ),
        ],
    ),
    (
        "service uninstall",
        [
            ("anycast service uninstall", "not any more"),
            (
                "anycast service uninstall --home /srv/agent",
                "that of another home",
            ),
        ],
    ),
    (
        "service status",
        [
            ("anycast service status", "is it there, and does it run?"),
            ("anycast service status --json", "the same for a script"),
        ],
    ),
    (
        "demo",
        [
            (
                "anycast demo --pair",
                "show a task between two daemons on this machine",
            ),
            ("anycast demo --name echo", "answer whoever sends a task here"),
        ],
    ),
    (
        "send",
        [
            (
                "anycast send bob \"What is in this file?\" @report.pdf",
                "a text and a file, to a peer",
            ),
            (
                "anycast send --skill translate \"Good morning\" --timeout 30s",
                "to any agent that has the skill",
            ),
        ],
    ),
    (
        "reply",
        [
            ("anycast reply 3f2a9c51 \"the blue one\"", "answer a question"),
            (
                "anycast reply 3f2a9c51 @photo.png --no-wait",
                "answer with a file, and do not wait",
            ),
        ],
    ),
    (
        "retry",
        [
            ("anycast retry 3f2a9c51", "send the same again, and wait"),
            (
                "anycast retry 3f2a9c51 --no-wait",
                "print the new task's id and end",
            ),
        ],
    ),
    (
        "chat",
        [
            ("anycast chat bob", "talk with a peer's agent"),
            (
                "anycast chat --skill translate --output files",
                "with whoever has the skill; files go into a directory",
            ),
        ],
    ),
    (
        "status",
        [
            ("anycast status", "who this node is, and how it is connected"),
            (
                "anycast status --json",
                "the same for a script; it fails if the store has failed",
            ),
        ],
    ),
    (
        "peers",
        [
            ("anycast peers", "who is connected, and how"),
            ("anycast peers --json", "the same for a script"),
        ],
    ),
    (
        "ping",
        [
            ("anycast ping bob", "five pings"),
            (
                "anycast ping bob --count 0 --interval 200ms",
                "until Ctrl-C, five a second",
            ),
        ],
    ),
    (
        "discover",
        [
            ("anycast discover translate", "who has the skill"),
            (
                "anycast discover translate --tag lang=de --limit 5",
                "five of those who have the tag too",
            ),
        ],
    ),
    (
        "relays",
        [
            ("anycast relays", "slots at relays, and the way to each peer"),
            ("anycast relays --json", "the same for a script"),
        ],
    ),
    (
        "card",
        [
            ("anycast card", "what this node's agent says of itself"),
            ("anycast card bob/translator", "what one of a peer's agents does"),
        ],
    ),
    (
        "tasks",
        [
            ("anycast tasks --status working", "those that are worked on"),
            ("anycast tasks --watch", "all, and each again when it changes"),
        ],
    ),
    (
        "task",
        [
            ("anycast task 3f2a9c51", "what was said and what came out"),
            (
                "anycast task 3f2a9c51 --wait --output files",
                "wait for its end, and save its files",
            ),
        ],
    ),
    (
        "trace",
        [
            (
                "anycast trace 3f2a9c51",
                "why the task is where it is, and what to do",
            ),
            ("anycast trace 3f2a9c51 --json", "all that is known of it"),
        ],
    ),
    (
        "top",
        [
            ("anycast top", "what the daemon does, each second"),
            ("anycast top --once --json", "once, for a script"),
        ],
    ),
    (
        "cancel",
        [
            ("anycast cancel 3f2a9c51", "end it here and at the agent"),
            ("anycast cancel 3f2a9c51 --json", "the same for a script"),
        ],
    ),
    (
        "id",
        [
            ("anycast id", "what others call this node"),
            (
                "anycast id --home /srv/agent",
                "of another home, by its key if no daemon runs",
            ),
        ],
    ),
    (
        "doctor",
        [
            ("anycast doctor", "what is wrong, and what to do about it"),
            (
                "anycast doctor --json",
                "the same for a health check; exit code 1 if something is",
            ),
        ],
    ),
    (
        "bugreport",
        [
            ("anycast bugreport", "an archive in this directory"),
            (
                "anycast bugreport --output /tmp/report.tar.gz",
                "an archive there",
            ),
        ],
    ),
    (
        "completions",
        [
            (
                "anycast completions bash > ~/.local/share/bash-completion/completions/anycast",
                "for bash",
            ),
            (
                "anycast completions fish > ~/.config/fish/completions/anycast.fish",
                "for fish",
            ),
        ],
    ),
    (
        "man",
        [
            ("anycast man send | man -l -", "read the page of a command"),
            (
                "anycast man --output ~/.local/share/man/man1",
                "write the pages of all commands and programs",
            ),
        ],
    ),
    (
        "policy check",
        [
            (
                "anycast policy check --source 12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK",
                "may this peer send tasks here?",
            ),
            (
                "anycast policy check --source http:alice --skill translate",
                "may this caller of the bridge use the skill?",
            ),
        ],
    ),
    (
        "policy show",
        [
            ("anycast policy show", "the rules of the default home's daemon"),
            (
                "anycast policy show --config /etc/agentanycast/config.toml",
                "those in this file",
            ),
        ],
    ),
    (
        "audit verify",
        [
            (
                "anycast audit verify audit.jsonl",
                "was a line changed, removed or added?",
            ),
            (
                "anycast audit verify audit.jsonl.1 audit.jsonl --chained",
                "of a log that was rotated; all lines have to be chained",
            ),
        ],
    ),
    (
        "key rotate",
        [
            ("anycast key rotate", "a new key for the default home"),
            ("anycast key rotate --key /srv/agent/key", "for this key file"),
        ],
    ),
    (
        "credential issue",
        [
            (
                "anycast credential issue --subject did:web:agent.example --capability translate",
                "say that this agent can translate",
            ),
            (
                "anycast credential issue --subject did:web:agent.example --days 7 --key issuer.key",
                "for a week, with this key",
            ),
        ],
    ),
    (
        "credential verify",
        [
            ("anycast credential verify credential.json", "does it count?"),
            (
                "anycast credential verify - --issuer did:web:issuer.example",
                "from standard input, and of this issuer",
            ),
        ],
    ),
    (
        "credential status-list",
        [
            (
                "anycast credential status-list --url https://issuer.example/list --revoke 7",
                "take entry 7 back",
            ),
            (
                "anycast credential status-list --url https://issuer.example/list --days 1",
                "an empty list for a day",
            ),
        ],
    ),
    (
        "seal",
        [
            (
                "anycast seal --for did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK letter.txt > box",
                "for this peer alone",
            ),
            (
                "anycast seal --for did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK - > box",
                "from standard input",
            ),
        ],
    ),
    (
        "unseal",
        [
            (
                "anycast unseal --from did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK box",
                "of this peer",
            ),
            (
                "anycast unseal --from did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK --key old.key box",
                "with the key of before",
            ),
        ],
    ),
];

/// The examples of all commands.
fn all() -> impl Iterator<Item = &'static CommandExamples> {
    let brought = parts::commands().iter().flat_map(|command| command.action);
    let brought = brought.flat_map(|action| action.examples);
    EXAMPLES.iter().chain(access::EXAMPLES).chain(brought)
}

/// The command with examples behind the help of each of its commands.
pub(crate) fn added(command: Command) -> Command {
    all().fold(command, |command, (path, examples)| {
        let path: Vec<&str> = path.split(' ').collect();
        at(command, &path, &text(examples))
    })
}

/// Adds the text to the command at the path, if there is one.
fn at(command: Command, path: &[&str], text: &str) -> Command {
    let Some((name, rest)) = path.split_first() else {
        let after = match command.get_after_help() {
            Some(other) => format!("{text}\n\n{other}"),
            None => text.to_owned(),
        };
        return command.after_help(after);
    };
    if command.find_subcommand(name).is_none() {
        return command;
    }
    command.mut_subcommand(*name, |inner| at(inner, rest, text))
}

fn text(examples: &[(&str, &str)]) -> String {
    let lines = examples
        .iter()
        .map(|(typed, does)| format!("  {typed}\n      {does}"));
    format!("Examples:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests;
