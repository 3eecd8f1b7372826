//! What a build was made from, for `--version`: the version, the commit, the target. The same source, environment and
//! target give the same text; there is no time in it.

use std::{env, fs, path::Path, process::Command};

/// Whoever builds without a repository, such as an image, says here what the source is.
const GIVEN: &str = "AGENTANYCAST_REVISION";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={GIVEN}");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let target = env::var("TARGET").unwrap_or_default();
    let given = env::var(GIVEN).ok().filter(|given| !given.is_empty());
    let revision = given.or_else(commit);
    println!(
        "cargo:rustc-env=AGENTANYCAST_BUILT_FROM={}",
        revision.as_deref().unwrap_or_default()
    );
    let from = match revision {
        Some(revision) => format!("{revision}, {target}"),
        None => target,
    };
    println!("cargo:rustc-env=AGENTANYCAST_VERSION={version} ({from})");
}

/// The commit that is checked out. Builds in the debug profile have none: each commit would build everything above this
/// crate anew.
fn commit() -> Option<String> {
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return None;
    }
    let here = env::var("CARGO_MANIFEST_DIR").ok()?;
    let git = |args: &[&str]| {
        let output = Command::new("git").current_dir(&here).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // A source that lies unpacked within another repository is not that repository's.
    let top = fs::canonicalize(git(&["rev-parse", "--show-toplevel"])?).ok()?;
    if fs::canonicalize(Path::new(&here).parent()?).ok()? != top {
        return None;
    }
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo:rerun-if-changed={}", Path::new(&here).join(log).display());
    git(&["rev-parse", "--short=12", "HEAD"])
}
