//! A page followed from its first block to its last, as its reader does.
//!
//! A block of shell is run line by line; what its last line prints has what the block of text behind it shows, in which `…`
//! stands for anything. Behind `sh` the page says, for the test only, what the text says to its reader: `stays` for a last
//! line that goes on in a terminal of its own, and the name of another machine. A block of a program names its file. What the
//! reader fills in, the test takes from where the reader has it: STRING from the last invite, PEER_ID from the last
//! `anycast id`, TASK_ID from the list of tasks.

use std::{collections::HashMap, net::TcpListener};

use crate::{
    doc_pages::{DocBlock, UserMachine},
    script::ScriptProcess,
};

/// A port of the loopback that nobody has.
pub(crate) fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// The machine of lines that name none.
pub(crate) const HERE: &str = "here";

pub(crate) struct DocRun {
    machines: HashMap<String, UserMachine>,
    /// Lines that go on.
    staying: Vec<ScriptProcess>,
    invite: String,
    peer_id: String,
    /// What is written otherwise than it is on the page, such as ports that all tests would share.
    replace_text: Vec<(String, String)>,
}

/// The word with which a page marks a line that goes on.
const STAYS: &str = "stays";

/// What is left of a text behind the pieces of a pattern, if it has them in this order.
fn behind<'a>(pattern: &str, text: &'a str) -> Option<&'a str> {
    let mut rest = text;
    for piece in pattern
        .split('…')
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
    {
        rest = rest.split_once(piece)?.1;
    }
    Some(rest)
}

/// A line, with one space wherever there are some.
fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether what was printed has the lines that are shown, in their order.
fn shows(shown: &str, printed: &str) -> bool {
    let mut printed = printed.lines().map(plain);
    shown
        .lines()
        .map(plain)
        .filter(|line| line != "…")
        .all(|pattern| printed.any(|line| behind(&pattern, &line).is_some()))
}

impl DocRun {
    pub(crate) fn new(machines: impl IntoIterator<Item = (&'static str, UserMachine)>) -> Self {
        Self {
            machines: machines
                .into_iter()
                .map(|(name, machine)| (name.to_owned(), machine))
                .collect(),
            staying: Vec::new(),
            invite: String::new(),
            peer_id: String::new(),
            replace_text: Vec::new(),
        }
    }

    /// Writes one thing instead of another.
    pub(crate) fn instead(mut self, of: &str, other: impl Into<String>) -> Self {
        self.replace_text.push((of.to_owned(), other.into()));
        self
    }

    pub(crate) fn machine(&self, name: &str) -> &UserMachine {
        self.machines
            .get(name)
            .unwrap_or_else(|| panic!("no machine {name}"))
    }

    fn other(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (of, other) in &self.replace_text {
            text = text.replace(of, other);
        }
        text
    }

    async fn filled(&self, line: &str, machine: &UserMachine) -> String {
        let mut line = self
            .other(line)
            .replace("STRING", &self.invite)
            .replace("PEER_ID", &self.peer_id);
        if line.contains("TASK_ID") {
            line = line.replace("TASK_ID", &machine.newest_task().await);
        }
        line
    }

    /// Follows all blocks.
    pub(crate) async fn run_blocks(&mut self, blocks: &[DocBlock]) {
        for (at, block) in blocks.iter().enumerate() {
            match block.language.as_str() {
                "sh" => {
                    let shown = blocks.get(at + 1).filter(|next| next.language == "text");
                    let shown = shown.map(|block| self.other(&block.text));
                    self.paste(block, shown.as_deref()).await;
                }
                "text" => assert!(at > 0 && blocks[at - 1].language == "sh", "shown by nothing"),
                // What belongs into a file; others are to be looked at.
                _ => {
                    if let [file] = &block.words[..] {
                        for machine in self.machines.values() {
                            machine.write(file, &block.text);
                        }
                    }
                }
            }
        }
    }

    async fn paste(&mut self, block: &DocBlock, shown: Option<&str>) {
        let stays = block.words.iter().any(|word| word == STAYS);
        let name = block.words.iter().find(|word| *word != STAYS);
        let name = name.map_or(HERE, String::as_str).to_owned();
        let mut commands = block.commands();
        let last = if stays { commands.pop() } else { None };
        let mut said = String::new();
        for command in commands {
            let machine = self.machine(&name);
            said = machine.run(&self.filled(command, machine).await).await;
            if command.starts_with("anycast invite") {
                said.trim().clone_into(&mut self.invite);
            }
            if command == "anycast id" {
                self.peer_id = self.machine(&name).peer_id().await;
            }
        }
        if let Some(command) = last {
            let machine = self.machine(&name);
            let mut script = machine.start(&self.filled(command, machine).await);
            match shown {
                Some(shown) => {
                    for pattern in shown.lines().map(plain).filter(|line| line != "…") {
                        while behind(&pattern, &plain(&script.line().await)).is_none() {}
                    }
                }
                None => machine.has_an_agent().await,
            }
            self.staying.push(script);
        } else if let Some(shown) = shown {
            assert!(
                shows(shown, &said),
                "{}\nprints\n{said}\nwhere the page shows\n{shown}",
                block.text
            );
        }
    }
}

#[test]
fn what_is_shown_is_looked_for() {
    let printed = "a   b\nc 12D3KooWx d\ne\n";
    for shown in ["a b", "c 12D3…", "a b\n…\ne", "c … d\ne"] {
        assert!(shows(shown, printed), "{shown}");
    }
    for shown in ["z", "e\na b", "c … e", "d … c"] {
        assert!(!shows(shown, printed), "{shown}");
    }
}
