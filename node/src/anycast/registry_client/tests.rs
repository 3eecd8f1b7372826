//! What is said of a refusal by a registry.

use super::*;

#[test]
fn a_refusal_for_two_clocks_says_how_far_they_are_apart_and_no_more_than_is_known() {
    let mut status = Status::unauthenticated("too late");
    let now = UNIX_EPOCH + Duration::from_hours(500_000);
    let said = refusal_text("relay:50052", &status, now);
    assert_eq!(said, "Unauthenticated: too late");
    let metadata = status.metadata_mut();
    metadata.insert(CLOCK_KEY, MetadataValue::from(1_800_000_394_000_u64));
    let said = refusal_text("relay:50052", &status, now);
    assert!(
        said.starts_with("this clock and relay:50052's differ by 394 s")
            && said.ends_with("set the clock that is wrong"),
        "{said}"
    );
    for (suspect, advice) in [(SUSPECT_SIGNER, "set this one"), (SUSPECT_RELAY, "set its clock")] {
        status
            .metadata_mut()
            .insert(SUSPECT_KEY, MetadataValue::from_static(suspect));
        let said = refusal_text("relay:50052", &status, now);
        assert!(said.ends_with(advice), "{said}");
    }
}

#[test]
fn a_registry_says_how_long_it_holds_whatever_the_clocks_say() {
    let mut metadata = MetadataMap::new();
    assert_eq!(registration_life(&metadata), None);
    for (said, taken) in [
        ("30000", Some(Duration::from_secs(30))),
        ("0", None),
        ("-1", None),
        ("18446744073709551615", Some(MAX_TTL)),
    ] {
        metadata.insert(LIFE_KEY, said.parse().unwrap());
        assert_eq!(registration_life(&metadata), taken, "{said}");
    }
}

#[test]
fn addresses_of_registries() {
    for right in [
        "relay.example:50052",
        "192.0.2.1:50052",
        "[2001:db8::1]:50052",
        "http://relay.example:50052",
        "http://relay.example:50052/",
        "https://relay.example:443",
        "https://[2001:db8::1]:50052/",
    ] {
        assert!(endpoint(right).is_ok(), "{right}");
    }
    for wrong in [
        "",
        "relay.example",
        ":50052",
        "relay.example:0",
        "relay.example:99999",
        "ftp://relay.example:1",
        "http://relay.example:50052/path",
        "relay example:50052",
        "user:pw@relay.example:50052",
        "http://user@relay.example:50052",
        "https://relay.example",
    ] {
        let error = endpoint(wrong).unwrap_err().to_string();
        assert!(
            error.contains("HOST:PORT, or http(s)://HOST:PORT"),
            "{wrong}: {error}"
        );
    }
}

#[test]
fn a_host_without_authorities_is_told_what_to_install() {
    let error = InvalidRegistry::Tls {
        address: "https://relay.example:443".to_owned(),
        cause: "no native certs found".to_owned(),
    };
    let text = error.to_string();
    for part in [
        "https://relay.example:443",
        "no native certs",
        "ca-certificates",
        "SSL_CERT_FILE",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_registry_that_cannot_write_down_has_it_all_the_same() {
    assert_eq!(
        answer_of(&Status::data_loss("no room")),
        RegistryAnswer::Done(DEFAULT_TTL)
    );
    assert_eq!(answer_of(&Status::unavailable("away")), RegistryAnswer::Failed);
}

#[test]
fn a_wrong_clock_does_not_matter() {
    let at = |offset: i64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        Some(prost_types::Timestamp {
            seconds: now + offset,
            nanos: 0,
        })
    };
    assert!(ttl(at(60)) > Duration::from_secs(50) && ttl(at(60)) <= Duration::from_mins(1));
    for odd in [None, at(-600), at(10_000_000)] {
        assert_eq!(ttl(odd), DEFAULT_TTL);
    }
}
