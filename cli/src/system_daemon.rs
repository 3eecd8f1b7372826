//! The daemon that the package's service runs for the whole host, beside those that users have in their homes. Its own
//! user's commands use it; to others it is named.

use std::{
    fs,
    io::ErrorKind,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::Path,
};

/// The socket of the daemon that the package's service runs.
pub(crate) const SOCKET: &str = "/run/agentanycast/daemon.sock";

/// What this user finds there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemDaemon {
    /// It does not run.
    Absent,
    /// It takes this user's calls.
    Usable,
    /// It runs, and takes calls of the user with this number alone.
    OfUser(u32),
}

impl SystemDaemon {
    /// Looks for it at the socket, for the user with this number.
    pub(crate) fn find(socket: &Path, me: u32) -> Self {
        let owner = match fs::metadata(socket) {
            Ok(found) => found.uid(),
            // The service's directory is there as long as the service runs, and closed to others.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return socket
                    .parent()
                    .and_then(|directory| fs::metadata(directory).ok())
                    .map_or(Self::Absent, |directory| Self::OfUser(directory.uid()));
            }
            Err(_) => return Self::Absent,
        };
        match UnixStream::connect(socket) {
            Ok(_) if owner == me => Self::Usable,
            Ok(_) => Self::OfUser(owner),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Self::OfUser(owner),
            Err(_) => Self::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn it_is_used_by_its_own_user_and_named_to_others() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("daemon.sock");
        let me = rustix::process::geteuid().as_raw();
        assert_eq!(SystemDaemon::find(&socket, me), SystemDaemon::Absent);
        let listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(SystemDaemon::find(&socket, me), SystemDaemon::Usable);
        assert_eq!(SystemDaemon::find(&socket, me + 1), SystemDaemon::OfUser(me));
        drop(listener);
        assert_eq!(SystemDaemon::find(&socket, me), SystemDaemon::Absent);
    }
}
