//! The options of a run, from the arguments behind `--`. The one rule: no option changes what is measured,
//! only how much of it and how often.

use std::{path::PathBuf, time::Duration};

use agentanycast_tests::daemon;

use crate::{case::BenchCase, stale_binary};

const HELP: &str = "\
Measures the task road against the bare road and the bare barrier.

  --cells PATTERNS   only cells with these parts in their names, such as tcp, 256B/1, quic/64KiB/16, stream;
                     several patterns with commas
  --rounds N         slices of each kind per cell (5)
  --slice MS         length of a slice (ours; the bare ones take half of it) (1500)
  --stream-mib N     size of the streamed artifact (1024)
  --stream-rounds N  how often it is streamed (3)
  --quick            3 rounds of 150 ms, 256 MiB once
  --daemon PATH      the daemon's program (target/release/names/agentanycastd)
  --json PATH        also write the figures there
  --check            exit code 1 when a target is missed
  --list             show the cells

The stores and the barrier's database are in TMPDIR; in a tmpfs there, the disk is left out of the figures.
";

/// A run.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) cells: Vec<BenchCase>,
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
    pub(crate) stream_mib: usize,
    pub(crate) stream_rounds: usize,
    pub(crate) daemon: PathBuf,
    pub(crate) json: Option<PathBuf>,
    /// Whether missed targets count.
    pub(crate) check: bool,
}

impl Options {
    /// `None` if there is nothing to run.
    pub(crate) fn from_process() -> Option<Self> {
        if cfg!(debug_assertions) {
            eprintln!("task_road measures the release profile only: run it by `cargo bench`");
            std::process::exit(2);
        }
        let parsed = Self::parse(std::env::args().skip(1));
        parsed.unwrap_or_else(|error| {
            eprintln!("{error}\n\n{HELP}");
            std::process::exit(2)
        })
    }

    fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self {
            cells: BenchCase::all(),
            rounds: 5,
            slice: Duration::from_millis(1500),
            stream_mib: 1024,
            stream_rounds: 3,
            daemon: PathBuf::new(),
            json: None,
            check: false,
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                // What `cargo bench` passes to every benchmark.
                "--bench" => {}
                "--cells" => options.choose(&value()?)?,
                "--rounds" => options.rounds = number(&value()?)?,
                "--slice" => options.slice = Duration::from_millis(number(&value()?)? as u64),
                "--stream-mib" => options.stream_mib = number(&value()?)?,
                "--stream-rounds" => options.stream_rounds = number(&value()?)?,
                "--quick" => {
                    (options.rounds, options.slice) = (3, Duration::from_millis(150));
                    (options.stream_rounds, options.stream_mib) = (1, 256);
                }
                "--daemon" => options.daemon = value()?.into(),
                "--json" => options.json = Some(value()?.into()),
                "--check" => options.check = true,
                "--list" => {
                    options.cells.iter().for_each(|cell| println!("{cell}"));
                    return Ok(None);
                }
                "--help" => {
                    println!("{HELP}");
                    return Ok(None);
                }
                _ => return Err(format!("{arg}: no such option")),
            }
        }
        if options.daemon.as_os_str().is_empty() {
            options.daemon = daemon::program();
            stale_binary::warn(&options.daemon);
        }
        Ok(Some(options))
    }

    fn choose(&mut self, patterns: &str) -> Result<(), String> {
        let named = |cell: &BenchCase| patterns.split(',').any(|pattern| cell.is_named_by(pattern));
        self.cells = BenchCase::all().into_iter().filter(named).collect();
        if self.cells.is_empty() {
            return Err(format!("no cell is named by {patterns}; see --list"));
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text}: not a positive number"))
}
