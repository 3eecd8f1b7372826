//! Every setting through every layer, and each refusal by the line that people see.

use std::io;

use agentanycast_daemon_kit::settings::{Raw, load};

use super::{setting_table::KEYS, *};

fn loaded(args: &[&str], env: &[(&str, &str)], file: &str) -> Result<RelayLoadOutcome, ConfigError> {
    let args = std::iter::once("agentanycast-relay")
        .chain(args.iter().copied())
        .map(OsString::from);
    let variable = |name: &str| {
        env.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let read = |path: &Path| match path.to_str() {
        Some("/relay.toml") => Ok(file.to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    load(&PROGRAM, args, variable, read, Some(Path::new("/home/u")))
}

/// Whoever looks a setting up finds each of them.
#[test]
fn the_documentation_has_every_setting() {
    let text = include_str!("../../../docs/operating.md");
    let (_, text) = text.split_once("\n# Operating a relay\n").unwrap();
    for flag in KEYS.iter().filter_map(|key| key.flag) {
        let named = |end: &str| text.contains(&format!("--{}{end}", flag.name));
        assert!(
            named("`") || named(" ") || named("="),
            "--{} is in no document",
            flag.name
        );
    }
}

fn config(args: &[&str]) -> Config {
    match loaded(args, &[], "") {
        Ok(RelayLoadOutcome::Run { config, .. }) => *config,
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let config = config(&[]);
    assert_eq!(config, Config::defaults(None));
    let both = ["/ip4/0.0.0.0/tcp/4001", "/ip6/::/tcp/4001"];
    assert_eq!(config.listen, both.map(|address| address.parse().unwrap()));
    assert_eq!(
        (
            config.max_reservations,
            config.max_circuits,
            config.max_circuits_per_peer
        ),
        (128, 1024, 16)
    );
    assert_eq!(config.registry_listen.to_bind(), "[::]:50052");
    assert_eq!(ListenOn("[::1]:7".into()).to_bind(), "[::1]:7");
}

/// A value of each setting that is not its default.
fn other_value(name: &str, default: &str) -> &'static str {
    match name {
        "listen" | "announce" => "/ip4/192.0.2.1/tcp/9",
        "key" | "store" => "/somewhere",
        "registry_auth" => "signed",
        "log_level" => "warn",
        "log_format" => "text",
        "federation_peers" => "relay.example:50052",
        "api_cors_origins" => "https://example.org",
        "otlp_endpoint" => "http://x:4317",
        "otlp_sample_rate" => "0.5",
        name if name.ends_with("_listen") => "localhost:9",
        "entry_bytes_per_ip" | "circuit_bytes" => "2GiB",
        _ if default == "false" => "true",
        _ if default.starts_with('"') => "7s",
        _ => "77",
    }
}

#[test]
fn every_setting_is_read_from_every_layer() {
    for key in KEYS {
        let defaults = Config::defaults(None);
        let word = other_value(key.name, &(key.show)(&defaults));
        let mut expected = defaults.clone();
        (key.set)(&mut expected, &Raw::Word(word.to_owned()), None).unwrap();
        let value = (key.show)(&expected);
        assert_ne!(value, (key.show)(&defaults), "{}", key.name);
        let flag = key.flag.unwrap().name;
        assert_eq!(flag.replace('-', "_"), key.name);
        assert_eq!(key.variable.unwrap().to_ascii_lowercase(), key.name);
        let variable = format!("{ENVIRONMENT_PREFIX}{}", key.variable.unwrap());
        let file = format!("{} = {value}", key.name);
        let given = format!("-{flag}={word}");
        type LayerInput<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
        let ways: [LayerInput<'_>; 3] = [
            (&["--print-config", &given], &[], "flag --"),
            (
                &["--print-config"],
                &[(&variable, word)],
                "environment AGENTANYCAST_RELAY_",
            ),
            (&["--print-config", "--config=/relay.toml"], &[], "/relay.toml:1"),
        ];
        for (args, env, origin) in ways {
            let Ok(RelayLoadOutcome::PrintConfig { text, .. }) = loaded(args, env, &file) else {
                panic!("{args:?}")
            };
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("{} = ", key.name)))
                .unwrap();
            assert!(
                line.starts_with(&format!("{} = {value}  # {origin}", key.name)),
                "{line}"
            );
        }
    }
}

#[test]
fn what_cannot_work_is_refused_in_one_line() {
    let cases: [(&[&str], &str); 23] = [
        (&["--listen=/ip4/0.0.0.0/udp/4001/quic-v1"], "listen"),
        (&["--listen="], "at least one"),
        (&["--announce=/ip4/0.0.0.0/tcp/1"], "announce"),
        (&["--announce=/ip4/192.0.2.1/tcp/1/http"], "announce"),
        (&["--announce=/dns4/relay.example"], "announce"),
        (&["--max-reservations-per-ip=0"], "from 1"),
        (&["--federation-peers=user:pw@relay.example:1"], "HOST:PORT"),
        (&["--circuit-duration=0"], "at least 1s"),
        (&["--circuit-duration=4294967296s"], "100 years"),
        (&["--circuit-bytes=0"], "at least 1B"),
        (&["--max-circuits=0"], "from 1"),
        (&["--registry-ttl=10ms"], "from 1s to 24h"),
        (&["--registry-ttl", "-3s"], "\"-3s\" (flag --registry-ttl)"),
        (&["-max-circuits", "-1"], "\"-1\" (flag --max-circuits)"),
        (&["--registry-listen="], "HOST:PORT"),
        (&["--federation-peers=relay.example"], "HOST:PORT"),
        (&["--federation-sync-interval=0"], "100ms"),
        (&["--api-cors-origins=example.org"], "https://example.org"),
        (&["--enable-webtransport"], "does not have"),
        (&["--otlp-sample-rate=1.5"], "from 0 to 1"),
        (&["--otlp-sample-rate=-1"], "from 0 to 1"),
        (&["--registry-auth=maybe"], "one of open signed"),
        (&["--max-reservation=1"], "did you mean --max-reservations"),
    ];
    for (args, expected) in cases {
        let error = loaded(args, &[], "").unwrap_err().to_string();
        assert!(
            error.contains(expected) && !error.contains('\n'),
            "{args:?}: {error}"
        );
    }
    for announced in [
        "/dns4/relay.example/tcp/443/wss",
        "/ip4/192.0.2.1/udp/1/quic-v1",
        "/dnsaddr/relay.example",
    ] {
        assert_eq!(config(&[&format!("--announce={announced}")]).announce.len(), 1);
    }
    let one = config(&["--max-reservations=9"]);
    assert_eq!(one.max_reservations_per_ip, 5, "half of it");
    let both = config(&["--max-reservations=9", "--max-reservations-per-ip=9"]);
    assert_eq!(both.max_reservations_per_ip, 9);
    // Deployed scripts ask for it; the relay says so and runs.
    assert_eq!(
        config(&["--mcp-listen=:8080"]).mcp_listen,
        ListenOn(":8080".into())
    );
}
