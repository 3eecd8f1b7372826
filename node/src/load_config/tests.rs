//! The layers against a model, every setting through every layer, every refusal by its kind.

use std::{cell::RefCell, collections::HashMap, fmt::Write as _, io, time::Duration};

use agentanycast_daemon_kit::settings::{InvalidValue, Raw, Setting, load};
use proptest::{option, prelude::*, sample::select};

use super::*;
use crate::config::{settings_table::NodeSetting, *};

const FILE: &str = "/home/u/.agentanycast/config.toml";

/// All settings.
fn settings() -> &'static [NodeSetting] {
    program().keys
}

/// A command line, an environment and a file.
#[derive(Clone, Debug, Default)]
struct ConfigInput {
    args: Vec<String>,
    env: HashMap<String, String>,
    file: Option<String>,
}

impl ConfigInput {
    fn args(args: &[&str]) -> Self {
        Self {
            args: args.iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }

    fn file(text: &str) -> Self {
        Self {
            file: Some(text.to_owned()),
            ..Self::default()
        }
    }

    fn env(name: &str, value: &str) -> Self {
        let name = format!("{ENVIRONMENT_PREFIX}{name}");
        Self {
            env: [(name, value.to_owned())].into(),
            ..Self::default()
        }
    }

    fn load(&self) -> Result<LoadedConfig, ConfigError> {
        let args = std::iter::once("agentanycastd").chain(self.args.iter().map(String::as_str));
        load(
            program(),
            args.map(OsString::from),
            |name| self.env.get(name).cloned(),
            |path| match &self.file {
                Some(text) if path == Path::new(FILE) => Ok(text.clone()),
                _ => Err(io::ErrorKind::NotFound.into()),
            },
            Some(Path::new("/home/u")),
        )
    }

    fn run(&self) -> (Config, ValueSources) {
        match self.load() {
            Ok(LoadedConfig::Run { config, sources }) => (*config, sources),
            other => panic!("{self:?}: {other:?}"),
        }
    }

    fn error(&self) -> ConfigError {
        self.load().expect_err(&format!("{self:?}"))
    }

    fn printed(&self) -> String {
        match self.load() {
            Ok(LoadedConfig::PrintConfig { text, .. }) => text,
            other => panic!("{self:?}: {other:?}"),
        }
    }
}

#[test]
fn nothing_given_is_the_documented_defaults() {
    let (config, sources) = ConfigInput::default().run();
    assert_eq!(config, Config::defaults(Some(Path::new("/home/u"))));
    assert_eq!(sources, ValueSources::default());
    assert_eq!(config.key_path, Path::new("/home/u/.agentanycast/key"));
    assert_eq!(config.store_path, Path::new("/home/u/.agentanycast/data"));
    assert_eq!(
        config.grpc_listen,
        GrpcListen::Unix("/home/u/.agentanycast/daemon.sock".into())
    );
    let addresses: Vec<String> = config.listen_addrs.iter().map(ToString::to_string).collect();
    let default = [
        "/ip4/0.0.0.0/tcp/0",
        "/ip4/0.0.0.0/udp/0/quic-v1",
        "/ip6/::/tcp/0",
        "/ip6/::/udp/0/quic-v1",
    ];
    assert_eq!(addresses, default);
    assert_eq!(config.offline_queue_ttl, Some(Duration::from_hours(24)));
    assert_eq!(config.retry_delays, [2, 4, 8].map(Duration::from_secs));
}

#[test]
fn the_deployed_clients_command_line_is_understood() {
    for dashes in ["-", "--"] {
        let args = [
            format!("{dashes}key=/k"),
            format!("{dashes}grpc-listen"),
            "unix:///s".to_owned(),
            format!("{dashes}log-level=debug"),
            format!("{dashes}bootstrap-peers=/ip4/192.0.2.1/tcp/4001,/dns4/relay.example/udp/4001/quic-v1"),
            format!("{dashes}transport=libp2p"),
            format!("{dashes}namespace=default"),
        ];
        let (config, sources) = ConfigInput {
            args: args.into(),
            ..ConfigInput::default()
        }
        .run();
        assert_eq!(config.key_path, Path::new("/k"));
        assert_eq!(config.grpc_listen, GrpcListen::Unix("/s".into()));
        assert_eq!(config.log_level, LogLevel::Debug);
        assert_eq!(config.bootstrap_peers.len(), 2);
        assert_eq!(sources.of("key_path").to_string(), "flag --key");
    }
}

#[test]
fn a_repeated_flag_counts_as_its_last() {
    assert_eq!(
        ConfigInput::args(&["--key", "/a", "-key=/b"]).run().0.key_path,
        Path::new("/b")
    );
}

#[test]
fn a_tilde_stands_for_the_home_everywhere() {
    let mut given = ConfigInput::file("store_path = '~/tasks'\ngrpc_token_file = '~/token'");
    given.env.insert("AGENTANYCAST_KEY_PATH".into(), "~/k".into());
    given.args = vec!["--grpc-listen=unix://~/s".into()];
    let (config, _) = given.run();
    assert_eq!(config.store_path, Path::new("/home/u/tasks"));
    assert_eq!(
        config.grpc.token_file.as_deref(),
        Some(Path::new("/home/u/token"))
    );
    assert_eq!(config.key_path, Path::new("/home/u/k"));
    assert_eq!(config.grpc_listen, GrpcListen::Unix("/home/u/s".into()));
}

#[test]
fn without_a_home_the_paths_have_to_be_given() {
    let load = |args: &[&str]| {
        let args = ["agentanycastd"].iter().chain(args).map(OsString::from);
        load(
            program(),
            args,
            |_| None,
            |_| Err(io::ErrorKind::NotFound.into()),
            None,
        )
    };
    let error = load(&[]).unwrap_err();
    assert!(
        matches!(&error, ConfigError::BadValue { key, .. } if key == "key_path"),
        "{error}"
    );
    assert!(load(&["--key=/k", "--store-path=/d", "--grpc-listen=tcp://127.0.0.1:0"]).is_ok());
}

#[test]
fn help_and_version_come_before_everything_else() {
    let mut given = ConfigInput::file("not toml");
    given.args = vec!["-version".into()];
    let version = LoadedConfig::Version(format!("agentanycastd {}\n", agentanycast_daemon_kit::VERSION));
    assert_eq!(given.load(), Ok(version));
    for flag in ["-h", "-help", "--help"] {
        let Ok(LoadedConfig::Help(text)) = ConfigInput::args(&[flag]).load() else {
            panic!("{flag}")
        };
        assert!(
            settings()
                .iter()
                .filter_map(|key| key.flag.as_ref())
                .all(|flag| text.contains(flag.name)),
            "{text}"
        );
    }
}

#[test]
fn without_quic_the_default_addresses_have_none() {
    let (config, _) = ConfigInput::file("enable_quic = false").run();
    let tcp = ["/ip4/0.0.0.0/tcp/0", "/ip6/::/tcp/0"];
    assert_eq!(config.listen_addrs, tcp.map(|address| address.parse().unwrap()));
}

#[test]
fn the_dht_is_the_meshs_own_unless_the_public_one_or_none_is_asked_for() {
    let anycast = ConfigInput::default().run().0.anycast;
    assert_eq!((anycast.enable_dht, anycast.dht_mode), (false, DhtMode::Auto));
    let anycast = ConfigInput::file("[anycast]\nenable_dht = true\ndht_mode = 'off'")
        .run()
        .0
        .anycast;
    assert_eq!((anycast.enable_dht, anycast.dht_mode), (true, DhtMode::Off));
}

#[test]
fn parameters_of_what_is_off_are_accepted() {
    ConfigInput::file(
        "[bridge]\nlisten = ':8080'\ncors_origins = ['*']\n[anycast]\nrouting_strategy = 'random'\n\
         cache_ttl = '1m'\nauto_register = true\ndht_mode = 'server'\n[metrics]\nlisten = '127.0.0.1:9090'\n\
         [telemetry]\nsample_rate = 0.5\ninsecure = true\n\
         [transport.nats]\nbroker = 'nats://localhost'\nauth_pass = 'x'\n[policy.rate_limit]\ndefault_rps = 0",
    )
    .run();
    ConfigInput::env("METRICS_LISTEN", ":9090").run();
    ConfigInput::args(&["--mcp=false", "--enable-webtransport=false"]).run();
}

/// However a collector is named, it is told; unless somebody says that it is not to be.
#[test]
fn a_collector_that_is_named_is_told() {
    let named = ConfigInput::file("[telemetry]\notlp_endpoint = 'otel:4317'");
    for given in [
        named.clone(),
        ConfigInput::env("OTLP_ENDPOINT", "otel:4317"),
        ConfigInput::args(&["--otlp-endpoint=otel:4317"]),
    ] {
        let (config, sources) = given.run();
        assert!(config.telemetry.enabled, "{given:?}");
        assert_eq!(
            sources.of("telemetry.enabled"),
            sources.of("telemetry.otlp_endpoint")
        );
    }
    let mut off = ConfigInput::env("TELEMETRY_ENABLED", "false");
    off.file.clone_from(&named.file);
    for given in [
        off,
        ConfigInput::file("[telemetry]\nenabled = false\notlp_endpoint = 'otel:4317'"),
        ConfigInput::file("[telemetry]\notlp_endpoint = ''\nsample_rate = 0.5"),
        ConfigInput::default(),
    ] {
        assert!(!given.run().0.telemetry.enabled, "{given:?}");
    }
    let mut printed = named;
    printed.args.push("--print-config".into());
    let line = format!("telemetry.enabled = true  # {FILE}:2");
    assert!(printed.printed().contains(&line), "{}", printed.printed());
}

/// A value of each setting that is not its default, as words.
fn other_value(key: &NodeSetting) -> String {
    let config = Config::defaults(None);
    let value = match (key.name, key.shown(&config).as_str()) {
        ("listen_addrs" | "bootstrap_peers", _) => "/ip4/127.0.0.1/tcp/9",
        ("grpc_listen", _) => "tcp://[::1]:9",
        ("log_level", _) => "warn",
        ("log_format", _) => "text",
        ("agents.deliver", _) => "all",
        ("agents.default_access", _) => "open",
        ("agents.socket", _) => "painter=unix:///run/painter.sock",
        ("agents.hand_over_timeout" | "agents.claim_within", _) => "90s",
        ("anycast.dht_mode", _) => "client",
        ("anycast.routing_strategy", _) => "round_robin",
        ("retry_delays", _) => "1s,90s",
        ("bridge.card", _) => "1.0",
        ("bridge.card_grpc", _) => "authority",
        ("bridge.max_body", _) => "1MiB",
        ("bridge.webhook_patience" | "bridge.wait_limit", _) => "3h",
        (name, _) if name.starts_with("bridge.limits.") => "7",
        (
            "policy.acl"
            | "policy.rate_limit.overrides"
            | "policy.groups"
            | "bridge.outbound"
            | "agents.run"
            | "agents.mcp",
            _,
        ) => "",
        ("policy.trust", _) => "known",
        ("policy.trusted_peers", _) => "did:web:a,http:b",
        (name, _) if name.ends_with(".listen") => "localhost:9",
        (_, "true") => "false",
        (_, "false") => "true",
        (_, "1.0" | "0.0") => "0.25",
        (_, "100000" | "4096" | "0" | "5") => "7",
        (name, _) if name.contains("bytes") || name.contains("quota") => "1536B",
        ("bridge.auth.leeway", _) => "90s",
        (_, shown) if shown.ends_with("h\"") || shown.ends_with("m\"") || shown.ends_with("d\"") => "90m",
        ("anycast.cache_ttl" | "max_task_time", _) => "1500ms",
        _ => "word",
    };
    value.to_owned()
}

/// The same value in TOML.
fn toml_value(key: &NodeSetting, word: &str) -> String {
    let mut config = Config::defaults(None);
    key.set_value(&mut config, &Raw::Word(word.to_owned()), None)
        .unwrap();
    key.shown(&config)
}

#[test]
fn every_setting_is_read_from_every_layer_it_has() {
    for key in settings() {
        let word = other_value(key);
        if key.name == "policy.groups" {
            continue; // A table; `a_policy_is_read_and_shown` has it.
        }
        let expected = toml_value(key, &word);
        // These are tables, and no word stands for one.
        let tables = [
            "policy.acl",
            "policy.rate_limit.overrides",
            "policy.groups",
            "bridge.outbound",
            "agents.run",
            "agents.mcp",
        ];
        let is_rule = tables.contains(&key.name);
        assert!(
            is_rule || expected != key.shown(&Config::defaults(None)),
            "{}",
            key.name
        );
        let shown = |given: ConfigInput, origin: &str| {
            let given = ConfigInput {
                args: [given.args, vec!["--print-config".into()]].concat(),
                ..given
            };
            let name = if key.in_file {
                key.name.to_owned()
            } else {
                format!("# --{}", key.flag.as_ref().unwrap().name)
            };
            let value = if key.secret { "\"***\"" } else { &expected };
            let line = format!("\n{name} = {value}  # {origin}\n");
            let text = format!("\n{}", given.printed());
            assert!(text.contains(&line), "{line} is not in {text}");
        };
        if key.in_file && !is_rule {
            shown(
                ConfigInput::file(&format!("{} = {expected}", key.name)),
                &format!("{FILE}:1"),
            );
        }
        if let Some(name) = key.variable {
            shown(
                ConfigInput::env(name, &word),
                &format!("environment AGENTANYCAST_{name}"),
            );
        }
        if let Some(flag) = &key.flag {
            shown(
                ConfigInput::args(&[&format!("-{}={word}", flag.name)]),
                &format!("flag --{}", flag.name),
            );
        }
    }
}

/// What is said of the audit log where there is none may be said, if it asks for nothing.
#[test]
fn a_log_that_is_not_wanted_needs_no_place() {
    ConfigInput::file("[policy]\naudit_chain = false\naudit_sync = false\naudit_required = false").run();
    let (config, _) =
        ConfigInput::file("[policy]\naudit_log_path = '/a'\naudit_sync = true\naudit_required = true").run();
    assert!(config.policy.audit_sync && config.policy.audit_required);
    let printed = ConfigInput::args(&["--print-config"]).printed();
    assert!(
        printed.contains("\n# policy.audit_required = true  # default\n"),
        "{printed}"
    );
}

#[test]
fn a_policy_is_read_and_shown() {
    let text = "[policy]\naudit_log_path = '~/audit.jsonl'\ntrust = 'known'\ntrusted_peers = ['ops']\n\
                [policy.groups]\nops = ['did:web:example.org*', 'http:olga']\n\
                [[policy.acl]]\nsource = 'ops'\nallow = true\n\
                [[policy.acl]]\nskill = 'admin/*'\nagent = 'vault'\nallow = false\n\
                [policy.rate_limit]\ndefault_rps = 5\nmax_in_flight = 100\nmax_bytes = '1MiB'\n\
                [[policy.rate_limit.overrides]]\nsource = 'local'\nrps = 0\nmax_in_flight = 0\n";
    let (config, _) = ConfigInput::file(text).run();
    let policy = &config.policy;
    assert_eq!(
        policy.audit_log_path.as_deref(),
        Some(Path::new("/home/u/audit.jsonl"))
    );
    assert_eq!((policy.trust, policy.default_rps), (TrustMode::Known, 5.0));
    assert_eq!(policy.groups.0["ops"], ["did:web:example.org*", "http:olga"]);
    let rule = |source: &str, skill: &str, allow| AclRule {
        source: source.to_owned(),
        skill: skill.to_owned(),
        agent: "*".to_owned(),
        allow,
    };
    let of_vault = AclRule {
        agent: "vault".to_owned(),
        ..rule("*", "admin/*", false)
    };
    assert_eq!(policy.acl, [rule("ops", "*", true), of_vault]);
    assert_eq!(
        (policy.overrides[0].rps, policy.overrides[0].max_bytes),
        (Some(0.0), None)
    );
    // What is shown is a file that says the same.
    let mut given = ConfigInput::file(text);
    given.args.push("--print-config".to_owned());
    let (again, _) = ConfigInput::file(&given.printed()).run();
    assert_eq!(&again.policy, policy);
}

#[test]
fn the_policy_of_the_documentation_is_one() {
    let text = include_str!("../../../docs/operating.md");
    let (_, rest) = text.split_once("```toml\n[policy]").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let peer = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
    let example = format!("[policy]{example}").replace("12D3KooW…", peer).replace(
        "did:key:z6Mk…",
        "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH",
    );
    let (config, _) = ConfigInput::file(&example).run();
    assert_eq!((config.policy.acl.len(), config.policy.overrides.len()), (3, 1));
}

/// Whoever looks a setting up finds each of them, with its default and its variable.
#[test]
fn the_documentation_has_every_setting() {
    let text = include_str!("../../../docs/operating.md");
    let (_, text) = text.split_once("\n## Settings\n").unwrap();
    let (text, _) = text.split_once("\n## ").unwrap();
    let defaults = Config::defaults(Some(Path::new("~")));
    let plain = |text: &str| text.replace(['"', '`', '[', ']'], "");
    for key in settings() {
        let name = match &key.flag {
            Some(flag) if !key.in_file => format!("`--{}`", flag.name),
            _ => format!("`{}`", key.name),
        };
        assert!(text.contains(&name), "{name} is in no document");
        let variable = key.variable.filter(|name| !name.starts_with("BRIDGE_"));
        assert!(
            variable.is_none_or(|variable| text.contains(&format!("`{variable}`"))),
            "{variable:?} is in no document"
        );
        let row = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("| {name} | ")));
        let shown = plain(&key.plain(&defaults));
        // Words instead of a value say what nothing means.
        if let Some(row) = row.filter(|row| row.starts_with('`') && !shown.is_empty()) {
            let default = row.split(" | ").next().and_then(|cell| cell.split("; ").next());
            assert_eq!(plain(default.unwrap_or_default()), shown, "{name}");
        }
    }
}

