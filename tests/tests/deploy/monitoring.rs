//! What Prometheus and Grafana are given: each expression of the rules and dashboards is evaluated by a real
//! Prometheus over what two nodes and a relay show.

use std::{collections::BTreeSet, path::Path, process::Stdio};

use agentanycast::Target;
use agentanycast_proto::v1::DiscoverBySkillRequest;
use agentanycast_tests::{
    Daemon, DaemonBuilder, DaemonPair, TestRelay, TransportKind, agent::TestAgent, eventually,
    http::HttpClient, skip_unless_required, task_assertions::completed,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{read, top};

const RULES: &str = "deploy/prometheus/alerts.yml";
/// One federation peer that is down, as a relay counts it; a relay whose peers do well, or come back, is none of the
/// operator's concern. One node and one relay of two that are gone; a node that was upgraded is there.
const WHAT_IS_TOLD: &str = r#"
tests:
  - interval: 1m
    input_series:
      - {series: 'agentanycast_build_info{instance="a", version="1"}', values: '1x60'}
      - {series: 'agentanycast_build_info{instance="b", version="1"}', values: '1x5 stale'}
      - {series: 'agentanycast_build_info{instance="c", version="1"}', values: '1x5 stale'}
      - {series: 'agentanycast_build_info{instance="c", version="2"}', values: '_x7 1x60'}
      - {series: 'registry_local_count{instance="r"}', values: '0x60'}
      - {series: 'registry_local_count{instance="s"}', values: '0x5 stale'}
    alert_rule_test:
      - {eval_time: 8m, alertname: AgentAnycastNodeDown, exp_alerts: []}
      - eval_time: 40m
        alertname: AgentAnycastNodeDown
        exp_alerts:
          - exp_labels: {instance: b, severity: critical}
            exp_annotations:
              summary: "Node b shows no figures any more"
              description: "The daemon is down, or its metrics port cannot be reached."
      - eval_time: 40m
        alertname: AgentAnycastRelayDown
        exp_alerts:
          - exp_labels: {instance: s, severity: critical}
            exp_annotations:
              summary: "Relay s shows no figures any more"
              description: "The relay is down, or its metrics port cannot be reached: nodes behind NAT look for another one."
  - interval: 1m
    input_series:
      - {series: 'federation_peers{instance="a", state="failing"}', values: '0 1x40'}
      - {series: 'federation_peers{instance="a", state="healthy"}', values: '2 1x40'}
      - {series: 'federation_peers{instance="b", state="failing"}', values: '0x10 1x5 0x25'}
      - {series: 'federation_peers{instance="b", state="healthy"}', values: '2x40'}
    alert_rule_test:
      - {eval_time: 5m, alertname: AgentAnycastFederationFails, exp_alerts: []}
      - eval_time: 20m
        alertname: AgentAnycastFederationFails
        exp_alerts:
          - exp_labels: {instance: a, state: failing, severity: warning}
            exp_annotations:
              summary: "1 other relays do not agree with relay a"
              description: "/health and the dashboard say with whom and why."
"#;

const DASHBOARDS: [&str; 2] = ["deploy/grafana/node.json", "deploy/grafana/relay.json"];

#[derive(Deserialize)]
struct AlertRules {
    groups: Vec<AlertGroup>,
}

#[derive(Deserialize)]
struct AlertGroup {
    rules: Vec<AlertRule>,
}

#[derive(Deserialize)]
struct AlertRule {
    alert: String,
    expr: String,
}

/// Debian's, or None where there is none.
fn is_installed(program: &str) -> bool {
    let found = std::process::Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

struct Prometheus {
    client: HttpClient,
    _home: TempDir,
    _process: Child,
}

impl Prometheus {
    async fn start(targets: &[String]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("prometheus.yml");
        let targets = serde_json::to_string(targets).unwrap();
        let rules = top().join(RULES);
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\nscrape_configs:\n\
             - job_name: agentanycast\n  static_configs: [{{targets: {targets}}}]\n",
            rules.display()
        );
        std::fs::write(&config, text).unwrap();
        // It cannot be asked for a free port; between here and there somebody else may take it.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                home.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(home.path().join("log")).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        eventually("Prometheus listens", || async {
            (tokio::net::TcpStream::connect(address).await.is_ok()).then_some(())
        })
        .await;
        let client = HttpClient::new(format!("http://{address}"));
        eventually("Prometheus answers", || async {
            (client.text("/-/ready").await.0 == http::StatusCode::OK).then_some(())
        })
        .await;
        Self {
            client,
            _home: home,
            _process: process,
        }
    }

    /// What an expression comes to.
    async fn query(&self, expression: &str) -> Value {
        let encoded = expression
            .bytes()
            .fold(String::new(), |text, byte| format!("{text}%{byte:02X}"));
        let answer = self.client.get(&format!("/api/v1/query?query={encoded}")).await;
        assert_eq!(answer.body["status"], "success", "{expression}: {}", answer.body);
        answer.body["data"]["result"].clone()
    }

    /// The names of all series, once each target was read.
    async fn names(&self, targets: usize) -> BTreeSet<String> {
        eventually("every target is read", || async {
            let up = self.query("up == 1").await;
            up.as_array().is_some_and(|up| up.len() == targets).then_some(())
        })
        .await;
        let answer = self.client.get("/api/v1/label/__name__/values").await;
        serde_json::from_value(answer.body["data"].clone()).unwrap()
    }
}

