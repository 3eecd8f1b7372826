//! Boxes for ways that are not peer to peer, against PyNaCl: what one side seals the other opens.

use std::fmt::Write as _;

use agentanycast_identity::{Keypair, peer_id, sealed_box};
use agentanycast_tests::within;

use crate::client_env::{python, scripts};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // A text takes what is written.
        text
    })
}

fn from_hex(text: &str) -> Vec<u8> {
    let pairs = text.trim().as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// What PyNaCl makes of it.
async fn by_pynacl(what: &str, own: &Keypair, other: &Keypair, content: &[u8]) -> Vec<u8> {
    let own = own.clone().try_into_ed25519().unwrap();
    let other = other.public().try_into_ed25519().unwrap();
    let mut command = tokio::process::Command::new(python());
    command.arg(scripts().join("python/boxes.py")).arg(what);
    command.args([hex(own.secret().as_ref()), hex(&other.to_bytes()), hex(content)]);
    let output = within("the script ends", command.output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    from_hex(&String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn what_one_side_seals_the_other_opens() {
    let [ours, theirs] = [(); 2].map(|()| Keypair::generate_ed25519());
    for content in [&b"x"[..], b"an envelope", &[0; 5000]] {
        let sealed_here = sealed_box::seal(&ours, peer_id(&theirs), rand::random(), content).unwrap();
        assert_eq!(by_pynacl("open", &theirs, &ours, &sealed_here).await, content);
        let sealed_there = by_pynacl("seal", &theirs, &ours, content).await;
        assert_eq!(
            sealed_box::open(&ours, peer_id(&theirs), &sealed_there).unwrap(),
            content
        );
    }
}