#[test]
fn names_are_unique() {
    for (place, key) in settings().iter().enumerate() {
        let after = &settings()[place + 1..];
        assert!(after.iter().all(|other| other.name != key.name), "{}", key.name);
        assert!(
            after
                .iter()
                .all(|other| key.variable.is_none() || other.variable != key.variable),
            "{}",
            key.name
        );
        let enables = key.flag.as_ref().and_then(|flag| flag.enables);
        assert!(
            enables.is_none_or(|switch| settings_table::find(switch).is_some()),
            "{}",
            key.name
        );
    }
}

#[test]
fn the_file_that_a_flag_names_must_be_there() {
    let error = ConfigInput::args(&["--config=/none.toml"]).error();
    assert!(
        matches!(&error, ConfigError::Unreadable { path, .. } if path == Path::new("/none.toml")),
        "{error}"
    );
    let read = RefCell::new(Vec::new());
    let file = |path: &Path| {
        read.borrow_mut().push(path.to_owned());
        Ok("log_level = 'warn'".to_owned())
    };
    let args = ["agentanycastd", "-config", "~/other.toml"].map(OsString::from);
    let loaded = load(
        program(),
        args.into_iter(),
        |_| None,
        file,
        Some(Path::new("/home/u")),
    )
    .unwrap();
    assert!(matches!(loaded, LoadedConfig::Run { config, .. } if config.log_level == LogLevel::Warn));
    assert_eq!(*read.borrow(), [Path::new("/home/u/other.toml")]);
}

