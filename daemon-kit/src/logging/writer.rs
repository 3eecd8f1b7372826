//! Writes the log to standard error, or to a file, by a thread of its own, so that a standard error that is not read
//! stops this thread and nothing else.
//!
//! Each line is written whole and in order. Lines that found no room or could not be written are counted, and a line
//! of the log says how many they were as soon as the next line can be written.

use std::{
    cell::RefCell,
    io::{self, Write},
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    backlog::{Backlog, BacklogLine},
    file::RotatingFile,
};

/// How long [`finish`] waits for the lines that are left.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How soon a write is tried again where standard error is non-blocking and full.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// Lines that were dropped since the start.
static DROPPED: AtomicU64 = AtomicU64::new(0);

static LINES: Queue = Queue::new();

/// The lines go to a file.
static HAS_FILE: AtomicBool = AtomicBool::new(false);

/// The backlog between those who log and the thread.
struct Queue {
    state: Mutex<LogWriterState>,
    /// A line was added, or the last one was written.
    changed: Condvar,
}

struct LogWriterState {
    backlog: Backlog,
    has_thread: bool,
    /// The thread writes a line now.
    is_writing: bool,
}

impl Queue {
    const fn new() -> Self {
        Self {
            state: Mutex::new(LogWriterState {
                backlog: Backlog::new(),
                has_thread: false,
                is_writing: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn push(&self, line: Vec<u8>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.backlog.push(line) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the next entry.
    fn next(&self) -> BacklogLine {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_writing = false;
        loop {
            if let Some(entry) = state.backlog.pop() {
                state.is_writing = true;
                return entry;
            }
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all is written, at most so long.
    fn drained(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.has_thread && (state.is_writing || !state.backlog.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

/// Starts the thread, if there is none yet.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn start() -> io::Result<()> {
    start_with(io::stderr())
}

/// Starts the thread with a file instead of standard error. A thread that runs already goes on as before.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn start_with_file(file: RotatingFile) -> io::Result<()> {
    start_with(file)?;
    HAS_FILE.store(true, Ordering::Relaxed);
    Ok(())
}

fn start_with(out: impl Write + Send + 'static) -> io::Result<()> {
    let mut state = LINES.state.lock().unwrap_or_else(PoisonError::into_inner);
    if !state.has_thread {
        thread::Builder::new().name("log".to_owned()).spawn(|| {
            let mut sink = Sink::new(out);
            loop {
                sink.take(LINES.next());
            }
        })?;
        state.has_thread = true;
    }
    Ok(())
}

/// Writes a line that is not an event of the log, such as the error that a program ends with. It is on standard error
/// also where the log has a file: a service manager shows it.
pub fn say(line: &str) {
    let line = format!("{line}\n").into_bytes();
    if start().is_ok() {
        if HAS_FILE.load(Ordering::Relaxed) {
            repeat_on_stderr(line.clone());
        }
        LINES.push(line);
    } else {
        // There is nobody left to tell when this fails too.
        let _ = io::stderr().write_all(&line);
    }
}

/// Waits 1 s at most: a standard error that is not read holds up nothing.
fn repeat_on_stderr(line: Vec<u8>) {
    let (done, written) = mpsc::channel();
    let spawned = thread::Builder::new().spawn(move || {
        let _ = io::stderr().write_all(&line);
        let _ = done.send(());
    });
    if spawned.is_ok() {
        let _ = written.recv_timeout(LAST_LINES);
    }
}

/// Waits until the log is written, at most 1 s: a standard error that is not read does not hold up the end.
pub fn finish() {
    LINES.drained(LAST_LINES);
}

/// Lines of the log that were dropped since the start.
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

thread_local! {
    /// What the thread of the log itself logs: it goes in front of the backlog.
    static OWN: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Takes the lines of the log: each is written at once.
pub(super) struct QueuedLine;

impl Write for QueuedLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_own = OWN.with_borrow_mut(|own| own.as_mut().map(|own| own.extend_from_slice(line)).is_some());
        if !is_own {
            LINES.push(line.to_vec());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where the log goes, and what of it was not written there.
struct Sink<W> {
    out: W,
    /// Lines that were dropped and not yet spoken of.
    unsaid: u64,
    /// Of the last line only a part was written.
    is_torn: bool,
}

impl<W: Write> Sink<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            unsaid: 0,
            is_torn: false,
        }
    }

    fn take(&mut self, entry: BacklogLine) {
        match entry {
            BacklogLine::Dropped(lines) => {
                self.unsaid += lines;
                self.tell();
            }
            BacklogLine::Line(line) => {
                self.tell();
                if self.unsaid > 0 || !self.write(&line) {
                    self.unsaid += 1;
                    DROPPED.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Says how many lines were dropped.
    fn tell(&mut self) {
        if self.unsaid > 0 && self.write(&notice(self.unsaid)) {
            self.unsaid = 0;
        }
    }

    /// False: it is not written, or only in part.
    fn write(&mut self, line: &[u8]) -> bool {
        if self.is_torn {
            self.is_torn = self.write_all(b"\n") != Ok(1);
        }
        if self.is_torn {
            return false;
        }
        match self.write_all(line) {
            Ok(_) => true,
            Err(written) => {
                self.is_torn = written > 0;
                false
            }
        }
    }

    /// All bytes, or how many there were before an error.
    fn write_all(&mut self, bytes: &[u8]) -> Result<usize, usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.out.write(&bytes[written..]) {
                Ok(0) => return Err(written),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The program that reads it has made it non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(TRY_AGAIN),
                Err(_) => return Err(written),
            }
        }
        Ok(written)
    }
}

/// The line that says how many were dropped, in the format of the log; empty where there is no log.
fn notice(lines: u64) -> Vec<u8> {
    OWN.set(Some(Vec::new()));
    tracing::error!(
        lines,
        "lines of the log were dropped here: standard error was not read, or the log could not be written; \
         let a program read it, or free the disk that it goes to"
    );
    OWN.take().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::{fmt, layer::SubscriberExt as _};

    use super::*;

    /// Takes `room` bytes, then fails until it is given more.
    #[derive(Default)]
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= count;
            self.bytes.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_dropped_is_told_before_the_next_line() {
        let log = tracing_subscriber::registry().with(
            fmt::layer()
                .without_time()
                .with_target(false)
                .with_ansi(false)
                .with_writer(|| QueuedLine),
        );
        tracing::subscriber::with_default(log, || {
            let mut sink = Sink::new(Disk {
                room: 9,
                ..Disk::default()
            });
            let line = |text: &str| BacklogLine::Line(format!("{text}\n").into_bytes());
            sink.take(line("first"));
            sink.take(line("second"));
            sink.take(line("third"));
            assert_eq!(sink.out.bytes, b"first\nsec");
            sink.out.room = usize::MAX;
            sink.take(line("fourth"));
            sink.take(BacklogLine::Dropped(7));
            sink.take(line("fifth"));
            let text = String::from_utf8(sink.out.bytes).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!([lines[0], lines[1]], ["first", "sec"]);
            assert!(
                lines[2].contains("were dropped") && lines[2].ends_with("lines=2"),
                "{text}"
            );
            assert_eq!(lines[3], "fourth");
            assert!(lines[4].ends_with("lines=7"), "{text}");
            assert_eq!(lines[5..], ["fifth"]);
        });
    }

    #[test]
    fn the_wait_for_the_last_lines_ends() {
        let queue = Queue::new();
        queue.push(b"no thread takes this\n".to_vec());
        queue.state.lock().unwrap().has_thread = true;
        let began = Instant::now();
        queue.drained(Duration::from_millis(20));
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert!(matches!(queue.next(), BacklogLine::Line(_)));
        queue.state.lock().unwrap().is_writing = false;
        queue.drained(Duration::from_hours(1));
    }
}
