//! A device that runs programs: it registers with a service of the Agent Interaction Protocol, and executes
//! commands by the tools of an MCP server. Unless told otherwise it starts itself as that server, with the
//! one tool `execute_command`, which runs programs of a list and no shell.
//!
//!     cargo run -p agentanycast-aip --features mcp --example shell_device -- \
//!         --service ws://127.0.0.1:7090/ws --id linux-1 --allow ls,uname
//!
//! The programs run as the user who runs this one, with all that this user may do: allow only those that
//! everybody who may use the service may run.

#![allow(clippy::print_stdout, reason = "a program says how far it is")]

use std::{env, error::Error, io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::Arc};

use agentanycast_aip::{
    endpoints::{
        DeviceClient, DeviceClientSettings, DeviceHandle, DeviceState, McpExecutor, McpExecutorSettings,
        McpServerAddress, ShellTool,
    },
    messages::ToolCommand,
    protocol::{BatchContext, ToolExecutor as _},
    resilience::ReconnectPolicy,
    transport::{Connector as _, WebSocketEndpoint},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

type BoxError = Box<dyn Error + Send + Sync>;

/// The agent of which devices of Linux are: services ask its tools for.
const AGENT_NAME: &str = "LinuxAgent";

/// The tool server of upstream's devices of Linux.
const SERVER_NAME: &str = "BashExecutor";

const HELP: &str = "\
A device that runs programs for a service of the Agent Interaction Protocol.

Usage: shell_device --service URL --id NAME [options]
       shell_device mcp-server [--allow NAMES] [--folder DIR]

  --service URL       where to register: ws://HOST:PORT/ws or wss://HOST:PORT/ws
  --id NAME           what the device is called there
  --allow NAMES       programs that may be run, a comma list (default: date,df,uname,uptime)
  --folder DIR        where they run (default: here)
  --mcp-server CMD    another MCP server whose tools the device has, instead of this program's own
  --agent NAMES       the agents of the service whose commands are executed (default: LinuxAgent)
  --token-file FILE   the token that the service wants
  --ca-file FILE      who vouches for the certificate of a wss service, PEM (default: the system's store)
  -h, --help          this text

With mcp-server the program is the MCP server alone, on its standard input and output.
The device connects again when the connection is lost, and ends at ctrl-c or SIGTERM.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = match Arguments::parse(env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("shell_device: {error}; --help lists the flags");
            return ExitCode::from(2);
        }
    };
    // Says on standard error whether there is a connection, and why not.
    tracing_subscriber::fmt()
        .with_env_filter("warn,agentanycast_aip=info")
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let ended = if arguments.is_server {
        serve_tools(&arguments).await
    } else {
        run_device(&arguments).await
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shell_device: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the flags say.
struct Arguments {
    is_server: bool,
    service: Option<String>,
    id: Option<String>,
    allow: String,
    folder: PathBuf,
    mcp_server: Option<String>,
    agents: String,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

impl Arguments {
    /// `None`: help is asked for.
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut arguments = Self {
            is_server: false,
            service: None,
            id: None,
            allow: "date,df,uname,uptime".to_owned(),
            folder: PathBuf::from("."),
            mcp_server: None,
            agents: AGENT_NAME.to_owned(),
            token_file: None,
            ca_file: None,
        };
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            if word == "mcp-server" {
                arguments.is_server = true;
                continue;
            }
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--service" => arguments.service = Some(value()?),
                "--id" => arguments.id = Some(value()?),
                "--allow" => arguments.allow = value()?,
                "--folder" => arguments.folder = value()?.into(),
                "--mcp-server" => arguments.mcp_server = Some(value()?),
                "--agent" => arguments.agents = value()?,
                "--token-file" => arguments.token_file = Some(value()?.into()),
                "--ca-file" => arguments.ca_file = Some(value()?.into()),
                _ => return Err(format!("there is no flag {word}")),
            }
        }
        if !arguments.is_server && (arguments.service.is_none() || arguments.id.is_none()) {
            return Err("--service and --id are needed".to_owned());
        }
        Ok(Some(arguments))
    }

    fn endpoint(&self) -> Result<WebSocketEndpoint, BoxError> {
        let mut endpoint = WebSocketEndpoint::new(self.service.as_deref().unwrap_or_default())?;
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

    /// The MCP server of the device: another program, or this one.
    fn server(&self) -> Result<McpServerAddress, BoxError> {
        let Some(command) = &self.mcp_server else {
            let folder = self.folder.to_string_lossy().into_owned();
            let arguments = ["mcp-server", "--allow", &self.allow, "--folder", &folder];
            let program = env::current_exe()?.to_string_lossy().into_owned();
            return Ok(McpServerAddress::program(program, arguments));
        };
        let mut words = shlex::split(command)
            .ok_or("--mcp-server has an open quote")?
            .into_iter();
        let program = words.next().ok_or("--mcp-server names no program")?;
        Ok(McpServerAddress::program(program, words))
    }
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Executes commands of the service until SIGINT or SIGTERM.
async fn run_device(arguments: &Arguments) -> Result<(), BoxError> {
    let endpoint = arguments.endpoint()?;
    let address = endpoint.address();
    let id = arguments.id.clone().unwrap_or_default();
    let settings = McpExecutorSettings::new(arguments.server()?).with_agent_names(names(&arguments.agents));
    let executor = Arc::new(McpExecutor::new(settings));
    let device_settings = DeviceClientSettings {
        // It connects again until it is stopped.
        reconnect: ReconnectPolicy::default().with_tries(u32::MAX),
        ..DeviceClientSettings::new(&id)
    };
    let client = DeviceClient::new(endpoint, device_settings, Arc::clone(&executor) as _);
    let reporter = tokio::spawn(report(
        client.handle(),
        format!("{id} is registered at {address}"),
    ));
    let stop = CancellationToken::new();
    tokio::spawn(stop_by_signal(stop.clone())?);
    let ended = client.run(stop).await;
    executor.stop().await;
    reporter.abort();
    Ok(ended?)
}

/// Prints a line each time the device is registered.
async fn report(mut device: DeviceHandle, line: String) {
    while device.wait_for(DeviceState::is_connected).await {
        println!("{line}");
        device.wait_for(|state| !state.is_connected()).await;
    }
}

/// Stops at SIGINT or SIGTERM.
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

/// The programs as an MCP server on standard input and output, until the input ends.
async fn serve_tools(arguments: &Arguments) -> Result<(), BoxError> {
    let tool = ShellTool::new(names(&arguments.allow), &arguments.folder);
    let running = ShellServer(tool).serve(rmcp::transport::io::stdio()).await?;
    running.waiting().await?;
    Ok(())
}

/// The shell tool as an MCP server.
struct ShellServer(ShellTool);

impl ServerHandler for ShellServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let server = Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(server)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.0.tools(&BatchContext::default()).await;
        let tools = tools.map_err(|failure| ErrorData::internal_error(failure.error, None))?;
        let tools = tools.into_iter().map(|tool| {
            let schema = tool.input_schema.and_then(|schema| schema.as_object().cloned());
            Tool::new(
                tool.tool_name,
                tool.description.unwrap_or_default(),
                schema.unwrap_or_default(),
            )
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let command = ToolCommand::new(request.name, request.arguments.unwrap_or_default());
        let batch = BatchContext::default();
        let executed = tokio::select! {
            // What is dropped kills its program.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
            executed = self.0.execute(&batch, &command) => executed,
        };
        Ok(match executed {
            Ok(output) => CallToolResult::structured(output.result),
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.error)]),
        }
        .into())
    }
}
