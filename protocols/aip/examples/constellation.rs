//! A constellation of three devices: two tasks at the same time, and a third one that gets their results. The
//! graph of the tasks is `constellation.json` beside this file, or another one of that form.
//!
//!     cargo run -p agentanycast-aip --example constellation -- \
//!         --service ws://127.0.0.1:7090/ws --device linux-1 --device linux-2 --device skill:summary
//!
//! A device is one that is connected to the service, or an agent of the mesh behind it: `skill:ID`,
//! `PEER/NAME`. The exit status is 0 if all tasks were completed, 1 if not, 2 for wrong flags.

#![allow(clippy::print_stdout, reason = "a program says how far it is")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    error::Error,
    io::IsTerminal as _,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use agentanycast_aip::{
    dag::{
        ConstellationAgent, ConstellationDocument, ConstellationState, RunnerSettings, TaskAssigner,
        TaskConstellation, TaskStar, TaskStarStatus, run,
    },
    endpoints::{
        AgentProfile, AssignError, ConstellationClient, ConstellationEvent, ConstellationSettings,
        DeviceEntry, TaskReply,
    },
    transport::WebSocketEndpoint,
};
use async_trait::async_trait;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

type BoxError = Box<dyn Error + Send + Sync>;

/// The graph that is run without `--graph`.
const GRAPH: &str = include_str!("constellation.json");

/// Largest file of a graph, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// How much of a result the tasks after it are told, in characters.
const LONGEST_TIP: usize = 2000;

const HELP: &str = "\
Runs a graph of tasks on devices of a service of the Agent Interaction Protocol.

Usage: constellation --service URL --device NAME --device NAME --device NAME [options]

  --service URL       where the devices are: ws://HOST:PORT/ws or wss://HOST:PORT/ws
  --device NAME       a device, or an agent of the mesh such as skill:ID; the first one is called
                      device-1 in the graph, the next one device-2, and so on
  --graph FILE        the tasks and their dependencies, JSON (default: two tasks, and one after them)
  --name NAME         what the constellation is called (default: constellation)
  --wait SECONDS      how long devices may take to be connected (default: 10)
  --token-file FILE   the token that the service wants
  --ca-file FILE      who vouches for the certificate of a wss service, PEM (default: the system's store)
  -h, --help          this text

The exit status is 0 if all tasks were completed, 1 if not, 2 for wrong flags.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = match Arguments::parse(env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("constellation: {error}; --help lists the flags");
            return ExitCode::from(2);
        }
    };
    // Says on standard error why a device is not connected.
    tracing_subscriber::fmt()
        .with_env_filter("warn,agentanycast_aip=info")
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    match run_graph(&arguments).await {
        Ok(ConstellationState::Completed) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("constellation: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the flags say.
struct Arguments {
    service: String,
    devices: Vec<String>,
    graph: Option<PathBuf>,
    name: String,
    wait: Duration,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

impl Arguments {
    /// `None`: help is asked for.
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut arguments = Self {
            service: String::new(),
            devices: Vec::new(),
            graph: None,
            name: "constellation".to_owned(),
            wait: Duration::from_secs(10),
            token_file: None,
            ca_file: None,
        };
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--service" => arguments.service = value()?,
                "--device" => arguments.devices.push(value()?),
                "--graph" => arguments.graph = Some(value()?.into()),
                "--name" => arguments.name = value()?,
                "--wait" => {
                    let seconds = value()?.parse().map_err(|_| "--wait needs a number of seconds")?;
                    arguments.wait = Duration::from_secs(seconds);
                }
                "--token-file" => arguments.token_file = Some(value()?.into()),
                "--ca-file" => arguments.ca_file = Some(value()?.into()),
                _ => return Err(format!("there is no flag {word}")),
            }
        }
        if arguments.service.is_empty() || arguments.devices.is_empty() {
            return Err("--service and --device are needed".to_owned());
        }
        Ok(Some(arguments))
    }

    fn endpoint(&self) -> Result<WebSocketEndpoint, BoxError> {
        let mut endpoint = WebSocketEndpoint::new(&self.service)?;
        if let Some(file) = &self.token_file {
            let token = std::fs::read_to_string(file)
                .map_err(|error| format!("the token file {} cannot be read: {error}", file.display()))?;
            endpoint = endpoint.with_token(token.trim());
        }
        if let Some(file) = &self.ca_file {
            endpoint = endpoint.with_ca_file(file);
        }
        Ok(endpoint)
    }

    /// The graph, with the devices of the flags in it.
    fn graph(&self) -> Result<TaskConstellation, BoxError> {
        let text = match &self.graph {
            None => GRAPH.to_owned(),
            Some(file) => read_graph(file)
                .map_err(|error| format!("the graph {} cannot be read: {error}", file.display()))?,
        };
        let mut document: ConstellationDocument =
            serde_json::from_str(&text).map_err(|error| format!("the graph is not valid: {error}"))?;
        let named: BTreeMap<String, &String> = self
            .devices
            .iter()
            .enumerate()
            .map(|(at, device)| (format!("device-{}", at + 1), device))
            .collect();
        for task in document.tasks.values_mut() {
            let target = task.target_device_id.clone().unwrap_or_default();
            if let Some(device) = named.get(&target) {
                task.target_device_id = Some((*device).clone());
            } else if !target.is_empty() && !self.devices.contains(&target) {
                let reason = format!("task {} is for {target}, which no --device names", task.task_id);
                return Err(reason.into());
            }
        }
        Ok(TaskConstellation::from_document(document)?)
    }
}

