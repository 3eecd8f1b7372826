//! The schema of the file against what the file may have: both take the same, as far as a schema can say it.

use std::sync::LazyLock;

use agentanycast_daemon_kit::settings::Bounds;
use jsonschema::Validator;
use serde_json::Value;

use super::*;

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| jsonschema::draft202012::new(&schema()).unwrap());

/// What the schema says of a file: nothing, or what is wrong with it.
fn complaints(text: &str) -> Vec<String> {
    let file: Value = toml::from_str(text).unwrap();
    let complaints = VALIDATOR.iter_errors(&file);
    complaints
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// The schema of a setting.
fn of(name: &str) -> Value {
    let path = name.split('.').map(|part| format!("/properties/{part}"));
    let found = schema().pointer(&path.collect::<String>()).cloned();
    found.unwrap_or_else(|| panic!("{name} is not in the schema"))
}

/// As a file has it.
fn line(name: &str, value: &str) -> String {
    format!("{name} = {value}\n")
}

#[test]
fn it_is_a_schema_and_has_every_setting() {
    assert!(jsonschema::draft202012::meta::is_valid(&schema()));
    for key in settings().iter().filter(|key| key.in_file) {
        let schema = of(key.name);
        let description = schema["description"].as_str().unwrap();
        assert!(!description.is_empty(), "{} is not described", key.name);
        assert!(!schema["default"].is_null(), "{}: {schema}", key.name);
    }
    assert!(
        schema()
            .pointer("/properties/transport/properties/nats")
            .is_some()
    );
    assert!(schema().pointer("/properties/namespace").is_none(), "only a flag");
}

#[test]
fn files_that_are_read_are_valid() {
    let defaults = Config::defaults(None);
    let written = |key: &&NodeSetting| key.in_file && key.only_with.is_none();
    let all: String = settings()
        .iter()
        .filter(written)
        .map(|key| line(key.name, &key.shown(&defaults)))
        .collect();
    let of_package = include_str!("../../../../deploy/debian/config.toml");
    // Its examples too.
    let shown = of_package
        .replace("\n# bootstrap", "\nbootstrap")
        .replace("\n# listen", "\nlisten");
    assert_ne!(of_package, shown);
    let hosts = r#"
        [bridge.outbound]
        patience = "1m"
        [bridge.outbound."api.example.org:8443"]
        bearer_token_file = "~/token"
        [bridge.outbound.api.example.org]
        oauth2_token_url = "https://id.example.org/token"
        oauth2_client_id = "me"
        oauth2_client_secret = "hush"
        oauth2_scopes = ["a"]
    "#;
    let policy = r#"
        [policy]
        acl = [{ source = "team", allow = true }]
        rate_limit = { max_bytes = 65536, overrides = [{ source = "*", rps = 1.5, max_bytes = "1 MiB" }] }
        groups = { team = ["local"] }
    "#;
    let times = "offline_queue_ttl = 0\nretry_delays = [\"1h30m\", \"500ms\"]\nstore_quota = \"20gib\"";
    for text in [&all, "", of_package, hosts, policy, times] {
        ConfigInput::file(text).run();
        assert_eq!(complaints(text), Vec::<String>::new(), "{text}");
    }
    // A peer id in it is cut short.
    assert_eq!(complaints(&shown), Vec::<String>::new());
}

#[test]
fn what_is_refused_by_its_name_or_type_is_not_valid() {
    for text in [
        "log_levle = \"info\"",
        "[bridge]\nlisen = \"127.0.0.1:1\"",
        "[bridge.outbound]\npatiense = \"1m\"",
        "[bridge.outbound.host]\nbarer_token = \"x\"",
        "[polcy]\n",
        "transport = \"auto\"",
        "log_level = \"loud\"",
        "log_level = 1",
        "enable_mdns = \"yes\"",
        "max_open_tasks = \"7\"",
        "max_open_tasks = -1",
        "offline_queue_ttl = 7",
        "offline_queue_ttl = \"soon\"",
        "store_quota = \"1 parsec\"",
        "grpc_listen = \"/tmp/socket\"",
        "bootstrap_peers = \"/ip4/192.0.2.1/tcp/1\"",
        "listen_addrs = [\"localhost\"]",
        "[telemetry]\nsample_rate = 1.5",
        "[metrics]\nlisten = \"here\"",
        "[policy]\nacl = [{ source = \"*\" }]",
        "[policy.rate_limit]\noverrides = [{ source = \"*\" }]",
        "[policy]\ngroups = { team = \"local\" }",
    ] {
        ConfigInput::file(text).error();
        assert!(!complaints(text).is_empty(), "{text}");
    }
}

/// What else has to be set so that a check looks at a setting.
fn beside(name: &str) -> &'static str {
    match name {
        "policy.trusted_peers" | "policy.trusted_issuers" => "policy.trust = \"known\"\n",
        _ if name.starts_with("bridge.") => "bridge.enabled = true\n",
        "store_quota" => "max_artifact_bytes = 1\n",
        _ => "",
    }
}

