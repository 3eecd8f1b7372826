//! The build's commands, in a directory that has nothing but what the build is given; and those of the images, on a copy of
//! what they change.
//!
//! The commands are the Dockerfile's, but for three things: the profile is the debug one; nothing is fetched; and what they
//! make of other people's crates is what the tests have made already (with tokio's clock for tests), so that it takes a minute
//! or two. With `AGENTANYCAST_TEST_DOCKERFILE=1` they are run to the letter, as long as a whole build in release mode takes; a
//! directory in place of 1 is built in, and kept.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use agentanycast_tests::{lab::Lab, relay};

use crate::{dockerfile::Dockerfile, read, top};

const TO_THE_LETTER: &str = "AGENTANYCAST_TEST_DOCKERFILE";

/// What stands for the release profile: nothing is fetched; other people's crates are those that the tests have, and ours,
/// with more for debuggers, are none that others use.
const SHARING: &str = "--offline --workspace --features tokio/test-util --config profile.dev.debug=1";

/// What `COPY . .` brings: everything that is in git and not in .dockerignore, as old as it is.
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
        let original = top().join(file);
        if ignored.contains(&first) || !original.exists() {
            continue;
        }
        let place = to.join(file);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(&original, &place).unwrap();
        let changed = fs::metadata(&original).unwrap().modified().unwrap();
        let copied = fs::File::options().write(true).open(&place);
        // What may not be written to has its own time.
        if let Ok(copied) = copied {
            copied.set_modified(changed).unwrap();
        }
    }
}

/// How the build's commands are run.
enum Way {
    /// To the letter; built in a directory that is kept, if there is one.
    Whole(Option<OsString>),
    /// With what the tests have built, which is there.
    Sharing(PathBuf),
}

impl Way {
    fn chosen() -> Self {
        if let Some(asked) = std::env::var_os(TO_THE_LETTER) {
            return Self::Whole((asked != "1").then_some(asked));
        }
        let programs = relay::program().parent().unwrap().to_owned();
        Self::Sharing(programs.parent().unwrap().to_owned())
    }

    /// Where the source goes: for what is shared always the same place, so that it is built once.
    fn place(&self, fresh: &Path) -> PathBuf {
        match self {
            Self::Whole(_) => fresh.to_owned(),
            Self::Sharing(target) => target.join("dockerfile"),
        }
    }

    fn command(&self, text: &str, out: &Path) -> String {
        let text = text.replace("/out", out.to_str().unwrap());
        match self {
            Self::Whole(_) => text,
            Self::Sharing(_) => text
                .replace("--release", SHARING)
                .replace("target/release/", "target/debug/"),
        }
    }
}

#[test]
fn its_commands_build_the_programs() {
    let home = tempfile::tempdir().unwrap();
    let way = Way::chosen();
    let place = way.place(home.path());
    let (source, out) = (place.join("src"), home.path().join("out"));
    if source.exists() {
        fs::remove_dir_all(&source).unwrap();
    }
    fs::create_dir_all(&source).unwrap();
    copy(&source);
    if let Way::Whole(Some(kept)) = &way {
        std::os::unix::fs::symlink(kept, source.join("target")).unwrap();
    }
    let dockerfile = Dockerfile::load();
    for text in dockerfile.image("build").all("RUN") {
        let mut command = Command::new("sh");
        command
            .args(["-ec", &way.command(text, &out)])
            .current_dir(&source)
            .env("AGENTANYCAST_REVISION", "abc123")
            .env_remove("CARGO_TARGET_DIR");
        if let Way::Sharing(target) = &way {
            // The programs that other tests run are left alone: only what they are made of is shared.
            command.env("CARGO_BUILD_BUILD_DIR", target);
        }
        let status = command.status().unwrap();
        assert!(status.success(), "{text}");
    }
    for program in ["agentanycast-relay", "agentanycastd"] {
        let said = Command::new(out.join(program)).arg("--version").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let expected = format!("{program} {} (abc123, ", env!("CARGO_PKG_VERSION"));
        assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    }
    // Whatever an image takes of it is there.
    for target in ["relay", "node", "agent"] {
        let image = dockerfile.image(target);
        let taken = image.all("COPY").into_iter();
        let taken = taken.filter_map(|copy| copy.strip_prefix("--from=build "));
        let files: Vec<&str> = taken
            .flat_map(str::split_whitespace)
            .filter_map(|word| word.strip_prefix("/out/"))
            .collect();
        assert!(!files.is_empty(), "{target}");
        for file in files {
            assert!(out.join(file).is_file(), "{target}: {file}");
        }
    }
}

/// A name for each thing that the commands of an image change, and what stands in for it.
const CHANGED: [&str; 3] = ["/etc", "/var/lib", "/run"];

#[test]
fn the_commands_of_the_images_make_what_their_programs_need() {
    if Lab::open().is_none() {
        return; // It has said so: this needs root and namespaces too.
    }
    let home = tempfile::tempdir().unwrap();
    let home = home.path().to_str().unwrap();
    let dockerfile = Dockerfile::load();
    for target in ["relay", "node", "agent"] {
        let image = dockerfile.image(target);
        // In a namespace of mounts of its own, so that this host stays as it is.
        let mut script = vec!["mount --make-rprivate /".to_owned()];
        for place in CHANGED {
            let stand_in = format!("{home}/{target}{place}");
            script.push(format!("mkdir -p {stand_in}"));
            if place == "/etc" {
                script.push(format!("cp -a /etc/. {stand_in}"));
            }
            script.push(format!("mount --bind {stand_in} {place}"));
        }
        script.extend(image.all("RUN").into_iter().map(ToOwned::to_owned));
        script.push("id -u agentanycast; id -g agentanycast".to_owned());
        let directories = image.directories();
        script.extend(
            directories
                .iter()
                .map(|directory| format!("stat -c '%n %u:%g %a' {directory}")),
        );
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-ec", &script.join("\n")])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{target}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let owned = directories
            .iter()
            .map(|directory| format!("{directory} 10001:10001 700\n"));
        let expected = format!("10001\n10001\n{}", owned.collect::<String>());
        assert!(said.ends_with(&expected), "{target}: {said}");
        assert!(image.directories().contains(&"/var/lib/agentanycast"));
    }
}