fn read_graph(file: &PathBuf) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(file)?
        .take(MOST_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Connects to the devices, and runs the graph until its end, SIGINT or SIGTERM.
async fn run_graph(arguments: &Arguments) -> Result<ConstellationState, BoxError> {
    let (mut graph, endpoint) = (arguments.graph()?, arguments.endpoint()?);
    let client = ConstellationClient::new(ConstellationSettings::new(&arguments.name));
    let mut events = client.events();
    tokio::spawn(async move {
        while let Ok(event) = events.recv().await {
            print_event(event);
        }
    });
    let devices: BTreeSet<&String> = arguments.devices.iter().collect();
    for device in &devices {
        client.add_device(DeviceEntry::new(device), endpoint.clone());
    }
    for device in &devices {
        client.wait_connected(device, arguments.wait).await?;
    }
    let stop = CancellationToken::new();
    tokio::spawn(stop_by_signal(stop.clone())?);
    let mut reporter = StateReporter::default();
    let devices = ReportedDevices(&client);
    let state = run(
        &mut graph,
        &devices,
        &mut reporter,
        RunnerSettings::default(),
        stop,
    )
    .await;
    reporter.print_changes(&graph);
    print_results(&graph, state);
    Ok(state)
}

fn stop_by_signal(stop: CancellationToken) -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        stop.cancel();
    })
}

fn print_event(event: ConstellationEvent) {
    match event {
        ConstellationEvent::Lost(device) => println!("{device}: lost"),
        ConstellationEvent::Connected(device) => println!("{device}: connected"),
        ConstellationEvent::Progress {
            device_id, messages, ..
        } => {
            println!("{device_id}: {}", messages.join("; "));
        }
        _ => {}
    }
}

fn print_results(graph: &TaskConstellation, state: ConstellationState) {
    println!("\n{}: {state}", graph.name);
    for task in graph.tasks() {
        let end = match (&task.result, &task.error) {
            (_, Some(error)) => error.clone(),
            (Some(result), None) => text_of(result),
            (None, None) => String::new(),
        };
        println!("  {} {}: {end}", task.task_id, task.status);
    }
}

/// The text of a result that has one, else its JSON.
fn text_of(result: &Value) -> String {
    let text = result.get("text").unwrap_or(result);
    text.as_str().map_or_else(|| text.to_string(), str::to_owned)
}

/// The devices of a client; prints when a task begins on one.
struct ReportedDevices<'a>(&'a ConstellationClient);

#[async_trait]
impl TaskAssigner for ReportedDevices<'_> {
    fn devices(&self) -> Vec<AgentProfile> {
        self.0.devices()
    }

    async fn carry_out(&self, device_id: &str, task: &TaskStar) -> Result<TaskReply, AssignError> {
        println!("{}: running on {device_id}", task.task_id);
        self.0.carry_out(device_id, task).await
    }
}

/// Prints states that have changed, and tells results to the tasks that wait for them.
#[derive(Default)]
struct StateReporter(BTreeMap<String, TaskStarStatus>);

impl StateReporter {
    fn print_changes(&mut self, graph: &TaskConstellation) {
        for task in graph.tasks().filter(|task| task.status.is_terminal()) {
            if self.0.insert(task.task_id.clone(), task.status) != Some(task.status) {
                println!("{}: {}", task.task_id, task.status);
            }
        }
    }
}

#[async_trait]
impl ConstellationAgent for StateReporter {
    async fn task_ended(&mut self, graph: &mut TaskConstellation, task_id: &str) {
        self.print_changes(graph);
        let Some(result) = graph.task(task_id).and_then(|task| task.result.as_ref()) else {
            return;
        };
        let result: String = text_of(result).chars().take(LONGEST_TIP).collect();
        let followers: Vec<String> = graph
            .lines_out_of(task_id)
            .map(|line| line.to_task_id.clone())
            .collect();
        for follower in followers {
            // One that was cancelled needs no result.
            let _ = graph.edit_task(&follower, |task| {
                task.tips.push(format!("{task_id} returned: {result}"));
            });
        }
    }
}