/// One entry of a list.
fn entry(name: &str, number: usize) -> String {
    match name {
        "retry_delays" => "\"1s\"".to_owned(),
        "policy.acl" => "{ allow = true }".to_owned(),
        "agents.socket" => "{ name = 'a', listen = 'tcp://127.0.0.1:1' }".to_owned(),
        "policy.rate_limit.overrides" => "{ source = \"*\", rps = 1 }".to_owned(),
        "policy.trusted_peers" => "\"12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK\"".to_owned(),
        "agents.run" | "agents.mcp" => format!("{{ name = \"a{number}\", command = [\"x\"] }}"),
        _ => format!("\"did:web:host{number}.example\""),
    }
}

#[test]
fn bounds_are_those_of_the_checks() {
    let mut bounded = 0;
    for (key, bounds) in settings().iter().filter_map(|key| Some((key, key.bounds?))) {
        let name = key.name;
        let (inside, outside) = match bounds {
            Bounds::Numbers(least, most) => {
                let too_many = (most < u64::MAX).then(|| most + 1);
                let outside =
                    [least.checked_sub(1), too_many].map(|value| value.map(|value| value.to_string()));
                (vec![least.to_string()], outside)
            }
            Bounds::Sizes(least, most) => {
                let too_many = (most < u64::MAX).then(|| most + 1);
                let outside =
                    [least.checked_sub(1), too_many].map(|value| value.map(|value| value.to_string()));
                (vec![least.to_string()], outside)
            }
            Bounds::Times(least, most) => {
                let millisecond = Duration::from_millis(1);
                let too_long = (most < Duration::MAX).then(|| most + millisecond);
                let too_short = least.checked_sub(millisecond);
                let written = |time: Duration| format!("\"{}ms\"", time.as_millis());
                (
                    vec![written(least)],
                    [too_short, too_long].map(|time| time.map(written)),
                )
            }
            Bounds::Items(least, most) => {
                let list = |count: usize| {
                    let entries: Vec<String> = (0..count).map(|number| entry(name, number)).collect();
                    format!("[{}]", entries.join(", "))
                };
                (
                    vec![list(least), list(most)],
                    [least.checked_sub(1), Some(most + 1)].map(|count| count.map(list)),
                )
            }
        };
        let has_keywords = matches!(bounds, Bounds::Numbers(..) | Bounds::Items(..));
        for value in inside {
            let text = format!("{}{}", beside(name), line(name, &value));
            ConfigInput::file(&text).run();
            assert_eq!(complaints(&text), Vec::<String>::new(), "{name}");
        }
        for value in outside.into_iter().flatten() {
            let text = format!("{}{}", beside(name), line(name, &value));
            let error = ConfigInput::file(&text).error().to_string();
            assert!(error.contains(name), "{error}");
            assert_eq!(complaints(&text).is_empty(), !has_keywords, "{name}");
        }
        let description = of(name)["description"].clone();
        let words = ["; from ", "; at least "].map(|words| description.as_str().unwrap().contains(words));
        let is_said = has_keywords || words.contains(&true);
        assert!(is_said, "{name}: {description}");
        bounded += 1;
    }
    assert!(bounded > 15, "{bounded}");
}
