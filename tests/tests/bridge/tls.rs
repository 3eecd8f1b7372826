//! TLS: by a client that checks the certificate, over HTTP/1.1 and HTTP/2.

use std::{fs, process::Stdio};

use agentanycast_tests::{Bridge, report_skip, within};
use tokio::process::Command;

use crate::setup::BridgeSetup;

#[tokio::test]
async fn clients_that_check_the_certificate_are_served() {
    let curl = Command::new("curl")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .await;
    if curl.is_err() {
        report_skip("there is no curl");
        return;
    }
    let scene = BridgeSetup::talking().await;
    let home = scene.pair.bob.home().path().to_owned();
    let (cert, key) = (home.join("cert.pem"), home.join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.key_pair.serialize_pem()).unwrap();
    let (cert_flag, key_flag) = (
        format!("--tls-cert={}", cert.display()),
        format!("--tls-key={}", key.display()),
    );
    let bridge = Bridge::start_with(&scene.pair.bob, &[&cert_flag, &key_flag]).await;
    let url = format!("https://localhost:{}{}", bridge.address().port(), scene.path());
    for version in ["--http1.1", "--http2"] {
        let run = Command::new("curl")
            .args(["-sS", "--fail-with-body", version, "--cacert"])
            .arg(&cert)
            .arg(format!("{url}/.well-known/agent-card.json"))
            .output();
        let output = within("curl ends", run).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains(&url),
            "{said} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // Without TLS nothing is said, and nobody is kept waiting.
    let plain = Command::new("curl")
        .args(["-sS", "-o", "/dev/null", "--max-time", "30"])
        .arg(format!("http://{}/", bridge.address()))
        .stderr(Stdio::null())
        .status();
    assert!(!within("curl ends", plain).await.unwrap().success());
}
