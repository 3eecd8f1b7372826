//! The key file: where a node's identity lives between runs.
//!
//! 68 raw bytes, the libp2p protobuf `PrivateKey` of an Ed25519 key: `08 01 12 40`, the 32-byte seed,
//! the 32-byte public key. The one rule: a file that exists is either this node's identity or an
//! error; it is never replaced, because a silently new identity is a different node.

mod lock;
mod rotate;
mod rotate_error;
mod statements;

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use libp2p_identity::{Keypair, ed25519};
use rustix::fs::OFlags;

pub use lock::{KeyLock, load_and_hold};
pub use rotate::{Rotated, rotate};
pub use rotate_error::{Replaced, RotateError};
pub use statements::{Statements, rotations, rotations_path};

/// Protobuf: field 1 (key type) = 1 (Ed25519), field 2 (data) of 64 bytes.
const HEADER: [u8; 4] = [0x08, 0x01, 0x12, 0x40];

/// Bytes in a key file: the header, the seed, the public key.
pub const KEY_FILE_LEN: usize = HEADER.len() + 64;

/// Widest permissions of a key file; more would let others become this node.
const FILE_MODE: u32 = 0o600;

/// Permissions of directories that are made for a key file.
const DIR_MODE: u32 = 0o700;

/// Why a key file could not be used. The file is left as it is found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The path names a directory, a pipe, a device, or a symbolic link to nothing.
    #[error("key {} is {found}, not a regular file; move it away or choose another path", .path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
        /// What is there instead.
        found: &'static str,
    },
    /// The file is shorter or longer than [`KEY_FILE_LEN`].
    #[error("key {} has {found} bytes instead of {KEY_FILE_LEN}; restore it from a backup, or move it away to \
             get a new identity", .path.display())]
    WrongSize {
        /// The path as given.
        path: PathBuf,
        /// The file's length in bytes.
        found: u64,
    },
    /// The first four bytes are not those of an Ed25519 key.
    #[error("key {} does not begin with 08 01 12 40, so it holds no Ed25519 key of libp2p; restore it from a \
             backup, or move it away to get a new identity", .path.display())]
    WrongHeader {
        /// The path as given.
        path: PathBuf,
    },
    /// The public half is not the one that belongs to the seed.
    #[error("key {} is damaged: its public key does not belong to its seed; restore it from a backup, or move it \
             away to get a new identity", .path.display())]
    Mismatch {
        /// The path as given.
        path: PathBuf,
    },
    /// Others may read or change the file.
    #[error("key {} has permissions {mode:04o}, so others may use it; run: chmod 600 {}", .path.display(), .path.display())]
    Permissions {
        /// The path as given.
        path: PathBuf,
        /// The permission bits found.
        mode: u32,
    },
    /// Another process has it: a daemon, a relay, or `anycast key rotate`.
    #[error(
        "key {} is in use by another daemon; stop that one, or give this one a key of its own (--key)",
        .path.display()
    )]
    InUse {
        /// The path as given.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("key {}: cannot {action}: {cause}", .path.display())]
    Io {
        /// The path as given.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's reason; part of what is said, so no source of it beside.
        cause: io::Error,
    },
}

/// Reads the key at `path`, or makes one if nothing is there.
///
/// Missing directories are made with 0700. A new key is complete and on disk before it has its name,
/// so a crash leaves either no key or a whole one, and of several processes that create at once
/// every one returns the key of the first.
pub fn load_or_create(path: &Path) -> Result<Keypair, KeyError> {
    if let Some(key) = load(path)? {
        return Ok(key);
    }
    let directory = parent(path);
    make_directories(directory).map_err(|cause| io_error(path, "make its directory", cause))?;
    let key = ed25519::Keypair::generate();
    let placed = place(path, directory, &key).map_err(|cause| io_error(path, "write it", cause))?;
    sync_directory(directory).map_err(|cause| io_error(path, "sync its directory", cause))?;
    if placed {
        return Ok(key.into());
    }
    load(path)?.ok_or_else(|| KeyError::NotAFile {
        path: path.to_owned(),
        found: "a symbolic link to nothing",
    })
}

