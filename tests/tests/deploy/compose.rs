//! docker-compose.yml, read strictly: what is not known here is an error. `tests/tests/foreign/compose_schema.rs` checks it
//! against the published schema.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{dockerfile::Dockerfile, read};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComposeFile {
    pub(crate) services: BTreeMap<String, ComposeService>,
    volumes: BTreeMap<String, Option<()>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComposeService {
    image: String,
    build: ComposeBuild,
    pub(crate) command: Vec<String>,
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    #[serde(default)]
    ports: Vec<String>,
    pub(crate) volumes: Vec<String>,
    #[serde(default)]
    pub(crate) depends_on: BTreeMap<String, DependsCondition>,
    restart: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ComposeBuild {
    context: String,
    target: String,
    args: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DependsCondition {
    condition: String,
}

impl ComposeFile {
    pub(crate) fn load() -> Self {
        serde_saphyr::from_str(&read("docker-compose.yml")).unwrap()
    }
}

impl ComposeService {
    /// The target of the Dockerfile that it is made from.
    pub(crate) fn target(&self) -> &str {
        &self.build.target
    }

    /// Its named volumes and where it sees them.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.volumes.iter().map(|mount| mount.split_once(':').unwrap())
    }

    /// The ports of the container that are published, as `4001/tcp`.
    pub(crate) fn published(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|port| port.rsplit_once(':').unwrap().1)
    }
}

/// A text with each `${NAME:-default}` as it is when nobody has set NAME.
pub(crate) fn defaults(text: &str) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, after) = after.split_once('}').unwrap();
        whole.push_str(before);
        whole.push_str(variable.split_once(":-").unwrap().1);
        rest = after;
    }
    whole + rest
}

#[test]
fn services_fit_to_the_images_and_to_each_other() {
    let (compose, dockerfile) = (ComposeFile::load(), Dockerfile::load());
    let mut host_ports = Vec::new();
    for (name, service) in &compose.services {
        assert_eq!(
            (service.build.context.as_str(), service.restart.as_str()),
            (".", "unless-stopped"),
            "{name}"
        );
        let image = dockerfile.image(service.target());
        assert_eq!(
            service.image,
            format!("agentanycast-{}", service.target()),
            "{name}"
        );
        for argument in service.build.args.keys() {
            assert!(dockerfile.takes(argument), "{name}: {argument}");
        }
        for (volume, place) in service.mounts() {
            assert!(compose.volumes.contains_key(volume), "{name}: {volume}");
            assert!(
                image.directories().contains(&place),
                "{name}: {place} is made for its user"
            );
        }
        for (other, condition) in &service.depends_on {
            assert_eq!(condition.condition, "service_healthy");
            assert!(compose.services.contains_key(other), "{name}: {other}");
        }
        // Whatever it listens on is published, and the other way round.
        for port in service.published() {
            let number = port.split('/').next().unwrap();
            assert!(
                service.command.iter().any(|argument| argument.contains(number)),
                "{name}: {port}"
            );
        }
        host_ports.extend(service.ports.iter().map(|port| port.replace("127.0.0.1:", "")));
    }
    let count = host_ports.len();
    host_ports.sort();
    host_ports.dedup();
    assert_eq!(host_ports.len(), count, "a port is published once");
    let relay: Vec<_> = compose.services["relay"].published().collect();
    assert_eq!(relay, dockerfile.image("relay").exposed());
    for volume in compose.volumes.keys() {
        assert!(
            compose
                .services
                .values()
                .any(|service| service.mounts().any(|(name, _)| name == volume)),
            "{volume}"
        );
    }
}

#[test]
fn variables_have_defaults() {
    assert_eq!(defaults("a${B:-c/d}e${F:-}"), "ac/de");
    let text = read("docker-compose.yml");
    let bare: Vec<_> = text
        .match_indices("${")
        .filter(|(at, _)| !text[*at..].split('}').next().unwrap().contains(":-"))
        .collect();
    assert!(bare.is_empty(), "{bare:?}");
}
