//! The command on a pseudo-terminal, by util-linux's `script`, as a person has it before them.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use unicode_width::UnicodeWidthChar as _;

use super::colours;

/// How long a test waits for what it wants to see.
const LIMIT: Duration = Duration::from_mins(1);

/// The columns of a terminal, unless a test says otherwise.
const COLUMNS: usize = 100;

pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Runs `anycast` with the home of the test.
    pub(crate) fn run(home: &Path, arguments: &[&str]) -> Self {
        Self::sized(home, COLUMNS, &[("TERM", "xterm")], arguments)
    }

    /// As [`Terminal::run`], on a terminal with so many columns, with these variables.
    pub(crate) fn sized(
        home: &Path,
        columns: usize,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let quoted: Vec<String> = arguments.iter().map(|argument| format!("'{argument}'")).collect();
        let command = format!(
            "{} --home '{}' {}",
            env!("CARGO_BIN_EXE_anycast"),
            home.join("home").display(),
            quoted.join(" ")
        );
        Self::shell(home, columns, environment, &format!("exec {command}"))
    }

    /// As [`Terminal::run`]; when the command has ended, the terminal's modes are shown. The file has its
    /// process id.
    pub(crate) fn with_modes(home: &Path, pid: &Path, arguments: &[&str]) -> Self {
        let command = format!(
            "{} --home '{}' {}",
            env!("CARGO_BIN_EXE_anycast"),
            home.join("home").display(),
            arguments.join(" ")
        );
        let script = format!(
            "trap : QUIT; sh -c 'echo $$ >{}; exec {}'; echo it ended with $?; stty -a",
            pid.display(),
            command.replace('\'', "")
        );
        Self::shell(home, COLUMNS, &[("TERM", "xterm")], &script)
    }

    /// As [`Terminal::run`], in a shell with jobs: each time when the command is stopped, the terminal's modes are shown and
    /// it goes on, so many times; in the end too.
    pub(crate) fn with_jobs(home: &Path, stops: usize, arguments: &[&str]) -> Self {
        let stopped = "echo stopped with $?; stty -a; echo it goes on; fg; ".repeat(stops);
        let script = format!(
            "set -m; {} --home '{}' {}; {stopped}echo it ended with $?; stty -a",
            env!("CARGO_BIN_EXE_anycast"),
            home.join("home").display(),
            arguments.join(" ")
        );
        Self::shell(home, COLUMNS, &[("TERM", "xterm")], &script)
    }

    /// Runs a line of a shell.
    fn shell(home: &Path, columns: usize, environment: &[(&str, &str)], command: &str) -> Self {
        let command = format!("stty rows 24 cols {columns}; {command}");
        let mut child = Command::new("script")
            .args([
                "--quiet",
                "--return",
                "--flush",
                "--command",
                &command,
                "/dev/null",
            ])
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .env("SHELL", "/bin/sh")
            .env("HOME", home)
            .env("AGENTANYCAST_ENABLE_MDNS", "false")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of util-linux, is installed");
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let seen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut some) {
                shown
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&some[..read]));
            }
        });
        Self { child, keys, seen }
    }

    /// All that was shown so far.
    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until this was shown.
    pub(crate) fn shows(&self, text: &str) {
        self.shows_since(0, text);
    }

    /// Waits until this was shown behind so many bytes of what was.
    pub(crate) fn shows_since(&self, from: usize, text: &str) {
        let start = Instant::now();
        while !self.seen()[from..].contains(text) {
            assert!(start.elapsed() < LIMIT, "{text:?} is not shown:\n{}", self.seen());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the prompt of a chat behind what was shown.
    pub(crate) fn prompts_behind(&self, text: &str) {
        let from = self.seen().rfind(text).expect("it was shown");
        self.shows_since(from, "> ");
    }

    /// Types this, and waits until that is shown.
    pub(crate) fn types_until(&mut self, keys: &str, text: &str) {
        let from = self.seen().len();
        self.types(keys);
        self.shows_since(from, text);
    }

    /// Types.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for its end: all that was shown, in colours that can be read, and the exit code.
    pub(crate) fn ended(mut self) -> (String, Option<i32>) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < LIMIT, "it still runs:\n{}", self.seen());
            std::thread::sleep(Duration::from_millis(50));
        };
        // What it said last is read by the thread.
        std::thread::sleep(Duration::from_millis(200));
        let shown = self.seen();
        colours::check(&shown);
        (shown, status.code())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that a terminal of that many columns has in the end, if all this was shown on it.
pub(crate) fn screen(shown: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut rest = shown.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\t' => column = (column / 8 + 1) * 8,
            '\u{8}' => column = column.saturating_sub(1),
            '\u{1b}' => {
                let mut sequence = String::new();
                for c in rest.by_ref() {
                    sequence.push(c);
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
                let number = |text: &str| text.parse::<usize>().unwrap_or(1);
                match sequence
                    .strip_prefix('[')
                    .and_then(|rest| rest.split_at_checked(rest.len() - 1))
                {
                    Some(("" | "0", "K")) => rows[row].truncate(column),
                    Some(("2", "K")) => rows[row].clear(),
                    Some(("" | "0", "J")) => {
                        rows[row].truncate(column);
                        rows.truncate(row + 1);
                    }
                    Some((by, "A")) => row = row.saturating_sub(number(by)),
                    Some((by, "C")) => column = (column + number(by)).min(columns - 1),
                    Some((by, "D")) => column = column.saturating_sub(number(by)),
                    _ => {}
                }
            }
            c => {
                let width = c.width().unwrap_or(0);
                if column + width > columns {
                    (row, column) = (row + 1, 0);
                }
                rows.resize(rows.len().max(row + 1), Vec::new());
                let there = rows[row].len().max(column + width);
                rows[row].resize(there, ' ');
                rows[row][column] = c;
                column += width;
            }
        }
        rows.resize(rows.len().max(row + 1), Vec::new());
    }
    let rows = rows.into_iter().map(|row| row.into_iter().collect::<String>());
    rows.map(|row| row.trim_end().to_owned()).collect()
}
