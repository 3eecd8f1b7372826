//! The examples of docs/bridge.md, run as they are printed: in one shell, one after the other, in an empty directory.

use std::{net::TcpListener, path::Path, process::Stdio};

use agentanycast_tests::{report_skip, within};
use tokio::process::Command;

/// What ends the output of an example.
const END: &str = "=== the end of an example";

/// The shell examples, each with what its output shows.
fn examples(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("```sh\n").skip(1);
    let example = |block: &str| {
        let (code, _) = block.split_once("```").unwrap();
        let (_, shown) = code
            .split_once("# → ")
            .unwrap_or_else(|| panic!("nothing is expected of {code}"));
        (code.to_owned(), shown.trim().to_owned())
    };
    blocks.map(example).collect()
}

/// All of them as one script, without what a clean clone has to build first.
fn script(examples: &[(String, String)]) -> String {
    let is_built = |line: &&str| !line.starts_with("cargo build ") && !line.starts_with("export PATH=");
    let mut script = "begun=\ntrap 'kill $begun' EXIT\n".to_owned();
    for (code, _) in examples {
        for line in code.lines().filter(is_built) {
            script.push_str(line);
            script.push('\n');
            if line.ends_with(" &") {
                script.push_str("begun=\"$begun $!\"\n");
            }
        }
        script.extend(["echo '", END, "'\n"]);
    }
    script
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

#[tokio::test]
async fn the_examples_work() {
    let curl = Command::new("curl")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .await;
    if curl.is_err() {
        report_skip("there is no curl");
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bridge.md");
    let text = std::fs::read_to_string(path).unwrap();
    let examples = examples(&text.replace("8090", &free_port().to_string()));
    assert!(examples.len() >= 8, "{examples:?}");
    // `anycast` is beside the daemon.
    let mut path = agentanycast_tests::daemon::program()
        .parent()
        .unwrap()
        .as_os_str()
        .to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let home = tempfile::tempdir().unwrap();
    let run = Command::new("sh")
        .args(["-ec", &script(&examples)])
        .current_dir(home.path())
        .env("PATH", &path)
        .env("HOME", home.path())
        // Others on this network have nothing to do with it.
        .env("AGENTANYCAST_ENABLE_MDNS", "false")
        .kill_on_drop(true)
        .output();
    let output = within("the examples end", run).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaints}");
    let parts: Vec<&str> = said.split(END).collect();
    assert_eq!(parts.len(), examples.len() + 1, "{said}");
    for ((code, shown), said) in examples.iter().zip(parts) {
        assert!(said.contains(shown), "{code}\n{said}");
    }
}
