//! Every refusal: its kind, and that its line names the value, where it came from and what is allowed.

use super::*;

/// The one line that people see.
fn line(error: &ConfigError, parts: &[&str]) {
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn unknown_flags() {
    let cases = [
        ("--grpc-lisen=unix:///x", "--grpc-lisen", Some("--grpc-listen")),
        ("-bootstrap-peer", "--bootstrap-peer", Some("--bootstrap-peers")),
        ("--print-confg", "--print-confg", Some("--print-config")),
        ("--zzz", "--zzz", None),
        // By the name in the file, where the flag has another one.
        ("--key-path=x", "--key-path", Some("--key")),
        ("--listen-addrs=x", "--listen-addrs", Some("--listen")),
    ];
    for (arg, shown, meant) in cases {
        let error = ConfigInput::args(&[arg]).error();
        let ConfigError::UnknownFlag { given, suggestion } = &error else {
            panic!("{error:?}")
        };
        assert_eq!((given.as_str(), suggestion.as_deref()), (shown, meant));
        line(&error, &[shown, meant.unwrap_or("--help")]);
    }
}

#[test]
fn settings_without_a_flag() {
    let cases = [
        (
            "--enable-mdns",
            "AGENTANYCAST_ENABLE_MDNS in the environment, or enable_mdns in the file",
        ),
        (
            "-enable_mdns=true",
            "AGENTANYCAST_ENABLE_MDNS in the environment, or enable_mdns in the file",
        ),
        (
            "--registry-addrs=a:1",
            "AGENTANYCAST_REGISTRY_ADDRS in the environment, or anycast.registry_addrs in the file",
        ),
        ("--enable-upnp", "set enable_upnp in the file of --config"),
        ("--routing-strategy", "set anycast.routing_strategy in the file"),
    ];
    for (arg, said) in cases {
        let error = ConfigInput::args(&[arg]).error();
        assert!(matches!(error, ConfigError::NoFlag { .. }), "{error:?}");
        line(&error, &[said]);
    }
    for setting in settings().iter().filter(|key| key.flag.is_none()) {
        let arg = format!("--{}", setting.name.replace(['.', '_'], "-"));
        let error = ConfigInput::args(&[&arg]).error();
        let ConfigError::NoFlag { key, variable, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(*key, setting.name);
        assert_eq!(variable.is_some(), setting.variable.is_some());
    }
}

#[test]
fn misused_flags() {
    let cases = [
        (vec!["--key"], "needs a value"),
        (vec!["--key", "--mcp"], "needs a value"),
        (vec!["word"], "belongs to no flag"),
        (vec!["--print-config=yes"], "takes no value"),
    ];
    for (args, reason) in cases {
        let error = ConfigInput::args(&args).error();
        assert!(matches!(error, ConfigError::Usage { .. }), "{error:?}");
        line(&error, &[reason]);
    }
}

#[test]
fn unknown_keys() {
    let cases = [
        ("\nkey_pth = 'x'", "key_pth", 2, Some("key_path")),
        ("[mcp]\nlisen = 'x'", "mcp.lisen", 2, Some("mcp.listen")),
        ("[qqq]\na = 1", "qqq", 1, None),
        ("mcp = 1", "mcp", 1, None),
        ("namespace = 'default'", "namespace", 1, None),
        ("[transport.nats.x]\ny = 1", "transport.nats.x", 1, None),
    ];
    for (text, name, at, meant) in cases {
        let error = ConfigInput::file(text).error();
        let ConfigError::UnknownKey {
            key,
            origin,
            suggestion,
            ..
        } = &error
        else {
            panic!("{error:?}")
        };
        assert_eq!(
            (key.as_str(), origin.clone()),
            (
                name,
                ValueSource::File {
                    path: FILE.into(),
                    line: at
                }
            )
        );
        assert!(meant.is_none() || suggestion.as_deref() == meant, "{error}");
        line(&error, &[name, &format!("{FILE}:{at}")]);
    }
}

/// A table that is a value: a rule, limits of somebody, a host.
#[test]
fn unknown_keys_of_entries() {
    let rule = "[[policy.acl]]\nallow = true\n";
    let limits = "[[policy.rate_limit.overrides]]\nsource = 'local'\nrps = 1\n";
    let cases = [
        (
            rule,
            "sorce = '*'",
            1,
            "policy.acl.sorce",
            "did you mean policy.acl.source?",
        ),
        (
            "",
            "[[policy.acl]]\nallw = false",
            1,
            "policy.acl.allw",
            "did you mean policy.acl.allow?",
        ),
        (
            rule,
            "[[policy.acl]]\nsorce = 'hush'",
            3,
            "policy.acl.sorce",
            "policy.acl.source?",
        ),
        (
            rule,
            "colour = 'red'",
            1,
            "policy.acl.colour",
            "allow = true|false",
        ),
        (
            limits,
            "max_inflight = 1",
            1,
            "policy.rate_limit.overrides.max_inflight",
            "did you mean policy.rate_limit.overrides.max_in_flight?",
        ),
        (
            limits,
            "x = 1",
            1,
            "policy.rate_limit.overrides.x",
            "max_in_flight = NUMBER",
        ),
        (
            "[bridge]\n",
            "outbound = { patince = '1m' }",
            2,
            "bridge.outbound.patince",
            "bridge.outbound.patience?",
        ),
        (
            "[bridge]\n",
            "outbound.'a.example' = { barer_token_file = '/hush' }",
            2,
            "bridge.outbound.a.example.barer_token_file",
            "did you mean bridge.outbound.a.example.bearer_token_file?",
        ),
        (
            "[bridge]\n",
            "outbound.h = { x = 'hush' }",
            2,
            "bridge.outbound.h.x",
            "cards_from",
        ),
    ];
    for (before, wrong, at, name, said) in cases {
        let error = ConfigInput::file(&format!("{before}{wrong}\n")).error();
        assert!(
            matches!(&error, ConfigError::UnknownKey { key, .. } if key == name),
            "{error:?}"
        );
        line(&error, &[&format!("unknown key {name} ({FILE}:{at}); "), said]);
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}

/// Those of the relay, the bridge and the SDKs may stand in the same environment.
#[test]
fn the_variables_of_other_programs_are_nobodys_mistake() {
    let own = settings().iter().filter_map(|key| key.variable).chain(["CONFIG"]);
    let of_others = [
        "RELAY_CONFIG",
        "RELAY_KEY",
        "BRIDGE_DAEMON",
        "BRIDGE_CONFIG",
        "BRIDGE_LOG_LEVEL",
        "RELAY",
        "HOME",
        "DAEMON",
        "DAEMON_PATH",
        "SKIP_DOWNLOAD",
        "REVISION",
        "REQUIRE_LAB",
        "TEST_PYTHON",
    ];
    for name in own.chain(of_others) {
        let name = OsString::from(format!("{ENVIRONMENT_PREFIX}{name}"));
        assert_eq!(settings::unknown_variables(program(), std::iter::once(name)), []);
    }
    let policy = OsString::from("AGENTANYCAST_TRUSTED_PEERS");
    let unknown = settings::unknown_variables(program(), std::iter::once(policy));
    assert_eq!(
        unknown[0].near.as_deref(),
        Some("policy.trusted_peers in the configuration file")
    );
}

/// What is given | the setting | the value as shown | where it came from | what is allowed.
#[rustfmt::skip] // A table.
const NOT_ALLOWED: &str = r#"
    --log-level=loud                    | log_level             | "loud"        | flag --log-level    | error warn info debug trace
    --grpc-listen=/tmp/x                | grpc_listen           | "/tmp/x"      | flag --grpc-listen  | unix://PATH
    --grpc-listen=tcp://h               | grpc_listen           | "tcp://h"     | flag --grpc-listen  | tcp://HOST:PORT
    --grpc-listen=tcp://h:+1            | grpc_listen           | "tcp://h:+1"  | flag --grpc-listen  | tcp://HOST:PORT
    --grpc-listen=tcp://h:65536         | grpc_listen           | h:65536"      | flag --grpc-listen  | tcp://HOST:PORT
    --grpc-listen=tcp://::1:5           | grpc_listen           | "tcp://::1:5" | flag --grpc-listen  | tcp://HOST:PORT
    --grpc-listen=unix://               | grpc_listen           | "unix://"     | flag --grpc-listen  | unix://PATH
    --key=~joe/key                      | key_path              | "~joe/key"    | flag --key          | ~/…
    --key=                              | key_path              | ""            | flag --key          | a path
    --mcp=maybe                         | mcp.stdio             | "maybe"       | flag --mcp          | true or false
    --transport=tcp                     | transport             | "tcp"         | flag --transport    | auto or libp2p
    --namespace=A_b                     | namespace             | "A_b"         | flag --namespace    | a-z
    --bridge-listen=here                | bridge.listen         | "here"        | flag --bridge-listen | HOST:PORT
    --bridge-listen=:8080               | bridge.listen         | ":8080"       | flag --bridge-listen | --bridge-allow-remote
    --mcp-listen=:8080                  | mcp.listen            | ":8080"       | flag --mcp-listen   | --bridge-allow-remote
    [bridge];enabled = true;tls_key = '/k' | bridge.tls_cert    | ""            | default             | the other half
    --listen=/ip4/1.2.3.4               | listen_addrs          | "/ip4/1.2.3.4" | flag --listen      | tcp/PORT
    --listen=/ip4/0.0.0.0/tcp/1,x       | listen_addrs          | "x"           | flag --listen       | multiaddr
    --listen=/dns4/a/tcp/1              | listen_addrs          | "/dns4/a/tcp/1" | flag --listen     | this host
    $ENABLE_MDNS=oui                    | enable_mdns           | "oui"         | environment AGENTANYCAST_ENABLE_MDNS | true or false
    $SAMPLE_RATE=1.5                    | telemetry.sample_rate | "1.5"         | environment AGENTANYCAST_SAMPLE_RATE | from 0 to 1
    $SAMPLE_RATE=-1                     | telemetry.sample_rate | "-1"          | environment AGENTANYCAST_SAMPLE_RATE | a number from 0 to 1
    $SAMPLE_RATE=NaN                    | telemetry.sample_rate | "NaN"         | environment         | a number
    $BOOTSTRAP_PEERS=/ip4/0.0.0.0/tcp/1 | bootstrap_peers       | 0.0.0.0/tcp/1" | environment        | dialled
    $BOOTSTRAP_PEERS=/ip4/192.0.2.1/tcp/0 | bootstrap_peers     | tcp/0"        | environment         | dialled
    $BOOTSTRAP_PEERS=/ip4/192.0.2.1/tcp/9/tls | bootstrap_peers | 9/tls"        | environment         | dialled
    $BOOTSTRAP_PEERS=/ip4/192.0.2.1/udp/9 | bootstrap_peers     | udp/9"        | environment         | dialled
    ;;bootstrap_peers = ['/tcp/1']      | bootstrap_peers       | "/tcp/1"      | config.toml:3       | dialled
    bootstrap_peers = '/dns4/a/tcp/1'   | bootstrap_peers       | "/dns4/a/tcp/1" | config.toml:1     | a list
    enable_quic = 'yes'                 | enable_quic           | "yes"         | config.toml:1       | true or false
    offline_queue_ttl = 5               | offline_queue_ttl     | "5"           | config.toml:1       | 30s
    offline_queue_ttl = '5 min'         | offline_queue_ttl     | "5 min"       | config.toml:1       | 30s
    offline_queue_ttl = ''              | offline_queue_ttl     | ""            | config.toml:1       | 30s
    offline_queue_ttl = '99999d'        | offline_queue_ttl     | "99999d"      | config.toml:1       | 100 years
    offline_queue_ttl = '999999999999999999d' | offline_queue_ttl | 9d"         | config.toml:1       | 100 years
    store_quota = '10 Gigs'             | store_quota           | "10 Gigs"     | config.toml:1       | 10GiB
    store_quota = '9999999999TiB'       | store_quota           | TiB"          | config.toml:1       | 10GiB
    store_quota = '1MiB'                | max_artifact_bytes    | "64MiB"       | default             | at most store_quota
    max_open_tasks = -1                 | max_open_tasks        | "-1"          | config.toml:1       | from 0
    max_open_tasks = 0                  | max_open_tasks        | "0"           | config.toml:1       | at least 1
    max_open_tasks = 9999999999999999999 | max_open_tasks       | 9999"         | config.toml:1       | a whole number
    max_task_time = 'soon'              | max_task_time         | "soon"        | config.toml:1       | 30s
    agent_grace = '0'                   | agent_grace           | "0"           | config.toml:1       | at least 1ms
    [agents];deliver = 'some'           | agents.deliver        | "some"        | config.toml:2       | one
    [agents];default_access = 'public'  | agents.default_access | "public"      | config.toml:2       | private
    [agents];default_access = true      | agents.default_access | true          | config.toml:2       | open
    [agents];hand_over_timeout = '1s'   | agents.hand_over_timeout | "1s"       | config.toml:2       | at least 2s
    [agents];claim_within = '1999ms'    | agents.claim_within   | "1999ms"      | config.toml:2       | 0, or at least 2s
    retry_delays = []                   | retry_delays          | "0 entries"   | config.toml:1       | from 1 to 16 entries
    retry_delays = ['0']                | retry_delays          | 0             | config.toml:1       | longer than 0
    key_path = 2020-01-01               | key_path              | "2020-01-01"  | config.toml:1       | a path
    grpc_tls_cert = '/c'                | grpc_tls_cert         | "/c"          | config.toml:1       | grpc_tls_key
    grpc_tls_key = '/c'                 | grpc_tls_key          | "/c"          | config.toml:1       | grpc_tls_cert
    grpc_tls_key = '/k';grpc_tls_cert = '/c' | grpc_tls_cert    | "/c"          | config.toml:2       | tcp://
    enable_quic = false;listen_addrs = ['/ip4/0.0.0.0/udp/1/quic-v1'] | listen_addrs | quic-v1 | config.toml:2 | enable_quic
    [[agents.socket]];name = 'a'        | agents.socket         | name = a      | config.toml:1       | listen
    [[agents.socket]];name = 'A B';listen = 'unix:///a' | agents.socket | "A B"     | config.toml:1       | a letter or digit first
    [[agents.socket]];name = 'a';listen = 'tcp://0.0.0.0:1' | agents.socket | "tcp://0.0.0.0:1" | config.toml:1 | a loopback address
    --agent-sockets=painter             | agents.socket         | "painter"     | flag --agent-sockets | NAME=ADDR
    --agent-sockets=a=tcp://192.0.2.1:1 | agents.socket         | "tcp://192.0.2.1:1" | flag --agent-sockets | loopback
    $AGENT_SOCKETS=A=unix:///x          | agents.socket         | "A=unix:///x" | environment AGENTANYCAST_AGENT_SOCKETS | with a letter or digit first
    agents.max_agents = 0               | agents.max_agents     | 0             | config.toml:1       | from 1 to 65536
    [[policy.acl]];source = '*'         | policy.acl            | source = *    | config.toml:1       | allow
    [[policy.acl]];source = 'opps';allow = true | policy.acl    | "opps"        | config.toml:1       | the name of a group
    [[policy.acl]];allow = true;source = '' | policy.acl        | ""            | config.toml:1       | a pattern
    [[policy.acl]];allow = true;;[[policy.acl]];allow = true;source = 'opps' | policy.acl | "opps" | config.toml:4 | a group
    [[policy.acl]];allow = true;;[[policy.acl]];source = '*' | policy.acl | source = * | config.toml:4           | allow
    [[policy.acl]];allow = true;[[policy.acl]];allow = 'maybe' | policy.acl | "maybe" | config.toml:3            | true or false
    [policy.groups];Ops = ['*']         | policy.groups         | "Ops"         | config.toml:1       | a-z
    [policy.groups];ops = ['bob']       | policy.groups         | "bob"         | config.toml:1       | a peer id
    [policy.groups];eve = ['local'];ops = ['eve'] | policy.groups | "eve"       | config.toml:1       | pattern of those with *; a group is no member of another
    [policy.groups];eve = ['local'];ops = ['ev*'] | policy.groups | "ev*"       | config.toml:1       | a group is no member of another
    [policy.groups];ops = 'bob'         | policy.groups         | "bob"         | config.toml:1       | a list
    --did-web=did:web:Example.org       | identity.did_web      | "did:web:Example.org" | flag --did-web | small letters
    $DID_WEB=did:web:127.0.0.1          | identity.did_web      | "did:web:127.0.0.1" | environment AGENTANYCAST_DID_WEB | HOST
    $DID_DNS_DOMAIN=did:dns:a           | identity.did_dns_domain | "did:dns:a" | environment AGENTANYCAST_DID_DNS_DOMAIN | example.org
    [identity];name_server = 'ns.example.org' | identity.name_server | "ns.example.org" | config.toml:2 | 192.0.2.53
    [identity];cache_ttl = '0s'         | identity.cache_ttl    | "0s"          | config.toml:2       | from 1s
    [policy];trust = 'known';trusted_issuers = ['bob'] | policy.trusted_issuers | "bob" | config.toml:3 | did:web
    [policy];trusted_issuers = ['did:web:a'] | policy.trusted_issuers | "did:web:a" | config.toml:2   | known
    [policy];trusted_peers = ['did:web:a'] | policy.trusted_peers | "did:web:a" | config.toml:2       | known or pinned
    [policy];trust = 'open';trusted_peers = ['did:web:a'] | policy.trusted_peers | "did:web:a" | config.toml:3 | known or pinned
    [policy];audit_chain = true         | policy.audit_chain    | "true"        | config.toml:2       | audit_log_path
    [policy];audit_sync = true          | policy.audit_sync     | "true"        | config.toml:2       | audit_log_path
    [policy];audit_required = true      | policy.audit_required | "true"        | config.toml:2       | audit_log_path
    [[policy.acl]];source = 'HTTP:*';allow = true | policy.acl  | "HTTP:*"      | config.toml:1       | it must be http:*, in small letters
    [[policy.acl]];source = 'DID:Web:Example.org:A*';allow = true | policy.acl | "DID:Web:Example.org:A*" | config.toml:1 | it must be did:web:example.org:A*, in
    [[policy.acl]];source = 'https:*';allow = true | policy.acl | "https:*"     | config.toml:1       | http:CALLER
    [policy];trust = 'known';trusted_peers = ['did:web:*.Example.org'] | policy.trusted_peers | Example | config.toml:3 | did:web:*.example.org
    --otlp-endpoint=nowhere             | telemetry.otlp_endpoint | "nowhere"   | flag --otlp-endpoint | http(s)://HOST:PORT
    [policy];trust = 'closed'           | policy.trust          | "closed"      | config.toml:2       | open known pinned
    [policy];trust = 'pinned';trusted_peers = ['*'] | policy.trusted_peers | "*" | config.toml:3      | did:key
    --mcp-proxy='server                 | mcp.proxy             | "'server"     | flag --mcp-proxy    | quotes are closed
    [[agents.run]];name = 'A';command = ['x'] | agents.run        | "A"           | config.toml:1       | with a letter or digit first
    [[agents.run]];name = 'a'           | agents.run            | name = a      | config.toml:1       | command = ["PROGRAM"
    [[agents.run]];name = 'a';http = 'ftp://x' | agents.run       | "ftp://x"     | config.toml:1       | http://HOST
    [[agents.run]];name = 'a';http = 'http://x';model = 'm' | agents.run | name = a | config.toml:1  | without model
    [[agents.run]];name = 'a';command = ['x'];max_output = 0 | agents.run | "0" | config.toml:1      | at least 1 byte
    [[agents.run]];name = 'a';command = ['x'];env = {'A=B' = 'secret'} | agents.run | env | config.toml:1 | have no '='
    [[agents.run]];name = 'a';command = ['x'];open = 'all' | agents.run | "all" | config.toml:1      | true
    [[agents.run]];name = 'a';command = ['x'];concurrency = 0 | agents.run | "0" | config.toml:1      | from 1 to 10000
    [[agents.run]];name = 'a';command = ['x'];style = 'post' | agents.run | name = a | config.toml:1 | without style
    [[agents.run]];name = 'a';command = ['x'];http = 'http://x' | agents.run | name = a | config.toml:1 | without command
    [[agents.run]];name = 'a';command = ['x'];protocol = 'jsonl';progress = true | agents.run | name = a | config.toml:1 | without progress
    [[agents.run]];name = 'a';command = ['x'];drain = '1m' | agents.run | "a" | config.toml:1         | at most 8s for agent a
    [[agents.mcp]];name = 'a';url = 'http://x';command = ['x'] | agents.mcp | name = a | config.toml:1 | without command
    [[agents.mcp]];name = 'a';command = ['x'];[[agents.run]];name = 'a';command = ['y'] | agents.mcp | "a" | config.toml | the name of one agent only
    [[policy.rate_limit.overrides]];source = 'local' | policy.rate_limit.overrides | source = local | config.toml:1 | max_in_flight
    [[policy.rate_limit.overrides]];source = 'a';rps = 1 | policy.rate_limit.overrides | "a" | config.toml:1 | a peer id
    [[policy.rate_limit.overrides]];source = 'a';rps = 'b' | policy.rate_limit.overrides | "b" | config.toml:1 | a number
"#;

/// What is given | the setting | where it came from.
#[rustfmt::skip] // A table.
const NOT_BUILT: &str = "
    -anp-listen=:8080                    | anp.enabled            | flag --anp-listen
    --nats-broker=nats://x               | transport.nats.enabled | flag --nats-broker
    --transport=nats://x                 | transport              | flag --transport
    --namespace=blue                     | namespace              | flag --namespace
    --enable-webtransport                | enable_webtransport    | flag --enable-webtransport
    $ANP_ENABLED=true                    | anp.enabled            | environment AGENTANYCAST_ANP_ENABLED
    $NATS_ENABLED=1                      | transport.nats.enabled | environment AGENTANYCAST_NATS_ENABLED
";

/// The rows of a table; what is given is a command line, `$VARIABLE=value`, or a file with `;` for line ends.
fn rows(table: &str) -> impl Iterator<Item = (ConfigInput, Vec<&str>)> {
    table.lines().filter(|line| !line.trim().is_empty()).map(|line| {
        let mut cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let given = match cells.remove(0) {
            args if args.starts_with('-') => ConfigInput::args(&args.split_whitespace().collect::<Vec<_>>()),
            variable if variable.starts_with('$') => {
                let (name, value) = variable[1..].split_once('=').unwrap();
                ConfigInput::env(name, value)
            }
            file => ConfigInput::file(&file.replace(';', "\n")),
        };
        (given, cells)
    })
}

#[test]
fn values_that_are_not_allowed() {
    for (given, cells) in rows(NOT_ALLOWED) {
        let error = given.error();
        let ConfigError::BadValue { key, .. } = &error else {
            panic!("{given:?}: {error:?}")
        };
        assert_eq!(key, cells[0], "{error}");
        line(&error, &cells);
    }
}

#[test]
fn what_is_not_built_is_refused_when_switched_on() {
    for (given, cells) in rows(NOT_BUILT) {
        let error = given.error();
        let ConfigError::NotBuilt { key, .. } = &error else {
            panic!("{given:?}: {error:?}")
        };
        assert_eq!(key, cells[0], "{error}");
        line(&error, &cells);
        line(&error, &["does not have"]);
    }
}

#[test]
fn a_value_of_many_lines_is_shown_on_one_and_shortened() {
    let error = ConfigInput::args(&[&format!("--log-level={}", "a\nb".repeat(500))]).error();
    assert!(matches!(error, ConfigError::BadValue { .. }));
    line(&error, &["a\\nb", "…"]);
    assert!(error.to_string().len() < 600, "{error}");
}

#[test]
fn a_grpc_address_for_others_needs_token_and_tls_or_consent() {
    let remote = "--grpc-listen=tcp://0.0.0.0:5";
    let (token, cert, key) = ("--grpc-token-file=/t", "--grpc-tls-cert=/c", "--grpc-tls-key=/k");
    for args in [
        vec![remote],
        vec![remote, token],
        vec![remote, cert, key],
        vec!["--grpc-listen=tcp://box:5"],
    ] {
        let error = ConfigInput::args(&args).error();
        assert!(matches!(error, ConfigError::OpenToOthers { .. }), "{error:?}");
        line(
            &error,
            &[
                ":5",
                "flag --grpc-listen",
                "--grpc-token-file",
                "--grpc-tls-cert",
                "--grpc-allow-remote",
            ],
        );
    }
    ConfigInput::args(&[remote, token, cert, key]).run();
    ConfigInput::args(&[remote, "--grpc-allow-remote"]).run();
    for local in [
        "tcp://127.0.0.1:0",
        "tcp://127.9.9.9:1",
        "tcp://[::1]:5",
        "tcp://localhost:5",
    ] {
        let (config, _) = ConfigInput::args(&[&format!("--grpc-listen={local}")]).run();
        assert_eq!(config.grpc_listen.to_string(), local);
    }
}

#[test]
fn a_file_that_is_not_toml() {
    let error = ConfigInput::file("log_level = 'info'\nkey_path = \n").error();
    assert!(matches!(error, ConfigError::Syntax { line: 2, .. }), "{error:?}");
    line(&error, &[FILE, ":2", "TOML"]);
}

#[test]
fn registries_that_have_no_address() {
    for (given, name) in [
        (
            ConfigInput::env("REGISTRY_ADDRS", "a:1,b"),
            "anycast.registry_addrs",
        ),
        (
            ConfigInput::file("[anycast]\nregistry_addr = 'ftp://a:1'"),
            "anycast.registry_addr",
        ),
    ] {
        let error = given.error();
        line(&error, &[name, "HOST:PORT"]);
    }
    assert!(
        ConfigInput::env("REGISTRY_ADDRS", "a:1,http://b:2,[::1]:3")
            .run()
            .0
            .anycast
            .registry_addrs
            .len()
            == 3
    );
}
