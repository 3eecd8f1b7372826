//! The audit log: a line for each decision, written by a thread of its own.
//!
//! The engine hands a line over when it decides, and goes on; what comes together is written together. By default
//! nobody waits: a crash of the process can lose the lines of its last moments. With `sync` the answers to a turn wait
//! until its lines are on the disk, beside the store's barrier and not after it.
//!
//! Room for more lines is reserved ahead. When none can be had the log counts as one that cannot be written, while there is
//! still room for the lines of what was decided until that is known.
//!
//! When the log cannot be written, what waits is kept, some 20 000 lines, and tried again until it can; lines
//! beyond that are counted, and a line says how many there were. The file always ends with a whole line. What could be neither
//! synced nor taken back, of a disk that fails both, is synced again, and not written a second time.

mod log_file;
pub mod log_line;
pub mod search;
pub mod verify;

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::watch;

use self::{
    log_file::LogFile,
    log_line::{AuditEntry, HashChain},
};

/// Lines that wait to be written, some half a KiB each.
const MAX_WAITING: usize = 16_384;

/// Lines that wait when the log counts as stuck: new tasks are refused from then on, and the lines of these refusals
/// still have room.
const STUCK_LINES: u64 = MAX_WAITING as u64 / 2;

/// Bytes that are written at once, about: they leave as much of the room that is reserved when no more can be had.
const MAX_WRITE: usize = log_file::RESERVE as usize / 4;

/// How long until what could not be written is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// How the log is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file. It is made, with mode 0600, if it is not there.
    pub path: PathBuf,
    /// Whether each line has the hash of the one before.
    pub chain: bool,
    /// Whether answers wait until lines are on the disk.
    pub sync: bool,
}

/// How the log is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditState {
    /// Lines that are on the disk; only counted with `sync`. Those that cannot be written count too, so that nothing
    /// that runs waits for them.
    pub passed: u64,
    /// Why the log cannot be written.
    pub problem: Option<String>,
    /// Why it goes on in the file that was open, though it was asked to open it again.
    pub unopened: Option<String>,
    /// What somebody else has removed at its end. It is told until the file is opened again.
    pub cut: Option<String>,
}

impl AuditState {
    /// What is wrong with the log, whether it can be written or not.
    pub fn any_problem(&self) -> Option<&str> {
        let else_wrong = self.unopened.as_deref().or(self.cut.as_deref());
        self.problem.as_deref().or(else_wrong)
    }
}

/// The log, for the engine. Dropping it writes what waits, if that can be written.
#[derive(Debug)]
pub struct Audit {
    lines: Option<SyncSender<WriterCommand>>,
    shared: Arc<AuditShared>,
    state: watch::Receiver<AuditState>,
    sync: bool,
    submitted: u64,
    thread: Option<JoinHandle<()>>,
}

/// Tells the log that its file was moved away.
#[derive(Clone, Debug)]
pub struct ReopenHandle {
    shared: Arc<AuditShared>,
    lines: SyncSender<WriterCommand>,
}

#[derive(Debug, Default)]
struct AuditShared {
    /// Lines that are no longer in the channel.
    taken: AtomicU64,
    /// Decisions that could not even wait, and of which no line tells yet.
    lost: AtomicU64,
    reopen: AtomicBool,
    closing: AtomicBool,
}

#[derive(Debug)]
enum WriterCommand {
    Line(Box<AuditEntry>),
    /// Look at what is asked besides.
    Wake,
}

impl Audit {
    /// Opens the log and starts its thread.
    ///
    /// # Errors
    /// When the file cannot be opened, or the thread not be started.
    pub fn start(settings: &AuditSettings) -> io::Result<Self> {
        let (mut audit, writer) = Self::open(settings)?;
        audit.spawn(writer)?;
        Ok(audit)
    }

    /// Opens the log; nobody writes it yet.
    fn open(settings: &AuditSettings) -> io::Result<(Self, AuditWriter)> {
        let (mut file, chain) = LogFile::open(&settings.path, settings.chain)?;
        let (lines, orders) = sync_channel(MAX_WAITING);
        let mut begin = AuditState::default();
        // Before anything is decided.
        if let Err(error) = file.reserve(0) {
            say_once(&mut begin.problem, unwritable(&file, &no_room(&error)));
        }
        let (tell, state) = watch::channel(begin);
        let shared = Arc::new(AuditShared::default());
        let writer = AuditWriter {
            file,
            chain,
            sync: settings.sync,
            orders,
            shared: Arc::clone(&shared),
            tell,
            buffer: Vec::new(),
            in_buffer: 0,
            is_to_reopen: false,
        };
        let audit = Self {
            lines: Some(lines),
            shared,
            state,
            sync: settings.sync,
            submitted: 0,
            thread: None,
        };
        Ok((audit, writer))
    }

