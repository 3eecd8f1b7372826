//! Commands by the tools of an MCP server: the example `shell_device` as one, and one of streamable HTTP.

use std::{sync::Arc, time::Duration};

use agentanycast_aip::{
    endpoints::{McpExecutor, McpExecutorSettings, McpServerAddress},
    messages::ToolCommand,
    protocol::{BatchContext, ToolExecutor as _, ToolFailure, ToolOutput},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::program::{example, processes_with, soon, wait_for};

/// The example that runs `sh` and others in `folder`.
fn settings(folder: &str) -> McpExecutorSettings {
    let program = example("shell_device").to_str().unwrap().to_owned();
    let flags = ["mcp-server", "--allow", "sh,echo,sleep,head", "--folder", folder];
    McpExecutorSettings::new(McpServerAddress::program(program, flags))
}

async fn call(executor: &McpExecutor, tool: &str, parameters: Value) -> Result<ToolOutput, ToolFailure> {
    let command = ToolCommand::new(tool, parameters.as_object().cloned().unwrap());
    soon(executor.execute(&BatchContext::default(), &command)).await
}

async fn line(executor: &McpExecutor, line: &str) -> Result<ToolOutput, ToolFailure> {
    call(executor, "execute_command", json!({ "command": line })).await
}

#[tokio::test]
async fn tools_are_listed_and_called_for_the_agents_that_are_set() {
    let settings = settings("/").with_agent_names(["LinuxAgent"]);
    let executor = McpExecutor::new(settings);
    let of = |agent: &str| BatchContext {
        agent_name: Some(agent.to_owned()),
        ..BatchContext::default()
    };
    let tools = soon(executor.tools(&of("LinuxAgent"))).await.unwrap();
    assert_eq!(
        (tools[0].tool_key.as_str(), tools[0].namespace.as_str()),
        ("action::execute_command", "BashExecutor")
    );
    assert_eq!(
        tools[0].input_schema.as_ref().unwrap()["required"],
        json!(["command"])
    );
    let output = line(&executor, "echo hello").await.unwrap();
    assert_eq!(output.result["stdout"], "hello\n");
    assert_eq!(output.namespace.as_deref(), Some("BashExecutor"));
    let failure = line(&executor, "rm x").await.unwrap_err();
    assert!(failure.error.starts_with("'rm' is not allowed"), "{failure:?}");
    assert_eq!(failure.namespace.as_deref(), Some("BashExecutor"));
    let failure = call(&executor, "click", json!({})).await.unwrap_err();
    assert!(failure.error.contains("no tool 'click'"), "{failure:?}");
    let failure = soon(executor.tools(&of("HostAgent"))).await.unwrap_err();
    assert_eq!(
        failure.error,
        "this device has no agent 'HostAgent'; it has: LinuxAgent"
    );
}

#[tokio::test]
async fn a_server_that_ends_is_a_failure_and_is_started_again_some_times() {
    let executor = McpExecutor::new(settings("/"));
    for _ in 0..5 {
        assert_eq!(line(&executor, "echo a").await.unwrap().result["stdout"], "a\n");
        let failure = line(&executor, "sh -c 'echo dying >&2; kill -9 $PPID'")
            .await
            .unwrap_err();
        assert!(
            failure
                .error
                .contains("the MCP server ended: signal: 9 (SIGKILL)"),
            "{failure:?}"
        );
    }
    let failure = line(&executor, "echo a").await.unwrap_err();
    let bounded = "ends again and again; it was started 5 times within 60 s and may be started again in ";
    assert!(failure.error.contains(bounded), "{failure:?}");
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    let failure = |program: &str, arguments: &[&str]| {
        let address = McpServerAddress::program(program, arguments.iter().copied());
        let executor = McpExecutor::new(McpExecutorSettings::new(address));
        async move { line(&executor, "echo a").await.unwrap_err().error }
    };
    let error = failure("/no/such/program", &[]).await;
    assert_eq!(
        error,
        "the MCP server /no/such/program did not start: No such file or directory (os error 2)"
    );
    let error = failure("sh", &["-c", "echo no licence >&2; exit 3"]).await;
    assert!(
        error.ends_with("(exit status: 3; it said: no licence)"),
        "{error}"
    );
}

#[tokio::test]
async fn a_tool_that_takes_too_long_is_cancelled() {
    let executor = McpExecutor::new(McpExecutorSettings {
        call_timeout: Duration::from_secs(1),
        ..settings("/")
    });
    let failure = line(&executor, "sleep 987.5").await.unwrap_err();
    assert_eq!(failure.error, "the tool execute_command took more than 1 s");
    wait_for(|| processes_with("sleep 987.5").is_empty().then_some(())).await;
    assert_eq!(line(&executor, "echo a").await.unwrap().result["stdout"], "a\n");
}

#[tokio::test]
async fn a_command_that_is_given_up_is_cancelled() {
    let executor = McpExecutor::new(settings("/"));
    let given_up = async {
        tokio::select! {
            result = line(&executor, "sleep 987.75") => panic!("{result:?}"),
            _ = wait_for(|| processes_with("sleep 987.75").first().copied()) => {}
        }
    };
    given_up.await;
    wait_for(|| processes_with("sleep 987.75").is_empty().then_some(())).await;
    assert_eq!(line(&executor, "echo a").await.unwrap().result["stdout"], "a\n");
}

#[tokio::test]
async fn a_result_that_is_too_large_is_a_failure_at_once_and_the_server_goes_on() {
    let executor = McpExecutor::new(McpExecutorSettings {
        max_message: 64 << 10,
        ..settings("/")
    });
    let failure = line(&executor, "head -c 100000 /dev/zero").await.unwrap_err();
    assert_eq!(
        failure.error,
        "the MCP server sent a message of more than 65536 bytes; it was dropped"
    );
    assert_eq!(line(&executor, "echo a").await.unwrap().result["stdout"], "a\n");
}

#[tokio::test]
async fn the_server_ends_with_its_executor() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let executor = McpExecutor::new(settings(folder));
    line(&executor, "echo a").await.unwrap();
    assert_eq!(processes_with(folder).len(), 1);
    soon(executor.stop()).await;
    assert!(processes_with(folder).is_empty());
    line(&executor, "echo a").await.unwrap();
    drop(executor);
    wait_for(|| processes_with(folder).is_empty().then_some(())).await;
}

