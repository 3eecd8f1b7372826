//! A small disk of its own for one test: an ext4 in a file, mounted where the test wants it, that can be
//! filled to the brim and can fail as a real one does. Needs root and loop devices; where there are none the
//! test is skipped aloud, or fails when `AGENTANYCAST_REQUIRE_LAB=1` says that there have to be some.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::wait::skip_unless_required;

/// What the ballast grows by, in bytes; the last bytes are filled one by one block.
const STEP: usize = 64 << 10;

/// A mounted disk; unmounted when it is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    /// Holds the disk's image.
    image: TempDir,
    at: PathBuf,
    device: String,
}

impl SmallDisk {
    /// Makes a disk of `mebibytes` and mounts it at `at`, which is made. None: not here, and said so.
    ///
    /// # Panics
    /// When it is not possible and `AGENTANYCAST_REQUIRE_LAB=1`.
    pub fn mount(at: &Path, mebibytes: u64) -> Option<Self> {
        match Self::try_mount(at, mebibytes) {
            Ok(disk) => Some(disk),
            Err(why) => {
                skip_unless_required(&format!("no disk of its own can be made here: {why}"));
                None
            }
        }
    }

    fn try_mount(at: &Path, mebibytes: u64) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can mount".to_owned());
        }
        let image = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = image.path().join("disk");
        let made = File::create(&file).and_then(|file| file.set_len(mebibytes << 20));
        made.map_err(|error| error.to_string())?;
        run("mkfs.ext4", &["-q", "-m", "0", &text(&file)])?;
        fs::create_dir_all(at).map_err(|error| error.to_string())?;
        let device = run("losetup", &["--find", "--show", &text(&file)])?;
        let disk = Self {
            image,
            at: at.to_owned(),
            device: device.trim().to_owned(),
        };
        disk.attach()?;
        Ok(disk)
    }

    fn attach(&self) -> Result<(), String> {
        let at = text(&self.at);
        run("mount", &["-o", "errors=remount-ro", &self.device, &at]).map(drop)
    }

    /// Writes until `left` bytes are free, at most a block more.
    ///
    /// # Panics
    /// When the disk fails.
    pub fn fill(&self, left: u64) {
        let path = self.ballast();
        let mut ballast = File::options().create(true).append(true).open(path).unwrap();
        let block = vec![0x55; STEP];
        loop {
            let free = self.free();
            let room = usize::try_from(free.saturating_sub(left)).unwrap_or(usize::MAX);
            if room < 4096 {
                break;
            }
            match ballast.write(&block[..room.min(STEP)]) {
                // Else the room is an estimate, as long as the blocks are not allotted.
                Ok(_) => ballast.sync_all().unwrap(),
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Makes room again.
    ///
    /// # Panics
    /// When it was not filled.
    pub fn make_room(&self) {
        fs::remove_file(self.ballast()).expect("the disk was filled");
    }

    /// Bytes that are free.
    ///
    /// # Panics
    /// When the disk cannot be asked.
    pub fn free(&self) -> u64 {
        let about = rustix::fs::statvfs(&self.at).expect("a mounted disk");
        about.f_bavail * about.f_frsize
    }

    /// The disk fails: the kernel finds an error on it, and lets nobody write any more.
    ///
    /// # Panics
    /// When the kernel has no such switch.
    pub fn fail(&self) {
        let name = self.device.trim_start_matches("/dev/");
        let switch = format!("/sys/fs/ext4/{name}/trigger_fs_error");
        fs::write(&switch, "a test").unwrap_or_else(|error| panic!("{switch}: {error}"));
        let write = File::create(self.at.join("written"));
        assert!(write.is_err(), "the disk has failed and is written to");
    }

    /// Repairs it and mounts it again. Nobody may have a file of it open.
    ///
    /// # Panics
    /// When it cannot be repaired.
    pub fn repair(&self) {
        run("umount", &[&text(&self.at)]).unwrap();
        // Code 1: errors were corrected.
        let checked = Command::new("e2fsck")
            .args(["-fy", &self.device])
            .output()
            .unwrap();
        let code = checked.status.code();
        assert!(
            matches!(code, Some(0 | 1)),
            "{}",
            String::from_utf8_lossy(&checked.stdout)
        );
        self.attach().unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a daemon of a test that failed may still have files open.
        let _ = run("umount", &["--lazy", &text(&self.at)]);
        if let Err(error) = run("losetup", &["--detach", &self.device]) {
            eprintln!(
                "{} is left behind over {}: {error}",
                self.device,
                self.image.path().display()
            );
        }
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Runs a program to its end; what it said.
fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{program} {args:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}
