//! Files that people and other programs have too (settings, aliases, units of a service manager), written
//! whole: settings, `aliases` and `user_service` write by it. The invariants: a link stays a link, and one
//! that leads nowhere is refused, and so is what is no regular file (a device, a pipe, a directory); owner, group,
//! mode and hard links stay; no reader sees half of a file, but where only its owner could put another one in its
//! place, or it has several names.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{Gid, Uid, fchown};

/// The file behind a path, there or to be made. A link that leads nowhere is an error: what it was to lead to
/// counts, and is not known. What is no regular file is one too: it would be replaced, or block.
pub(crate) fn behind(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "it is a link to {}, which leads nowhere; make that file, or remove the link",
                    target.display()
                ),
            )),
            Err(_) => Ok(path.to_owned()),
        },
        Ok(found) if !fs::metadata(&found)?.is_file() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is no regular file", found.display()),
        )),
        found => found,
    }
}

/// Puts this text into the file, or into a new one of this mode.
pub(crate) fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let path = behind(path)?;
    let old = match fs::metadata(&path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::Builder::new()
        .prefix(".new")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory)?;
    new.write_all(text.as_bytes())?;
    let kept = old.as_ref().map_or(Ok(()), |old| {
        let made = new.as_file().metadata()?;
        let is_other = |old: u32, made: u32| (old != made).then_some(old);
        let owner = is_other(old.uid(), made.uid()).map(Uid::from_raw);
        let group = is_other(old.gid(), made.gid()).map(Gid::from_raw);
        fchown(new.as_file(), owner, group).map_err(io::Error::from)
    });
    if kept.is_err() || old.as_ref().is_some_and(|old| old.nlink() > 1) {
        // This user may write the file, and not make one of its owner and group; or it has other names, which keep it.
        let mut there = File::options().write(true).truncate(true).open(&path)?;
        there.write_all(text.as_bytes())?;
        return there.sync_all();
    }
    // After the owner: a change of owner takes some of it away.
    let mode = old.map_or(mode, |old| old.permissions().mode());
    new.as_file()
        .set_permissions(Permissions::from_mode(mode & 0o7777))?;
    new.as_file().sync_all()?;
    new.persist(&path).map_err(|error| error.error)?;
    // The name is on the disk too.
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn a_link_stays_and_one_that_leads_nowhere_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("elsewhere")).unwrap();
        fs::write(at("elsewhere/file"), "old").unwrap();
        // A link to a link, by relative paths.
        symlink("elsewhere/file", at("one")).unwrap();
        symlink("one", at("two")).unwrap();
        write(&at("two"), "new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(at("elsewhere/file")).unwrap(), "new");
        assert!(at("one").is_symlink() && at("two").is_symlink());
        fs::remove_file(at("elsewhere/file")).unwrap();
        let error = write(&at("two"), "new", 0o600).unwrap_err();
        assert!(error.to_string().contains("leads nowhere"), "{error}");
        assert!(at("two").is_symlink() && !at("elsewhere/file").exists());
    }

    #[test]
    fn what_is_no_regular_file_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let link = home.path().join("link");
        symlink("pipe", &link).unwrap();
        for path in [pipe.as_path(), link.as_path(), home.path()] {
            let error = write(path, "text", 0o600).unwrap_err().to_string();
            assert!(error.contains("no regular file"), "{error}");
        }
    }

    #[test]
    fn a_file_with_two_names_keeps_both() {
        let home = tempfile::tempdir().unwrap();
        let (one, other) = (home.path().join("one"), home.path().join("other"));
        fs::write(&one, "old text").unwrap();
        fs::hard_link(&one, &other).unwrap();
        write(&one, "new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "new");
    }

    #[test]
    fn owner_group_and_mode_stay() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        // Of root alone: others can give nothing away.
        let is_root = chown(&path, Some(12_345), Some(23_456)).is_ok();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        let before = fs::metadata(&path).unwrap();
        write(&path, "new", 0o600).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let about = |file: &fs::Metadata| (file.uid(), file.gid(), file.mode());
        assert_eq!(about(&after), about(&before));
        assert!(!is_root || after.uid() == 12_345);
        let made = home.path().join("made");
        write(&made, "text", 0o640).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o640);
        assert_eq!(
            fs::read_dir(home.path()).unwrap().count(),
            2,
            "nothing else is left"
        );
    }
}
