//! The Unix socket and its file: private from its first moment, never placed over a live one, removed at the end.
//!
//! The socket is bound under a temporary name, made 0600, and renamed over what it replaces. While that
//! happens the directory is locked, so of two daemons that start at once the second finds a live socket.
//!
//! Programs that use the published SDKs delete the file when they end, also when another program started the daemon. So
//! the file is looked for every 500 ms, and a missing one is made again.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::{
        fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net as blocking,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_identity::PeerId;
use tokio::{
    net::{UnixListener, UnixStream},
    time::{self, Interval, MissedTickBehavior},
};

use super::ListenError;

/// How often the socket's file is looked for.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A bound socket whose file is kept in its place.
#[derive(Debug)]
pub(super) struct UnixSocket {
    listener: UnixListener,
    file: SocketFile,
    look: Interval,
    /// Another file has the path, and the log says so.
    is_displaced: bool,
    /// The key file of the home, and whose key it is: where it is another's, the file is not made again.
    key: Option<(PathBuf, PeerId)>,
}

impl UnixSocket {
    /// Binds `path`; makes its directory with 0700 if it is missing.
    pub(super) async fn bind(path: &Path) -> Result<Self, ListenError> {
        let (listener, file) = bind(path).await?;
        let mut look = time::interval(CHECK_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            listener,
            file,
            look,
            is_displaced: false,
            key: None,
        })
    }

    /// Makes its file again only while this key file has the key of this node: a home that was deleted may be another
    /// daemon's by then.
    pub(super) fn keep_while(&mut self, key: PathBuf, peer: PeerId) {
        self.key = Some((key, peer));
    }

    fn is_home_ours(&self) -> bool {
        self.key.as_ref().is_none_or(|(file, peer)| {
            let key = agentanycast_identity::load(file).ok().flatten();
            key.is_some_and(|key| agentanycast_identity::peer_id(&key) == *peer)
        })
    }

    /// The next connection. Cancel safe.
    pub(super) async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            tokio::select! {
                // Connections that came before the file was lost are taken first.
                biased;
                accepted = self.listener.accept() => return accepted.map(|(stream, _)| stream),
                _ = self.look.tick() => self.keep_in_place().await,
            }
        }
    }

    /// Makes the file again if it is missing.
    async fn keep_in_place(&mut self) {
        match self.file.state() {
            FileState::InPlace => self.is_displaced = false,
            FileState::Missing if !self.is_home_ours() => {}
            FileState::Missing => match bind(&self.file.path).await {
                Ok((listener, file)) => {
                    tracing::warn!(socket = %file.path.display(), "the socket's file was deleted and is made again");
                    (self.listener, self.file) = (listener, file);
                    self.is_displaced = false;
                }
                Err(error) => self.warn_once(&error.to_string()),
            },
            FileState::Displaced => self.warn_once("another file has its path"),
        }
    }

    fn warn_once(&mut self, reason: &str) {
        if !self.is_displaced {
            let socket = self.file.path.display();
            tracing::warn!(%socket, reason, "new programs cannot reach this daemon: its socket's file is gone");
            self.is_displaced = true;
        }
    }
}

/// What is at the path of the socket's file.
enum FileState {
    InPlace,
    Missing,
    /// Another file, or one that this process may not look at.
    Displaced,
}

/// The socket's name in the file system; removed with this value, if the name is still ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn state(&self) -> FileState {
        match fs::symlink_metadata(&self.path) {
            Ok(found) if self.is_ours(&found) => FileState::InPlace,
            // Without its directory the home is gone; to make that again is not this daemon's to decide.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && self.path.parent().is_none_or(Path::exists) =>
            {
                FileState::Missing
            }
            _ => FileState::Displaced,
        }
    }

    fn is_ours(&self, found: &fs::Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| self.is_ours(&found)) {
            // If this fails, the next start finds a stale socket and replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

async fn bind(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    let error = |action: &'static str| {
        move |cause| ListenError::Io {
            address: format!("unix://{}", path.display()),
            action,
            cause,
        }
    };
    let too_long = |name: &Path| blocking::SocketAddr::from_pathname(name).is_err();
    if too_long(path) || too_long(&path.with_file_name(temporary_name())) {
        return Err(ListenError::PathTooLong {
            path: path.to_owned(),
        });
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(error("make its directory"))?;
    let _lock = lock(directory).map_err(error("lock its directory"))?;
    ensure_free(path)
        .await
        .map_err(error("look for another daemon"))??;

    let temporary = directory.join(temporary_name());
    let listener = blocking::UnixListener::bind(&temporary).map_err(error("bind"))?;
    match rename_into_place(&temporary, path) {
        Ok(file) => {
            listener
                .set_nonblocking(true)
                .map_err(error("make it non-blocking"))?;
            let listener = UnixListener::from_std(listener).map_err(error("register it"))?;
            Ok((listener, file))
        }
        Err(cause) => {
            let _ = fs::remove_file(&temporary);
            Err(error("place the socket")(cause))
        }
    }
}

/// Short, so that it fits wherever the socket's own name does.
fn temporary_name() -> String {
    format!(".{:08x}", rand::random::<u32>())
}

/// Held by the returned file; released by the system when the process ends in any way.
fn lock(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    match file.lock() {
        // File systems without locks: two daemons that start in the same millisecond are not told apart.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        locked => locked.map(|()| file),
    }
}

/// Nothing has the name, or a socket on which nobody answers.
async fn ensure_free(path: &Path) -> io::Result<Result<(), ListenError>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(())),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Ok(Err(ListenError::NotASocket {
            path: path.to_owned(),
        }));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Ok(())),
        // A full queue (WouldBlock) or a forbidden one belongs to a living process too.
        _ => Ok(Err(ListenError::InUse {
            path: path.to_owned(),
        })),
    }
}

fn rename_into_place(temporary: &Path, path: &Path) -> io::Result<SocketFile> {
    fs::set_permissions(temporary, Permissions::from_mode(0o600))?;
    let found = fs::symlink_metadata(temporary)?;
    fs::rename(temporary, path)?;
    Ok(SocketFile {
        path: path.to_owned(),
        device: found.dev(),
        inode: found.ino(),
    })
}