/// The names of series in an expression.
fn names(expression: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(|c: char| !word(c));
    let ours = ["agentanycast_", "relay_", "registry_", "federation_", "libp2p_"];
    words
        .filter(|word| ours.iter().any(|prefix| word.starts_with(prefix)))
        .map(str::to_owned)
        .collect()
}

/// Every expression, with where it is from.
fn expressions() -> Vec<(String, String)> {
    let rules: AlertRules = serde_saphyr::from_str(&read(RULES)).unwrap();
    let rules = rules.groups.into_iter().flat_map(|group| group.rules);
    let mut all: Vec<_> = rules.map(|rule| (rule.alert, rule.expr)).collect();
    for file in DASHBOARDS {
        let dashboard: Value = serde_json::from_str(&read(file)).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                // What Grafana puts in.
                let expression = expression
                    .replace("$instance", ".*")
                    .replace("$__rate_interval", "1m");
                assert!(!expression.contains('$'), "{expression}");
                all.push((format!("{file}, {}", panel["title"]), expression));
            }
        }
    }
    all
}

#[tokio::test]
async fn every_expression_finds_its_figures() {
    if !is_installed("prometheus") || !is_installed("promtool") {
        return skip_unless_required("no prometheus is installed (Debian: apt-get install prometheus)");
    }
    let checked = Command::new("promtool")
        .args(["check", "rules"])
        .arg(Path::new(&top()).join(RULES))
        .output()
        .await
        .unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stdout)
    );

    let relay = TestRelay::builder().start().await;
    let through = |daemon: DaemonBuilder| daemon.metrics().bootstrap(relay.addresses[0].clone());
    let pair = DaemonPair::from_builders(
        through(Daemon::builder().listen([TransportKind::Tcp.listen()]).mcp()),
        through(Daemon::builder().listen([TransportKind::Tcp.listen()])),
    )
    .await;
    let _agent = TestAgent::echo(&pair.bob.node().await);
    let task = pair
        .alice
        .node()
        .await
        .send_task(Target::Peer(pair.bob.peer_id().clone()), "watched")
        .await
        .unwrap();
    completed(&task).await;
    let listed = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "list_tasks", "arguments": {}}});
    let mcp = HttpClient::new(format!("http://{}", pair.alice.mcp()));
    mcp.header("accept", "application/json, text/event-stream")
        .events(http::Method::POST, "/mcp", &listed)
        .await
        .event()
        .await;
    let question = DiscoverBySkillRequest {
        skill_id: "watch".to_owned(),
        ..DiscoverBySkillRequest::default()
    };
    relay.client().await.discover_by_skill(question).await.unwrap();

    let targets =
        [pair.alice.metrics_addr(), pair.bob.metrics_addr(), relay.metrics].map(|at| at.to_string());
    let prometheus = Prometheus::start(&targets).await;
    let known = prometheus.names(targets.len()).await;
    let expressions = expressions();
    assert!(expressions.len() > 40, "{}", expressions.len());
    for (place, expression) in &expressions {
        prometheus.query(expression).await;
        let names = names(expression);
        assert!(!names.is_empty(), "{place}: {expression} names no figure");
        for name in names {
            assert!(known.contains(&name), "{place}: there is no {name}");
        }
    }
    let sent = prometheus
        .query(r#"sum(agentanycast_tasks_total{direction="outbound",status="completed"})"#)
        .await;
    assert_eq!(sent[0]["value"][1], "1", "{sent}");
    // Nothing is wrong, so nobody is told anything.
    let firing = prometheus.query(r#"ALERTS{alertstate="firing"}"#).await;
    assert_eq!(firing, Value::Array(Vec::new()));
}

#[tokio::test]
async fn who_is_down_is_told() {
    if !is_installed("promtool") {
        return skip_unless_required("no promtool is installed (Debian: apt-get install prometheus)");
    }
    let home = tempfile::tempdir().unwrap();
    let cases = home.path().join("cases.yml");
    let rules = top().join(RULES);
    std::fs::write(&cases, format!("rule_files: [{}]{WHAT_IS_TOLD}", rules.display())).unwrap();
    let tested = Command::new("promtool")
        .args(["test", "rules"])
        .arg(&cases)
        .output()
        .await
        .unwrap();
    let said = [tested.stdout, tested.stderr].concat();
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&said));
}