    fn spawn(&mut self, writer: AuditWriter) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("audit".into());
        self.thread = Some(thread.spawn(move || writer.run())?);
        Ok(())
    }

    /// Hands a line over.
    pub fn submit(&mut self, entry: AuditEntry) {
        let Some(lines) = &self.lines else { return };
        if lines.try_send(WriterCommand::Line(Box::new(entry))).is_ok() {
            self.submitted += 1;
        } else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What a turn has to wait for that begins now; see [`Audit::passed`].
    pub fn awaited(&self) -> u64 {
        if self.sync { self.submitted } else { 0 }
    }

    /// Whether what was awaited is on the disk, or cannot get there.
    pub fn passed(&self, awaited: u64) -> bool {
        awaited <= self.state.borrow().passed || self.is_gone()
    }

    /// Whether its thread has ended, which only a panic does.
    fn is_gone(&self) -> bool {
        self.state.has_changed().is_err()
    }

    /// Why no line can be written now.
    pub fn problem(&self) -> Option<String> {
        let waiting = self.submitted - self.shared.taken.load(Ordering::Relaxed).min(self.submitted);
        if waiting > STUCK_LINES {
            return Some(format!("{waiting} lines wait to be written"));
        }
        if self.is_gone() {
            return Some("its thread has ended".to_owned());
        }
        self.state.borrow().problem.clone()
    }

    /// How the log is doing, from now on.
    pub fn state(&self) -> watch::Receiver<AuditState> {
        self.state.clone()
    }

    /// What reopens it.
    pub fn reopener(&self) -> Option<ReopenHandle> {
        let lines = self.lines.clone()?;
        let shared = Arc::clone(&self.shared);
        Some(ReopenHandle { shared, lines })
    }
}