#[test]
fn a_secret_is_never_shown() {
    let given = ConfigInput {
        args: vec![
            "--print-config".into(),
            "--nats-broker=nats://joe:hunter2@host:4222".into(),
        ],
        file: Some("[transport.nats]\nauth_pass = 'hunter2'\n".into()),
        ..ConfigInput::default()
    };
    let text = given.printed();
    assert!(
        !text.contains("hunter2") && text.contains("nats://***@host:4222"),
        "{text}"
    );
    let errors = [
        ConfigInput::file("[transport.nats]\nauth_pass = ['hunter2']").error(),
        ConfigInput::args(&["--transport=nats://joe:hunter2@host"]).error(),
    ];
    for error in errors {
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn what_is_printed_is_a_file_that_means_the_same() {
    let mut given = ConfigInput::args(&["--print-config", "--listen=/ip6/::1/tcp/7", "--key=/a \"b\" #c"]);
    given.file = Some("retry_delays = ['1500ms']\noffline_queue_ttl = '0'\n[mcp]\nlisten = ':1'".into());
    let printed = given.printed();
    given.args.remove(0);
    let (config, _) = given.run();
    assert_eq!(config.offline_queue_ttl, None);
    let values = |config: &Config| settings().iter().map(|key| key.shown(config)).collect::<Vec<_>>();
    assert_eq!(values(&ConfigInput::file(&printed).run().0), values(&config));
}

mod invalid_settings;
pub(super) mod parts;
mod schema;

/// Settings whose values a test can draw freely, with words for them.
fn drawn() -> impl Strategy<Value = (&'static str, [Option<String>; 3])> {
    let value = |name: &'static str| -> BoxedStrategy<String> {
        match name {
            "key_path" | "store_path" => "/[a-z]{1,8}".boxed(),
            "log_level" => select(vec!["error", "warn", "info", "debug", "trace"])
                .prop_map(Into::into)
                .boxed(),
            "bootstrap_peers" => "/ip4/192\\.0\\.2\\.[1-9]/tcp/[1-9]{1,4}".boxed(),
            _ => "unix:///[a-z]{1,8}".boxed(),
        }
    };
    let names = vec![
        "key_path",
        "grpc_listen",
        "log_level",
        "bootstrap_peers",
        "store_path",
    ];
    select(names).prop_flat_map(move |name| {
        let layer = || option::of(value(name));
        (Just(name), [layer(), layer(), layer()])
    })
}

proptest! {
    #[test]
    fn the_highest_layer_that_sets_a_value_wins(drawn in proptest::collection::vec(drawn(), 0..8)) {
        let settings: HashMap<&str, [Option<String>; 3]> = drawn.into_iter().collect();
        let mut given = ConfigInput::file("");
        let mut model = HashMap::new();
        for (name, [flag, env, file]) in &settings {
            let key = settings_table::find(name).unwrap();
            let flag_name = key.flag.as_ref().unwrap().name;
            let variable = format!("AGENTANYCAST_{}", key.variable.unwrap());
            let mut winner = (None, ValueSource::Default);
            if let (Some(value), Some(text)) = (file, given.file.as_mut()) {
                writeln!(text, "{name} = {}", toml_value(key, value)).unwrap();
                winner = (Some(value), ValueSource::File { path: FILE.into(), line: text.lines().count() });
            }
            if let Some(value) = env {
                given.env.insert(variable.clone(), value.clone());
                winner = (Some(value), ValueSource::Environment(variable));
            }
            if let Some(value) = flag {
                given.args.extend([format!("--{flag_name}"), value.clone()]);
                winner = (Some(value), ValueSource::Flag(format!("--{flag_name}")));
            }
            model.insert(key.name, winner);
        }
        let (config, sources) = given.run();
        for key in program().keys {
            let (value, source) = model.get(key.name).cloned().unwrap_or((None, ValueSource::Default));
            let default = key.shown(&Config::defaults(Some(Path::new("/home/u"))));
            let expected = value.map_or(default, |value| toml_value(key, value));
            prop_assert_eq!(key.shown(&config), expected);
            prop_assert_eq!(sources.of(key.name), source);
        }
    }

    #[test]
    fn what_is_shown_is_a_file_that_means_the_same(millis in 0_u64..1 << 40, bytes in 0..u64::MAX / 2, text in ".*") {
        let raw = |shown: &str| {
            let table = toml::from_str::<toml::Table>(&format!("x = {shown}")).unwrap();
            Raw::Text(table["x"].as_str().unwrap().to_owned())
        };
        let time = Duration::from_millis(millis);
        prop_assert_eq!(Duration::read(&raw(&time.show()), None), Ok::<_, InvalidValue>(time));
        let size = ByteSize(bytes);
        prop_assert_eq!(ByteSize::read(&raw(&size.show()), None), Ok::<_, InvalidValue>(size));
        prop_assert_eq!(String::read(&raw(&text.show()), None), Ok::<_, InvalidValue>(text));
    }

    #[test]
    fn any_command_line_and_file_is_an_answer(args in proptest::collection::vec(".*", 0..4), file in ".*") {
        let error = |given: ConfigInput| given.load().err().map(|error| error.to_string()).unwrap_or_default();
        for line in [error(ConfigInput { args, ..ConfigInput::default() }), error(ConfigInput::file(&file))] {
            prop_assert!(!line.contains('\n'), "{line}");
        }
    }
}
