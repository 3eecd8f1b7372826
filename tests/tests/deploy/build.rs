//! The build's commands, in a directory that has nothing but what the build is given. Takes as long as a whole build in
//! release mode, so it runs only with `AGENTANYCAST_TEST_DOCKERFILE=1`; a directory in place of 1 is built in, and kept.

use std::{fs, path::Path, process::Command};

use agentanycast_tests::skipped;

use crate::{dockerfile::Dockerfile, read, top};

const ASKED: &str = "AGENTANYCAST_TEST_DOCKERFILE";

/// What `COPY . .` brings: everything that is in git and not in .dockerignore.
fn copy(to: &Path) {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(top())
        .output()
        .unwrap();
    assert!(listed.status.success());
    let ignore = read(".dockerignore");
    let ignored: Vec<&str> = ignore
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    for file in String::from_utf8(listed.stdout)
        .unwrap()
        .split('\0')
        .filter(|file| !file.is_empty())
    {
        let first = file.split('/').next().unwrap();
        if ignored.contains(&first) || !top().join(file).exists() {
            continue;
        }
        let place = to.join(file);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(top().join(file), place).unwrap();
    }
}

#[test]
fn its_commands_build_the_programs() {
    let Some(asked) = std::env::var_os(ASKED) else {
        return skipped(&format!("a whole build in release mode; set {ASKED}=1"));
    };
    let home = tempfile::tempdir().unwrap();
    let (source, out) = (home.path().join("src"), home.path().join("out"));
    fs::create_dir(&source).unwrap();
    copy(&source);
    if asked != "1" {
        std::os::unix::fs::symlink(asked, source.join("target")).unwrap();
    }
    let dockerfile = Dockerfile::load();
    for command in dockerfile.image("build").all("RUN") {
        let command = command.replace("/out", out.to_str().unwrap());
        let status = Command::new("sh")
            .args(["-ec", &command])
            .current_dir(&source)
            .env("AGENTANYCAST_REVISION", "abc123")
            .env_remove("CARGO_TARGET_DIR")
            .status()
            .unwrap();
        assert!(status.success(), "{command}");
    }
    for program in ["agentanycast-relay", "agentanycastd"] {
        let said = Command::new(out.join(program)).arg("--version").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let expected = format!("{program} {} (abc123, ", env!("CARGO_PKG_VERSION"));
        assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    }
    assert!(out.join("anycast").is_file());
}