impl ReopenHandle {
    /// Closes the file and opens what is at its path now, or makes a new one there.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        // If there is no room, there are lines, which wake it as well.
        let _ = self.lines.try_send(WriterCommand::Wake);
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        if let Some(lines) = self.lines.take() {
            let _ = lines.try_send(WriterCommand::Wake);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct AuditWriter {
    file: LogFile,
    chain: HashChain,
    sync: bool,
    orders: Receiver<WriterCommand>,
    shared: Arc<AuditShared>,
    tell: watch::Sender<AuditState>,
    /// Whole lines that are not written yet.
    buffer: Vec<u8>,
    /// How many there are.
    in_buffer: u64,
    /// What is at the path could not be opened: it is tried again.
    is_to_reopen: bool,
}

impl AuditWriter {
    fn run(mut self) {
        loop {
            let closing = self.wait();
            let is_all = self.gather();
            self.turn();
            let failed = !self.buffer.is_empty();
            if closing && (is_all || failed) {
                if failed {
                    let path = self.file.path().display();
                    let lines = self.unwritten();
                    tracing::error!(%path, lines, "the audit log could not be written; its last lines are lost");
                }
                return;
            }
        }
    }

    /// Opens the file anew if that is asked for, and writes what was gathered.
    fn turn(&mut self) {
        // Before it is opened again: after that it is a whole one.
        self.look_for_cut();
        let is_asked = self.shared.reopen.swap(false, Ordering::AcqRel) || self.is_to_reopen;
        let is_deleted = (is_asked || !self.buffer.is_empty()) && self.file.is_deleted();
        if !(is_asked || is_deleted) || self.reopen(is_deleted) {
            self.write();
        }
    }

    /// How many decisions are in lines that wait, and in none.
    fn unwritten(&self) -> u64 {
        let in_channel = self
            .orders
            .try_iter()
            .filter(|order| matches!(order, WriterCommand::Line(_)));
        log_line::decisions(&self.buffer)
            + in_channel.count() as u64
            + self.shared.lost.load(Ordering::Relaxed)
    }

    /// Waits for something to do; true when this is the last.
    fn wait(&mut self) -> bool {
        // Reopeners keep the channel open, so its closing is a flag.
        let closing = self.shared.closing.load(Ordering::Acquire);
        if closing {
            return true;
        }
        if !self.buffer.is_empty() {
            std::thread::sleep(TRY_AGAIN);
        } else if self.is_to_reopen || self.is_in_trouble() {
            if let Ok(order) = self.orders.recv_timeout(TRY_AGAIN) {
                self.take(&order);
            }
        } else if let Ok(order) = self.orders.recv() {
            self.take(&order);
        }
        self.shared.closing.load(Ordering::Acquire)
    }

    /// What has come meanwhile is written together; true when that is all.
    fn gather(&mut self) -> bool {
        while self.buffer.len() < MAX_WRITE {
            let Ok(order) = self.orders.try_recv() else {
                self.tell_lost();
                return true;
            };
            self.take(&order);
        }
        false
    }

    fn take(&mut self, order: &WriterCommand) {
        let WriterCommand::Line(entry) = order else { return };
        self.chain.write(entry, &mut self.buffer);
        self.in_buffer += 1;
        self.shared.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Behind all that found room a line says how many decisions did not. It is none itself: nobody waits for it.
    fn tell_lost(&mut self) {
        let count = self.shared.lost.swap(0, Ordering::Relaxed);
        if count > 0 {
            self.chain.write_lost(now(), count, &mut self.buffer);
        }
    }

    /// Opens what is at the path; whether there is a file to write to.
    fn reopen(&mut self, is_deleted: bool) -> bool {
        match self.file.reopen() {
            Ok(()) => {
                self.reopened(is_deleted);
                true
            }
            Err(error) => {
                self.unopened(&error, is_deleted);
                !is_deleted
            }
        }
    }

    fn reopened(&mut self, was_deleted: bool) {
        let path = self.file.path().display();
        if was_deleted {
            tracing::warn!(%path, "the audit log was deleted; it goes on in a new file");
        } else {
            tracing::info!(%path, "the audit log was reopened");
        }
        self.is_to_reopen = false;
        self.tell
            .send_if_modified(|state| state.unopened.take().is_some() | state.cut.take().is_some());
        // What waits carries the chain on; else nobody else could.
        if self.buffer.is_empty() && self.chain.is_begun() && self.file.is_empty() {
            self.chain.write_continued(now(), &mut self.buffer);
        }
    }

    fn unopened(&mut self, error: &io::Error, is_deleted: bool) {
        self.is_to_reopen = true;
        if is_deleted {
            self.trouble(&format!("it was deleted, and no other can be opened: {error}"));
            return;
        }
        let path = self.file.path().display();
        let said = format!(
            "the audit log {path} cannot be opened again: {error}; it goes on in the file that was open"
        );
        self.tell
            .send_if_modified(|state| say_once(&mut state.unopened, said));
    }

    /// Writes what waits. In trouble also when nothing does: what was written may still have to be synced.
    fn write(&mut self) {
        let room = self.file.reserve(self.buffer.len());
        let room = room.map_err(|error| no_room(&error));
        if let Err(why) = &room {
            // At once: what is written now may take a while.
            self.complain(why, 0);
        }
        let (written, done) = self.file.append(&self.buffer);
        if let Err(error) = done {
            self.buffer.drain(..written);
            self.trouble(&room.err().unwrap_or_else(|| error.to_string()));
            return;
        }
        let done = if self.sync && (written > 0 || self.is_in_trouble()) {
            self.file.sync()
        } else {
            Ok(())
        };
        self.synced(written, done, room);
    }

    /// Somebody may have made the file shorter, as logrotate's copytruncate does.
    fn look_for_cut(&mut self) {
        let Some(bytes) = self.file.missing() else { return };
        let said = format!(
            "the audit log {} was cut from outside: {bytes} bytes are missing; to rotate it, rename it and send SIGHUP",
            self.file.path().display()
        );
        self.tell.send_if_modified(|state| say_once(&mut state.cut, said));
    }

    /// What was written is on the disk, or waits again. `room`: why there is none for more.
    fn synced(&mut self, written: usize, done: io::Result<()>, room: Result<(), String>) {
        // The system tells once that it could not write, and gives up what that was: it is written anew. At the end what is there
        // is better than nothing.
        let is_last = self.shared.closing.load(Ordering::Acquire);
        if done.is_ok() || is_last || !self.file.take_back(written) {
            self.buffer.drain(..written);
        }
        match room.and(done.map_err(|error| error.to_string())) {
            Ok(()) => self.well(),
            Err(why) => self.trouble(&why),
        }
    }

    fn well(&mut self) {
        let lines = std::mem::take(&mut self.in_buffer);
        let sync = self.sync;
        self.tell.send_if_modified(|state| {
            let was_trouble = state.problem.take().is_some();
            if was_trouble {
                tracing::warn!("the audit log can be written again");
            }
            state.passed += lines;
            was_trouble || (sync && lines > 0)
        });
    }

    fn is_in_trouble(&self) -> bool {
        self.tell.borrow().problem.is_some()
    }

    fn trouble(&mut self, why: &str) {
        // What waits is waited for no longer; it is written all the same, when that is possible.
        let lines = std::mem::take(&mut self.in_buffer);
        self.complain(why, lines);
    }

    /// Tells what is wrong, and that so many lines more are waited for no longer.
    fn complain(&self, why: &str, lines: u64) {
        let said = unwritable(&self.file, why);
        self.tell.send_if_modified(|state| {
            state.passed += lines;
            say_once(&mut state.problem, said) || lines > 0
        });
    }
}

fn unwritable(file: &LogFile, why: &str) -> String {
    format!("the audit log {} cannot be written: {why}", file.path().display())
}

fn no_room(error: &io::Error) -> String {
    format!("no room for more lines: {error}")
}

/// Logs what is wrong, and keeps it, unless that was said before.
fn say_once(known: &mut Option<String>, said: String) -> bool {
    let is_new = known.as_ref() != Some(&said);
    if is_new {
        tracing::error!("{said}");
        *known = Some(said);
    }
    is_new
}

fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;