/// Opens the file at `path` for reading, and tells what it is like; `None` if nothing is there.
fn open(path: &Path) -> Result<Option<(File, Metadata)>, KeyError> {
    // Non-blocking, so that a pipe in its place is reported and not waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(path, "open it", error)),
    };
    let found = file
        .metadata()
        .map_err(|cause| io_error(path, "inspect it", cause))?;
    if !found.is_file() {
        return Err(KeyError::NotAFile {
            path: path.to_owned(),
            found: describe(found.file_type()),
        });
    }
    Ok(Some((file, found)))
}

/// Reads the key at `path`; `None` if nothing is there.
pub fn load(path: &Path) -> Result<Option<Keypair>, KeyError> {
    let Some((mut file, found)) = open(path)? else {
        return Ok(None);
    };
    let mode = found.mode() & 0o7777;
    if mode & !FILE_MODE != 0 {
        return Err(KeyError::Permissions {
            path: path.to_owned(),
            mode,
        });
    }
    if found.len() != KEY_FILE_LEN as u64 {
        return Err(KeyError::WrongSize {
            path: path.to_owned(),
            found: found.len(),
        });
    }
    let mut bytes = [0; KEY_FILE_LEN];
    file.read_exact(&mut bytes)
        .map_err(|cause| io_error(path, "read it", cause))?;
    decode(&mut bytes, path).map(Some)
}

fn decode(bytes: &mut [u8; KEY_FILE_LEN], path: &Path) -> Result<Keypair, KeyError> {
    let (header, pair) = bytes.split_at_mut(HEADER.len());
    if header != HEADER {
        return Err(KeyError::WrongHeader {
            path: path.to_owned(),
        });
    }
    match ed25519::Keypair::try_from_bytes(pair) {
        Ok(key) => Ok(key.into()),
        Err(_) => Err(KeyError::Mismatch {
            path: path.to_owned(),
        }),
    }
}

fn encode(key: &ed25519::Keypair) -> [u8; KEY_FILE_LEN] {
    let mut bytes = [0; KEY_FILE_LEN];
    bytes[..HEADER.len()].copy_from_slice(&HEADER);
    bytes[HEADER.len()..].copy_from_slice(&key.to_bytes());
    bytes
}

/// Writes the key under a temporary name and gives it its own; false if that name was taken meanwhile.
fn place(path: &Path, directory: &Path, key: &ed25519::Keypair) -> io::Result<bool> {
    write_beside(
        directory,
        &encode(key),
        |_| Ok(()),
        |temporary| claim(temporary, path),
    )
}

/// Writes a file whole under a temporary name, sees to it that it is on the disk, and has it named.
fn write_beside<T>(
    directory: &Path,
    bytes: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
    name: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let temporary = directory.join(format!(".key-{:016x}.tmp", rand::random::<u64>()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(&temporary)?;
    let placed = file
        .write_all(bytes)
        .and_then(|()| prepare(&file))
        .and_then(|()| file.sync_all())
        .and_then(|()| name(&temporary));
    // After a rename the name is gone already; after anything else this removes it.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound && placed.is_ok() => Err(error),
        _ => placed,
    }
}

/// Gives the finished file its name unless something has that name.
fn claim(temporary: &Path, path: &Path) -> io::Result<bool> {
    match fs::hard_link(temporary, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // File systems without hard links (FAT, some network and container mounts).
        Err(error) => rename_without_replacing(temporary, path, error),
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_without_replacing(temporary: &Path, path: &Path, _: io::Error) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, temporary, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_without_replacing(_: &Path, _: &Path, link_error: io::Error) -> io::Result<bool> {
    Err(link_error)
}

/// Makes `directory` and what is missing above it, each entry on disk before the next is used.
fn make_directories(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory
        .ancestors()
        .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
        .collect();
    for new in missing.into_iter().rev() {
        match DirBuilder::new().mode(DIR_MODE).create(new) {
            Ok(()) => sync_directory(parent(new))?,
            // Another process made it first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// The directory that holds `path`; `.` for a bare name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn describe(kind: fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a device or socket"
    }
}

fn io_error(path: &Path, action: &'static str, cause: io::Error) -> KeyError {
    KeyError::Io {
        path: path.to_owned(),
        action,
        cause,
    }
}

#[cfg(test)]
mod tests;
