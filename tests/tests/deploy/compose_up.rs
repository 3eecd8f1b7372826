//! What `docker compose up` would start, started here with the same arguments, in the same order, with the images' own
//! health checks. What an engine would give is put in place of it: directories for volumes, free ports of the loopback
//! for those of the containers, its address for their names.

use std::{
    collections::{BTreeSet, HashMap},
    net::UdpSocket,
    path::PathBuf,
    process::Stdio,
};

use agentanycast_tests::{Daemon, eventually, relay, within};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{
    compose::{ComposeFile, ComposeService, defaults},
    dockerfile::Dockerfile,
};

/// All services, and what stands for their surroundings.
struct ComposeRun {
    compose: ComposeFile,
    dockerfile: Dockerfile,
    volumes: TempDir,
    /// A free port for each that a container publishes.
    ports: HashMap<String, String>,
    running: HashMap<String, Child>,
}

/// A port that nobody has, neither TCP nor UDP.
fn free_port() -> String {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = udp.local_addr().unwrap().port();
    match std::net::TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => port.to_string(),
        Err(_) => free_port(),
    }
}

fn program(name: &str) -> PathBuf {
    let program = relay::program().with_file_name(name);
    assert!(
        program.is_file(),
        "{} is missing; cargo test --workspace builds it",
        program.display()
    );
    program
}

impl ComposeRun {
    fn new() -> Self {
        let compose = ComposeFile::load();
        let published = compose.services.values().flat_map(ComposeService::published);
        let ports = published.map(|port| (port.split('/').next().unwrap().to_owned(), free_port()));
        Self {
            ports: ports.collect(),
            compose,
            dockerfile: Dockerfile::load(),
            volumes: tempfile::Builder::new().prefix("aac").tempdir().unwrap(),
            running: HashMap::new(),
        }
    }

    /// Where a volume is.
    fn volume(&self, name: &str) -> PathBuf {
        self.volumes.path().join(name)
    }

    /// A word of a command as it is here.
    fn here(&self, service: &ComposeService, word: &str) -> String {
        let mut word = defaults(word);
        for name in self.compose.services.keys() {
            word = word
                .replace(&format!("/dns4/{name}/"), "/ip4/127.0.0.1/")
                .replace(&format!("{name}:"), "127.0.0.1:");
        }
        word = self.with_free_ports(&word);
        for (volume, place) in service.mounts() {
            word = word.replace(place, self.volume(volume).to_str().unwrap());
        }
        // Each container has a network of its own.
        word.replace("/ip4/0.0.0.0/", "/ip4/127.0.0.1/")
            .replace("=:", "=127.0.0.1:")
    }

    /// With each number that is a published port replaced by its free one.
    fn with_free_ports(&self, word: &str) -> String {
        let number = |part: &str| self.ports.get(part).cloned().unwrap_or_else(|| part.to_owned());
        let mut parts: Vec<String> = vec![String::new()];
        let mut digits = false;
        for letter in word.chars() {
            if letter.is_ascii_digit() != digits {
                digits = !digits;
                parts.push(String::new());
            }
            parts.last_mut().unwrap().push(letter);
        }
        parts.iter().map(|part| number(part)).collect()
    }

