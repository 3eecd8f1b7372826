//! PURE: the settings as `--print-config` prints them, with the values of a list of what may be shown. What is not on it is
//! stars: a setting that a later version has is hidden until it is put on the list.

use agentanycast_gateway::settings::run::{program_name, shown_url};
use toml::{Table, Value};

/// What stands in the place of a value.
const HIDDEN: &str = "***";

/// Settings whose texts are addresses, paths, names and words of a choice.
const SHOWN: [&str; 30] = [
    "key_path",
    "grpc_token_file",
    "grpc_tls_cert",
    "grpc_tls_key",
    "grpc_listen",
    "listen_addrs",
    "bootstrap_peers",
    "wss_ca_file",
    "store_path",
    "log_level",
    "log_format",
    "log_file",
    "retry_delays",
    "node_name",
    "transport",
    "namespace",
    "agents.socket",
    "agents.deliver",
    "anycast.routing_strategy",
    "anycast.registry_addr",
    "anycast.registry_addrs",
    "anycast.dht_mode",
    "identity.did_web",
    "identity.did_dns_domain",
    "identity.credentials",
    "identity.name_server",
    "telemetry.otlp_endpoint",
    "transport.nats.tls_cert_file",
    "policy.audit_log_path",
    "policy.trust",
];

/// The end of settings of all gateways that are addresses.
const LISTEN: &str = "listen";

/// Settings that are lists of agents that are programs.
const PROGRAMS: [&str; 2] = ["agents.run", "agents.mcp"];

/// Of an agent that is a program: what is shown of it as it stands.
const SHOWN_OF_PROGRAM: [&str; 15] = [
    "name",
    "protocol",
    "style",
    "type",
    "progress",
    "permit",
    "permit_timeout",
    "terminal",
    "concurrency",
    "timeout",
    "retry",
    "drain",
    "max_output",
    "max_processes",
    "cwd",
];

/// Units of times and sizes.
const UNITS: [&str; 8] = ["ms", "s", "m", "h", "d", "KiB", "MiB", "GiB"];

/// The text of `--print-config` with what may be shown.
pub(super) fn text(printed: &str) -> String {
    let lines = printed.lines().map(line);
    lines.map(|line| line + "\n").collect()
}

/// One line of it: `NAME = VALUE  # SOURCE`, behind `# ` or `# --` where it cannot stand in a file.
fn line(line: &str) -> String {
    let Some((before, rest)) = line.split_once(" = ") else {
        // What was refused is said with its value.
        return if line.is_empty() {
            String::new()
        } else {
            format!("# {HIDDEN}")
        };
    };
    let (value, source) = rest.rsplit_once("  # ").unwrap_or((rest, ""));
    let name = before.trim_start_matches(['#', ' ', '-']);
    let parsed = format!("value = {value}").parse::<Table>().ok();
    let shown = match parsed.and_then(|mut table| table.remove("value")) {
        Some(Value::Array(agents)) if PROGRAMS.contains(&name) => {
            let agents: Vec<Value> = agents.into_iter().map(agent).collect();
            Value::Array(agents)
        }
        Some(value) if may_be_shown(name, &value) => without_queries(value),
        _ => HIDDEN.into(),
    };
    format!("{before} = {shown}  # {source}")
}

fn may_be_shown(name: &str, value: &Value) -> bool {
    let is_listen = name.rsplit(['.', '-']).next() == Some(LISTEN);
    match value {
        Value::Boolean(_) | Value::Integer(_) | Value::Float(_) => true,
        Value::String(text) => text.is_empty() || is_amount(text) || is_listen || SHOWN.contains(&name),
        Value::Array(items) => items.is_empty() || is_listen || SHOWN.contains(&name),
        Value::Table(entries) => entries.is_empty() || SHOWN.contains(&name),
        Value::Datetime(_) => false,
    }
}

/// A time or a size, such as `5m` or `64MiB`.
fn is_amount(text: &str) -> bool {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    unit.len() < text.len() && UNITS.contains(&unit)
}

/// An address without what stands behind its path.
fn without_queries(value: Value) -> Value {
    match value {
        Value::String(text) if text.contains(['?', '#']) && text.contains("://") => shown_url(&text).into(),
        Value::Array(items) => Value::Array(items.into_iter().map(without_queries).collect()),
        other => other,
    }
}

/// An agent that is a program or a service: which program, and the names of its variables.
fn agent(entry: Value) -> Value {
    let Value::Table(entries) = entry else {
        return HIDDEN.into();
    };
    let shown = entries.into_iter().map(|(key, value)| {
        let shown = match (key.as_str(), value) {
            (key, value) if SHOWN_OF_PROGRAM.contains(&key) => value,
            ("command", Value::Array(words)) => {
                let program = words.first().and_then(Value::as_str).map(program_name);
                let others = words.iter().skip(1).map(|_| HIDDEN.to_owned());
                Value::Array(program.into_iter().chain(others).map(Value::from).collect())
            }
            ("env", Value::Table(variables)) => {
                let names = variables.into_iter().map(|(name, _)| (name, HIDDEN.into()));
                Value::Table(names.collect())
            }
            ("pass_env" | "api_key_env", names) => names,
            ("http" | "url", Value::String(url)) => shown_url(&url).into(),
            _ => HIDDEN.into(),
        };
        (key, shown)
    });
    Value::Table(shown.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_show_no_arguments_and_no_values_of_variables() {
        let shown = text(
            r#"agents.run = [{ name = "sum", command = ["/opt/sum.sh", "--key", "hunter22"], env = { KEY = "hunter22" }, pass_env = ["TOKEN"], concurrency = 3, description = "hunter22" }, { name = "web", http = "http://h/v1?key=hunter22", later = "hunter22" }]  # file"#,
        );
        assert!(!shown.contains("hunter22"), "{shown}");
        for helps in [
            "\"sum\"",
            "\"sum.sh\"",
            "KEY",
            "TOKEN",
            "concurrency = 3",
            "http://h/v1",
            "later",
            "# file",
        ] {
            assert!(shown.contains(helps), "{helps}: {shown}");
        }
        assert!(!shown.contains("/opt"), "{shown}");
    }

    #[test]
    fn only_what_is_on_the_list_is_shown() {
        for hidden in [
            r#"bridge.outbound = { "h" = { token = "hunter22" } }  # file"#,
            r#"later.setting = "hunter22"  # file"#,
            r#"# --mcp-proxy = "sh -c hunter22"  # flag"#,
            r#"policy.acl = [{ from = "hunter22" }]  # file"#,
            r#"telemetry.otlp_endpoint = "http://h/x?key=hunter22"  # file"#,
            "# refused: hunter22",
            "agents.run = [hunter22  # file",
            r#"later.pin = "1122hunter22"  # file"#,
        ] {
            let shown = text(hidden);
            assert!(!shown.contains("hunter22"), "{shown}");
        }
        for whole in [
            r#"log_level = "info"  # default"#,
            r#"agent_grace = "5m"  # default"#,
            r#"store_quota = "10GiB"  # default"#,
            "enable_mdns = true  # default",
            "retry_delays = []  # default",
            r#"bridge.listen = "127.0.0.1:1"  # file"#,
            r#"transport.nats.auth_pass = ""  # default"#,
        ] {
            assert_eq!(text(whole), format!("{whole}\n"));
        }
    }
}