/// A server with the tool `add`.
#[derive(Clone)]
struct Adder;

impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("adder", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = Tool::new(
            "add",
            "adds",
            json!({ "type": "object" }).as_object().cloned().unwrap(),
        );
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let numbers = request.arguments.unwrap_or_default();
        let sum = numbers["a"].as_i64().unwrap() + numbers["b"].as_i64().unwrap();
        Ok(CallToolResult::success(vec![ContentBlock::text(sum.to_string())]).into())
    }
}

fn serve_http(listener: TcpListener) -> AbortOnDropHandle<()> {
    let service = StreamableHttpService::new(
        || Ok(Adder),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    AbortOnDropHandle::new(tokio::spawn(async move {
        axum::serve(listener, router).await.unwrap();
    }))
}

#[tokio::test]
async fn a_server_of_streamable_http_is_used_and_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = serve_http(listener);
    let url = McpServerAddress::url(format!("http://{address}/mcp"));
    let executor = McpExecutor::new(McpExecutorSettings::new(url));
    let add = || call(&executor, "add", json!({ "a": 1, "b": 2 }));
    let output = add().await.unwrap();
    assert_eq!(
        (output.result, output.namespace.as_deref()),
        (json!("3"), Some("adder"))
    );
    drop(serving);
    let listener = wait_for(|| std::net::TcpListener::bind(address).ok()).await;
    listener.set_nonblocking(true).unwrap();
    let _serving = serve_http(TcpListener::from_std(listener).unwrap());
    // The first call may find that its connection has ended.
    if add().await.is_err() {
        assert_eq!(add().await.unwrap().result, json!("3"));
    }
}