    fn run(&self, service: &ComposeService, words: &[String]) -> Command {
        let words: Vec<String> = words.iter().map(|word| self.here(service, word)).collect();
        let mut command = match words[0].as_str() {
            "bash" => Command::new("bash"),
            ours => Command::new(program(ours)),
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AGENTANYCAST_") {
                command.env_remove(name);
            }
        }
        let environment = service
            .environment
            .iter()
            .map(|(name, value)| (name, self.here(service, value)));
        command
            .args(&words[1..])
            .envs(environment)
            .env("HOME", self.volumes.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Starts a service once those that it depends on are well, and waits until it is.
    async fn start(&mut self, name: &str) {
        let service = &self.compose.services[name];
        for needed in service.depends_on.keys() {
            assert!(
                self.running.contains_key(needed),
                "{name} is started after {needed}"
            );
        }
        for (volume, _) in service.mounts() {
            let made = std::fs::DirBuilder::new()
                .recursive(true)
                .create(self.volume(volume));
            made.unwrap();
            private(&self.volume(volume));
        }
        let image = self.dockerfile.image(service.target());
        let words = [vec![image.program()], service.command.clone()].concat();
        let log = std::fs::File::create(self.volumes.path().join(format!("{name}.log"))).unwrap();
        let child = self
            .run(service, &words)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let check = image.health_check();
        eventually(&format!("{name} is well"), || async {
            let output = self.run(service, &check).output().await.unwrap();
            output.status.success().then_some(())
        })
        .await;
        self.running.insert(name.to_owned(), child);
    }

    /// What a command prints in a service, as `docker compose exec` would.
    async fn exec(&self, name: &str, words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut command = self.run(&self.compose.services[name], &words);
        let output = within("a command ends", command.output()).await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {text}{complaint}");
        text
    }
}

impl Drop for ComposeRun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in self.compose.services.keys() {
                let log = std::fs::read_to_string(self.volumes.path().join(format!("{name}.log")));
                eprintln!("--- log of {name} ---\n{}", log.unwrap_or_default());
            }
        }
    }
}

fn private(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_services_start_find_each_other_and_stop() {
    // Also says what to do when the programs are missing.
    let _ = Daemon::builder();
    let mut up = ComposeRun::new();
    let order = ["relay", "node-a", "node-b", "echo", "words"];
    assert_eq!(up.compose.services.len(), order.len());
    for name in order {
        up.start(name).await;
    }
    let anycast = ["anycast", "--daemon=unix:///run/agentanycast/daemon.sock"];
    let asked = async |name: &str, words: &[&str]| up.exec(name, &[&anycast[..], words].concat()).await;
    // By skill: node-b has registered at the relay, and node-a asks there.
    eventually("the echo agent is found", || async {
        let found = asked("node-a", &["--json", "discover", "echo"]).await;
        found.contains("12D3KooW").then_some(())
    })
    .await;
    let answer = asked("node-a", &["send", "--skill", "echo", "hello from node-a"]).await;
    assert!(answer.contains("hello from node-a"), "{answer}");
    let counted = asked("node-a", &["send", "--skill", "words", "one two three"]).await;
    assert_eq!(counted.trim(), "3");
    // Each is an agent of its own.
    let agents = asked("node-b", &["--json", "agents", "--local"]).await;
    let agents: serde_json::Value = serde_json::from_str(&agents).unwrap();
    // The one that registered first is first, and both start at the same time.
    let names: BTreeSet<_> = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|agent| agent["agent"].as_str())
        .collect();
    assert_eq!(names, BTreeSet::from(["echo", "words"]));
    eventually("both nodes are at the relay", || async {
        let peers = asked("node-a", &["--json", "status"]).await;
        let metrics = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{} && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3",
            up.ports["9090"]
        );
        let metrics = up.exec("relay", &["bash", "-c", &metrics]).await;
        (peers.contains("peer_id") && metrics.contains("libp2p_connected_peers 2\n")).then_some(())
    })
    .await;
    for name in order.iter().rev() {
        let mut child = up.running.remove(*name).unwrap();
        kill_process(Pid::from_raw(child.id().unwrap() as i32).unwrap(), Signal::TERM).unwrap();
        let status = within("a service stops", child.wait()).await.unwrap();
        assert!(status.success(), "{name}: {status}");
    }
    // What they keep is in the volumes.
    for (volume, file) in [
        ("relay-data", "relay.key"),
        ("relay-data", "registry"),
        ("node-a-data", "node.key"),
        ("node-a-data", "data"),
    ] {
        assert!(up.volume(volume).join(file).exists(), "{volume}/{file}");
    }
}
