//! `anycast ping` of a peer that is there, of one that ends, and of one that nobody is.

use super::{ABSENT_PEER, RunningCommand, command, document, run};

#[test]
fn a_peer_answers_until_it_is_gone() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _daemon = RunningCommand::daemon(here.path());
    let other = RunningCommand::daemon(there.path());
    let status = document(there.path(), &["status"]);
    let peer = status["peer_id"].as_str().unwrap();
    let address = format!("{}/p2p/{peer}", status["addresses"][0].as_str().unwrap());
    let (text, code) = run(here.path(), &["ping", &address, "-c", "3", "-i", "100ms"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(text.matches("answer in ").count(), 3, "{text}");
    assert!(
        text.contains("directly over TCP at /ip4/127.0.0.1/tcp/"),
        "{text}"
    );
    assert!(text.contains("3 sent, 3 answered, 0 % lost"), "{text}");
    let measured = document(here.path(), &["ping", peer, "-c", "2", "-i", "100ms"]);
    assert_eq!(
        (&measured["via"], &measured["transport"]),
        (&"direct".into(), &"tcp".into()),
        "{measured}"
    );
    assert_eq!(measured["loss"], 0.0, "{measured}");
    let mean = measured["round_trip_ms"]["mean"].as_f64().unwrap();
    assert!(mean > 0.0 && mean < 5000.0, "{measured}");

    // Ctrl-C ends it with what it has counted.
    let mut child = command(here.path())
        .args(["ping", peer, "-c", "0", "-i", "100ms"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert!(line.starts_with("answer in "), "{line}");
    let id = child.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-s", "INT", &id])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    assert!(rest.contains(" answered, "), "{rest}");

    drop(other);
    let (text, code) = run(here.path(), &["ping", peer]);
    assert_eq!(code, Some(4), "{text}");
    assert_eq!(run(here.path(), &["ping", ABSENT_PEER]).1, Some(4));
    assert_eq!(run(here.path(), &["ping", "nobody"]).1, Some(4));
}

/// Nothing else goes over the connection that would wake it.
#[test]
fn a_peer_answers_over_quic() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for home in [here.path(), there.path()] {
        let (text, code) = run(home, &["up", "--listen", "/ip4/127.0.0.1/udp/0/quic-v1"]);
        assert_eq!(code, Some(0), "{text}");
    }
    let status = document(there.path(), &["status"]);
    let peer = status["peer_id"].as_str().unwrap();
    let address = format!("{}/p2p/{peer}", status["addresses"][0].as_str().unwrap());
    let (text, code) = run(here.path(), &["ping", &address, "-c", "5", "-i", "1s"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("directly over QUIC"), "{text}");
    assert!(text.contains("5 sent, 5 answered, 0 % lost"), "{text}");
    for home in [here.path(), there.path()] {
        assert_eq!(run(home, &["down"]).1, Some(0));
    }
}
