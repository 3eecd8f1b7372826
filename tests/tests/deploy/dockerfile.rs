//! The Dockerfile, as far as it is written: stages, and of each instruction its words.

use crate::read;

pub(crate) struct Dockerfile(Vec<BuildStage>);

struct BuildStage {
    name: String,
    from: String,
    /// Each instruction and what stands behind it.
    instructions: Vec<(String, String)>,
}

/// A target with everything that it has from the stages below it, the lowest first.
pub(crate) struct Image<'a>(Vec<&'a BuildStage>);

impl Dockerfile {
    pub(crate) fn load() -> Self {
        let text = read("Dockerfile").replace("\\\n", " ");
        let mut stages: Vec<BuildStage> = Vec::new();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (instruction, rest) = line.split_once(' ').unwrap();
            let rest = rest.trim();
            if instruction == "FROM" {
                let (from, name) = rest.split_once(" AS ").expect("every stage has a name");
                stages.push(BuildStage {
                    name: name.to_owned(),
                    from: from.to_owned(),
                    instructions: Vec::new(),
                });
            } else {
                let stage = stages.last_mut().expect("FROM comes first");
                stage.instructions.push((instruction.to_owned(), rest.to_owned()));
            }
        }
        Self(stages)
    }

    fn stage(&self, name: &str) -> Option<&BuildStage> {
        self.0.iter().find(|stage| stage.name == name)
    }

    pub(crate) fn image(&self, target: &str) -> Image<'_> {
        let mut stages = vec![self.stage(target).unwrap_or_else(|| panic!("no target {target}"))];
        while let Some(below) = self.stage(&stages[0].from) {
            stages.insert(0, below);
        }
        Image(stages)
    }

    /// Whether it has a build argument.
    pub(crate) fn takes(&self, argument: &str) -> bool {
        let mut all = self.0.iter().flat_map(|stage| &stage.instructions);
        all.any(|(instruction, rest)| instruction == "ARG" && rest.starts_with(&format!("{argument}=")))
    }
}

impl Image<'_> {
    /// What stands behind an instruction, each time that it is there.
    pub(crate) fn all(&self, instruction: &str) -> Vec<&str> {
        let all = self.0.iter().flat_map(|stage| &stage.instructions);
        all.filter(|(name, _)| name == instruction)
            .map(|(_, rest)| rest.as_str())
            .collect()
    }

    fn last(&self, instruction: &str) -> &str {
        self.all(instruction)
            .pop()
            .unwrap_or_else(|| panic!("{} has no {instruction}", self.0.last().unwrap().name))
    }

    /// The program that it runs.
    pub(crate) fn program(&self) -> String {
        let words: Vec<String> = serde_json::from_str(self.last("ENTRYPOINT")).unwrap();
        words.into_iter().next().unwrap()
    }

    /// What it runs its program with when nobody says anything else.
    pub(crate) fn command(&self) -> Vec<String> {
        serde_json::from_str(self.last("CMD")).unwrap()
    }

    /// The command that tells whether it is well.
    pub(crate) fn health_check(&self) -> Vec<String> {
        let (_, command) = self.last("HEALTHCHECK").split_once("CMD ").unwrap();
        serde_json::from_str(command).unwrap()
    }

    /// Directories that its user may write to.
    pub(crate) fn directories(&self) -> Vec<&str> {
        let made = self
            .all("RUN")
            .into_iter()
            .filter(|run| run.starts_with("install -d -m 0700 -o agentanycast"));
        made.flat_map(|run| run.split_whitespace().filter(|word| word.starts_with('/')))
            .collect()
    }

    pub(crate) fn exposed(&self) -> Vec<&str> {
        self.last("EXPOSE").split_whitespace().collect()
    }
}

#[test]
fn every_image_is_built_apart_and_runs_without_root() {
    let dockerfile = Dockerfile::load();
    for target in ["relay", "node", "agent"] {
        let image = dockerfile.image(target);
        assert_eq!(
            image.0[0].from, "debian:bookworm-slim",
            "{target}: no compiler is in it"
        );
        assert_eq!(image.last("USER"), "10001:10001", "{target}");
        assert_eq!(image.last("STOPSIGNAL"), "SIGTERM", "{target}");
        assert!(image.last("LABEL").contains("image.version=$VERSION"), "{target}");
        assert!(
            image.last("LABEL").contains("image.revision=$REVISION"),
            "{target}"
        );
        assert!(
            image
                .all("COPY")
                .contains(&"--from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/"),
            "{target}: nobody behind TLS would be believed"
        );
        let copied = image.last("COPY");
        assert!(
            copied == "--from=build /out/ /usr/local/bin/",
            "{target}: {copied}: all names of the program are copied, {} among them",
            image.program()
        );
        assert!(
            !image.health_check().is_empty() && !image.command().is_empty(),
            "{target}"
        );
    }
    for target in ["relay", "node"] {
        assert_eq!(dockerfile.image(target).last("VOLUME"), "/var/lib/agentanycast");
    }
    let version = format!("VERSION=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(
        dockerfile.image("relay").all("ARG").contains(&version.as_str()),
        "{version}"
    );
}
