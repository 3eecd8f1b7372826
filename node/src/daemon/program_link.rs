//! The link `bin/agentanycastd` in the home of a daemon. The published SDKs look for the program there; with the link
//! they need neither `PATH` nor a download.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, symlink},
    path::{Path, PathBuf},
};

use crate::config::{Config, GrpcListen};

/// The name under which the SDKs look.
const NAME: &str = "agentanycastd";

/// Names of programs that are this daemon: a link to one of these may be replaced.
const OUR_PROGRAMS: [&str; 2] = [NAME, "anycast"];

/// What has the link's path after [`rename_into_place`].
#[derive(Debug, PartialEq, Eq)]
enum LinkState {
    /// The link to this program.
    Ours,
    /// A file that this product did not put there; it stays.
    Foreign(PathBuf),
}

/// Puts the link into the daemon's home, which is where both its key and its socket are. A daemon without such a
/// directory, and one that may not write there, goes on without the link.
pub(super) fn create_in_home(config: &Config) {
    let GrpcListen::Unix(socket) = &config.grpc_listen else {
        return;
    };
    let (Some(home), Ok(program)) = (config.key_path.parent(), std::env::current_exe()) else {
        return;
    };
    if socket.parent() != Some(home) {
        return;
    }
    match create_link(home, &program) {
        Ok(LinkState::Ours) => {}
        Ok(LinkState::Foreign(path)) => {
            let path = path.display();
            tracing::warn!(%path, "the SDKs start this program, which is not this daemon; delete it to have it replaced");
        }
        Err(error) => tracing::debug!(%error, "no link for the SDKs in the daemon's home"),
    }
}

/// Puts the link to `program` into `home`, unless another file is there.
fn create_link(home: &Path, program: &Path) -> io::Result<LinkState> {
    let directory = home.join("bin");
    let path = directory.join(NAME);
    match fs::symlink_metadata(&path) {
        Ok(found) => {
            let target = found.is_symlink().then(|| fs::read_link(&path)).transpose()?;
            match target {
                Some(target) if target == program => return Ok(LinkState::Ours),
                Some(target) if is_ours(&target) => {}
                _ => return Ok(LinkState::Foreign(path)),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        }
        Err(error) => return Err(error),
    }
    // In one step, so that a program that starts at this moment finds the old link or the new one.
    let temporary = directory.join(format!(".{:08x}", rand::random::<u32>()));
    symlink(program, &temporary)?;
    fs::rename(&temporary, &path).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })?;
    Ok(LinkState::Ours)
}

fn is_ours(target: &Path) -> bool {
    let name = target.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| OUR_PROGRAMS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(home: &Path) -> PathBuf {
        home.join("bin").join(NAME)
    }

    #[test]
    fn a_link_of_this_product_follows_the_program() {
        let home = tempfile::tempdir().unwrap();
        for program in ["/opt/old/agentanycastd", "/opt/new/anycast", "/opt/new/anycast"] {
            assert_eq!(
                create_link(home.path(), Path::new(program)).unwrap(),
                LinkState::Ours
            );
            assert_eq!(fs::read_link(link(home.path())).unwrap(), Path::new(program));
        }
        assert_eq!(fs::read_dir(home.path().join("bin")).unwrap().count(), 1);
    }

    #[test]
    fn a_foreign_file_or_link_stays() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        let path = link(home.path());
        fs::write(&path, "another daemon").unwrap();
        let foreign = LinkState::Foreign(path.clone());
        assert_eq!(
            create_link(home.path(), Path::new("/opt/anycast")).unwrap(),
            foreign
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "another daemon");
        fs::remove_file(&path).unwrap();
        symlink("/usr/bin/daemon-of-another", &path).unwrap();
        assert_eq!(
            create_link(home.path(), Path::new("/opt/anycast")).unwrap(),
            foreign
        );
    }
}
