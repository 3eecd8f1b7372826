//! What signatures take alone: each step on one envelope, many times in a row, on one core.

use std::{hint::black_box, time::Instant};

use agentanycast_uamp::{
    canonical::envelope_hash, envelope::Envelope, jws::SigningIdentity, trust::TrustAnchors,
};

use crate::client;

/// How often a step is done.
const TIMES: u32 = 4000;

/// Largest envelope that is read, in bytes.
const MOST: usize = 1 << 20;

/// Prints the time of each step for both kinds of keys.
pub(crate) fn measure() {
    println!(
        "\n{:<10}{:>16}{:>18}{:>12}{:>14}",
        "µs", "make and sign", "read and hash", "hash alone", "key, verify"
    );
    for identity in [
        SigningIdentity::from_ed25519(&[2; 32]),
        SigningIdentity::from_p256(&[2; 32]).unwrap(),
    ] {
        let raw = client::envelope(&identity);
        let envelope = Envelope::read(&raw, MOST).unwrap();
        let anchors = TrustAnchors::default();
        let signed = time(|| client::envelope(&identity));
        let read = time(|| Envelope::read(&raw, MOST).unwrap());
        let hashed = time(|| envelope_hash(envelope.object()).unwrap());
        let verified = time(|| {
            let keys = anchors.keys_for(envelope.from(), &envelope.signature().unwrap());
            envelope.verify(&keys.unwrap()[0]).unwrap();
        });
        let name = identity.algorithm().as_str();
        println!("{name:<10}{signed:>16.1}{read:>18.1}{hashed:>12.1}{verified:>14.1}");
    }
}

/// Microseconds of one call.
fn time<R>(mut step: impl FnMut() -> R) -> f64 {
    for _ in 0..TIMES / 10 {
        black_box(step());
    }
    let begun = Instant::now();
    for _ in 0..TIMES {
        black_box(step());
    }
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
}
