//! The example `constellation`.

use serde_json::{Value, json};

use crate::{
    program::Program,
    service::{TOKEN, TestService},
    shell_device::device,
};

/// Two tasks, and a third one after both.
fn graph(commands: [&str; 3]) -> String {
    let task = |at: usize| {
        json!({
            "task_id": format!("t{at}"), "description": commands[at - 1], "target_device_id": format!("device-{at}"),
        })
    };
    let line = |from: &str| {
        json!({
            "line_id": from, "from_task_id": from, "to_task_id": "t3", "dependency_type": "success_only",
        })
    };
    let graph: Value = json!({
        "constellation_id": "g", "name": "of the test", "state": "created",
        "tasks": { "t1": task(1), "t2": task(2), "t3": task(3) },
        "dependencies": { "t1": line("t1"), "t2": line("t2") },
    });
    graph.to_string()
}

/// Runs a constellation; its exit code, what it printed, and what it said.
async fn run(service: &TestService, devices: [&str; 3], more: &[&str]) -> (i32, Vec<String>, Vec<String>) {
    let (url, token) = (service.url(), service.token_file(TOKEN));
    let mut flags = vec!["--service", &url, "--token-file", &token];
    flags.extend(devices.iter().flat_map(|device| ["--device", device]));
    let ca_file = service.ca_file.as_ref().map(|file| file.to_str().unwrap());
    flags.extend(ca_file.iter().flat_map(|file| ["--ca-file", file]));
    flags.extend(more);
    let (status, printed, said) = Program::start("constellation", &flags).end().await;
    (status.code().unwrap(), printed, said)
}

#[tokio::test]
async fn two_tasks_run_at_once_and_the_third_one_after_them() {
    let service = TestService::with_tls().await;
    let _devices = (
        device(&service, "a").await,
        device(&service, "b").await,
        device(&service, "c").await,
    );
    let file = service.file("graph.json", &graph(["echo one", "echo two", "echo three"]));
    let (code, printed, _) = run(&service, ["a", "b", "c"], &["--graph", &file]).await;
    assert_eq!(code, 0, "{printed:?}");
    let at = |line: &str| printed.iter().position(|printed| printed == line).unwrap();
    assert!(at("t1: running on a") < at("t1: completed") && at("t2: running on b") < at("t1: completed"));
    assert!(at("t1: completed") < at("t3: running on c") && at("t2: completed") < at("t3: running on c"));
    let results = &printed[at("of the test: completed") + 1..];
    // What the device prints ends its line.
    let results: Vec<&str> = results
        .iter()
        .map(String::as_str)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(
        results,
        [
            "  t1 completed: one",
            "  t2 completed: two",
            "  t3 completed: three"
        ]
    );
}

#[tokio::test]
async fn a_failure_cancels_what_depends_on_it() {
    let service = TestService::plain().await;
    let _devices = (device(&service, "a").await, device(&service, "b").await);
    let file = service.file("graph.json", &graph(["echo one", "rm two", "echo three"]));
    let (code, printed, _) = run(&service, ["a", "b", "skill:echo"], &["--graph", &file]).await;
    assert_eq!(code, 1);
    let printed: Vec<&str> = printed.iter().map(String::as_str).collect();
    for line in [
        "t1: completed",
        "t2: failed",
        "t3: cancelled",
        "of the test: partially_failed",
    ] {
        assert!(printed.contains(&line), "{line:?} is not in {printed:?}");
    }
    assert!(printed.contains(&"  t2 failed: 'rm' is not allowed; allowed are cat, echo, sleep"));
    assert!(printed.contains(&"  t3 cancelled: dependency 't2' is not met"));
    assert!(!printed.iter().any(|line| line.starts_with("t3: running")));
}

#[tokio::test]
async fn the_graph_of_the_example_tells_results_to_the_task_after_them() {
    let service = TestService::plain().await;
    let agents = ["skill:echo"; 3];
    let (code, printed, _) = run(&service, agents, &[]).await;
    assert_eq!(code, 0, "{printed:?}");
    assert!(printed.contains(&"  summary completed: Compare the two systems in one line.".to_owned()));
    let told = "- first returned: Say which system this is, in one line.".to_owned();
    assert!(printed.contains(&told), "{printed:?}");
    let (code, printed, _) = run(&service, ["skill:echo", "skill:fail", "skill:echo"], &[]).await;
    assert_eq!(code, 1);
    assert!(
        printed.contains(&"  second failed: it was told to".to_owned()),
        "{printed:?}"
    );
}

#[tokio::test]
async fn what_cannot_run_is_explained() {
    let service = TestService::plain().await;
    let (code, _, said) = run(&service, ["gone", "skill:echo", "skill:echo"], &["--wait", "1"]).await;
    assert_eq!(code, 1);
    assert_eq!(
        said.last().unwrap(),
        "constellation: device 'gone' is not connected: the service refused the registration of \
         'constellation@gone': Target device 'gone' is not connected"
    );
    assert!(
        said.iter()
            .any(|line| line.contains("Target device 'gone' is not connected")),
        "{said:?}"
    );
    let unnamed = graph(["a", "b", "c"]).replace("device-3", "device-4");
    let file = service.file("graph.json", &unnamed);
    let (code, _, said) = run(&service, ["skill:echo"; 3], &["--graph", &file]).await;
    assert_eq!(
        (code, said.as_slice()),
        (
            1,
            ["constellation: task t3 is for device-4, which no --device names".to_owned()].as_slice()
        )
    );
    let file = service.file("not.json", "{");
    let (code, _, said) = run(&service, ["skill:echo"; 3], &["--graph", &file]).await;
    assert_eq!(code, 1);
    assert!(
        said[0].starts_with("constellation: the graph is not valid: EOF"),
        "{said:?}"
    );
    let (status, _, said) = Program::start("constellation", &["--wait", "x"]).end().await;
    assert_eq!(status.code(), Some(2));
    assert_eq!(
        said,
        ["constellation: --wait needs a number of seconds; --help lists the flags"]
    );
}
