//! The build's commands, in a directory that has nothing but what the build is given; and those of the images, on a copy of
//! what they change.
//!
//! The workspace is built once, by `cargo test` itself. So in the place of `cargo build` cargo reads the
//! manifests and the lock file that the build is given, and says whether they agree and have the programs;
//! the other commands are the Dockerfile's, on the programs that are built already. With
//! `AGENTANYCAST_TEST_DOCKERFILE=1` all commands are run to the letter, which takes as long as a whole build
//! in release mode; a directory in place of 1 is built in, and kept.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use agentanycast_tests::{network_lab::NetworkLab, relay};

use crate::{dockerfile::Dockerfile, read, top};

const TO_THE_LETTER: &str = "AGENTANYCAST_TEST_DOCKERFILE";

/// How the command begins that builds.
const BUILD: &str = "cargo build ";

/// What stands for it: an error unless the lock file fits the manifests. Nothing is fetched, so that only what this host needs
/// is there.
const READ: &str = "cargo metadata --locked --offline --format-version 1 \
                    --filter-platform \"$(rustc -vV | sed -n 's/^host: //p')\" >metadata.json";

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
enum BuildMode {
    /// To the letter; built in a directory that is kept, if there is one.
    Whole(Option<OsString>),
    /// With the programs that are built already, in this directory.
    Built(PathBuf),
}

impl BuildMode {
    fn chosen() -> Self {
        if let Some(asked) = std::env::var_os(TO_THE_LETTER) {
            return Self::Whole((asked != "1").then_some(asked));
        }
        Self::Built(relay::program().parent().unwrap().to_owned())
    }

    fn command(&self, text: &str, out: &Path) -> String {
        let text = text.replace("/out", out.to_str().unwrap());
        match self {
            Self::Whole(_) => text,
            Self::Built(programs) => match text.strip_prefix(BUILD) {
                Some(options) => {
                    let programs = options.split("--bin ").skip(1).map(str::trim);
                    let has = programs.map(|name| format!("grep -q '\"name\":\"{name}\"' metadata.json"));
                    [READ.to_owned()]
                        .into_iter()
                        .chain(has)
                        .collect::<Vec<_>>()
                        .join("\n")
                }
                None => text.replace("target/release/", &format!("{}/", programs.display())),
            },
        }
    }
}

#[test]
fn its_commands_build_the_programs() {
    let home = tempfile::tempdir().unwrap();
    let way = BuildMode::chosen();
    let (source, out) = (home.path().join("src"), home.path().join("out"));
    fs::create_dir_all(&source).unwrap();
    copy(&source);
    if let BuildMode::Whole(Some(kept)) = &way {
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
        let status = command.status().unwrap();
        assert!(status.success(), "{text}");
    }
    for program in ["anycast", "agentanycast-relay", "agentanycastd"] {
        let said = Command::new(out.join(program)).arg("--version").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let commit = match way {
            BuildMode::Whole(_) => "abc123, ",
            BuildMode::Built(_) => "",
        };
        let expected = format!("{program} {} ({commit}", env!("CARGO_PKG_VERSION"));
        assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
    }
    // Whatever an image runs is there.
    for target in ["relay", "node", "agent"] {
        let image = dockerfile.image(target);
        let probe = image.health_check().remove(0);
        let ours = [image.program(), probe]
            .into_iter()
            .filter(|program| program != "bash");
        for program in ours {
            assert!(out.join(&program).is_file(), "{target}: {program}");
        }
    }
}

/// A name for each thing that the commands of an image change, and what stands in for it.
const CHANGED: [&str; 3] = ["/etc", "/var/lib", "/run"];

#[test]
fn the_commands_of_the_images_make_what_their_programs_need() {
    if NetworkLab::open().is_none() {
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
