//! The directory as tools of MCP: Streamable HTTP at `/mcp`, without sessions, read-only.
//!
//! The official SDK speaks the protocol. The tools look at the same directory as the REST API, within the
//! same bounds: each address has a rate and few calls that wait, a body has [`BODY`] bytes at most, and a
//! page ends by count and by bytes. The invariant: no call changes anything, and no argument is taken that
//! the tool's schema does not name.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use axum::{
    Extension, Router,
    extract::{ConnectInfo, Request, State},
    http::{HeaderValue, Method, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::post_service,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    ClientSource, RelayHttpState,
    api::{self, PageRange},
    directory::{AgentFilter, words_of},
    error::{self, ApiError},
    offload::ClientExtension,
    timeout, unread_bytes_quota,
};

/// Largest body of a request, in bytes.
const BODY: usize = 64 << 10;

/// Agents and skills in an answer when the caller does not say how many.
const DEFAULT_AGENTS: usize = 20;
const DEFAULT_SKILLS: usize = 100;

/// Most skills in an answer.
const MAX_SKILLS: usize = 1000;

/// What the agents of an answer say, in bytes, beyond the first of them: an answer has it twice, as text and
/// as JSON.
const PAGE_BYTES: usize = 256 << 10;

/// What models are told of all tools together.
const INSTRUCTIONS: &str = "The agents that are registered at this AgentAnycast relay, and the skills that they have. \
    list_skills shows which skills there are, list_agents finds agents by skill, tags or words, and describe_agent shows one \
    agent. Agents are asked through a node of the network, not through this relay.";

/// The tools before this face, for callers of these origins besides those that are no browser's page.
pub(super) fn router(face: &RelayHttpState, origins: &[String], stop: CancellationToken) -> Router {
    let server = DirectoryMcpServer(face.clone());
    // Which pages may call is checked below. What is shown is public to all who reach the port, by whatever
    // name.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_retry(None)
        .with_max_request_body_bytes(BODY)
        .with_cancellation_token(stop);
    let manager: Arc<NeverSessionManager> = Arc::default();
    let sdk = StreamableHttpService::new(move || Ok(server.clone()), manager, config);
    let entry = McpAdmission {
        face: face.clone(),
        origins: origins.into(),
    };
    Router::new()
        .route("/mcp", post_service(sdk.clone()))
        .route("/mcp/", post_service(sdk))
        .fallback(error::not_mcp)
        .method_not_allowed_fallback(error::not_post)
        .layer(from_fn_with_state(entry, admit))
        .layer(timeout())
        .layer(from_fn_with_state(
            face.0.unread_bytes_quota.clone(),
            unread_bytes_quota::limit_unsent,
        ))
}

/// What is looked at before a request is read.
#[derive(Clone)]
struct McpAdmission {
    face: RelayHttpState,
    origins: Arc<[String]>,
}

/// Lets a request in that its address and its page may make.
async fn admit(
    State(entry): State<McpAdmission>,
    asker: ClientExtension,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(origin) = request.headers().get(header::ORIGIN)
        && !entry
            .origins
            .iter()
            .any(|allowed| allowed == "*" || allowed.as_bytes() == origin.as_bytes())
    {
        return ApiError::forbidden(
            "pages of this origin may not call the tools of this relay; its operator allows origins by \
             --api-cors-origins"
                .to_owned(),
        )
        .into_response();
    }
    let handle = &entry.face.0.handle;
    if let Some(Extension(ConnectInfo(ClientSource(source)))) = asker
        && !handle.may_ask(source, 1)
    {
        return ApiError::too_many(format!(
            "requests from one address: {} a second at most (requests_per_ip of the relay); send fewer",
            handle.requests_per_ip()
        ))
        .into_response();
    }
    if request.method() == Method::POST {
        // The answer is JSON. Some clients accept only that, or anything, and the SDK insists on both kinds
        // by name.
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        request.headers_mut().insert(header::ACCEPT, accept);
    }
    next.run(request).await
}

/// What clients talk to.
#[derive(Clone)]
struct DirectoryMcpServer(RelayHttpState);

/// What there is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolName {
    ListAgents,
    DescribeAgent,
    ListSkills,
}

/// Arguments of `list_agents`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListAgents {
    skill: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    query: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

/// Arguments of `describe_agent`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeAgent {
    peer_id: String,
    agent: Option<String>,
}

/// Arguments of `list_skills`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListSkills {
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

/// A call whose arguments were read.
#[derive(Debug)]
enum DirectoryToolCall {
    ListAgents(AgentFilter, PageRange),
    DescribeAgent(String, Option<String>),
    ListSkills(PageRange),
}

impl ToolName {
    const ALL: [Self; 3] = [Self::ListAgents, Self::DescribeAgent, Self::ListSkills];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::ListAgents => "list_agents",
            Self::DescribeAgent => "describe_agent",
            Self::ListSkills => "list_skills",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::ListAgents => "List agents",
            Self::DescribeAgent => "Describe an agent",
            Self::ListSkills => "List skills",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::ListAgents => {
                "Lists registered agents by name, those that match all arguments: a skill's exact id, tags of that skill, \
                 words anywhere in what the agent says. Without arguments it lists all. Where there are more, the result has \
                 next_offset: call again with it as offset."
            }
            Self::DescribeAgent => {
                "Shows one registered agent by its peer id, and by agent where its node has several: name, description, skills \
                 with their tags, addresses, and whether it has proven its id. Without agent it shows the whole node."
            }
            Self::ListSkills => {
                "Lists the skills of all registered agents and how many agents have each, the most common first. Where there \
                 are more, the result has next_offset."
            }
        }
    }

    fn input(self) -> Value {
        let (properties, required) = match self {
            Self::ListAgents => (
                json!({
                    "skill": text("The skill's exact id, such as translate"),
                    "tags": {
                        "type": "object",
                        "additionalProperties": {"type": "string", "maxLength": api::MAX_WORD},
                        "maxProperties": api::MAX_TAGS,
                        "description": "Only agents with a skill that has all of these tags"
                    },
                    "query": text("Words that the agent's id, name, description or skills contain, in any case"),
                    "limit": number(1..=api::MAX_LIMIT, DEFAULT_AGENTS, "At most so many agents"),
                    "offset": offset(),
                }),
                &[][..],
            ),
            Self::DescribeAgent => (
                json!({
                    "peer_id": text("The agent's peer_id, as list_agents shows it"),
                    "agent": text("The agent's name on its node, where list_agents shows one"),
                }),
                &["peer_id"][..],
            ),
            Self::ListSkills => (
                json!({
                    "limit": number(1..=MAX_SKILLS, DEFAULT_SKILLS, "At most so many skills"),
                    "offset": offset(),
                }),
                &[][..],
            ),
        };
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false
        })
    }

    fn described(self) -> Tool {
        let schema: JsonObject = match self.input() {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        };
        let annotations = ToolAnnotations::with_title(self.title())
            .read_only(true)
            .destructive(false)
            .idempotent(true)
            .open_world(false);
        Tool::new(self.name(), self.description(), Arc::new(schema))
            .with_title(self.title())
            .with_annotations(annotations)
    }

    /// Reads its arguments; the error says what is wrong, to the model that called.
    fn read(self, arguments: JsonObject) -> Result<DirectoryToolCall, String> {
        match self {
            Self::ListAgents => {
                let given: ListAgents = self.parse(arguments)?;
                let range = range(given.limit, DEFAULT_AGENTS, api::MAX_LIMIT, given.offset)?;
                if given.tags.len() > api::MAX_TAGS {
                    return Err(format!("tags: at most {}", api::MAX_TAGS));
                }
                let tags = given
                    .tags
                    .into_iter()
                    .map(|(tag, value)| -> Result<String, String> {
                        short("tags", &tag)?;
                        short("tags", &value)?;
                        Ok(format!("{tag}:{value}"))
                    });
                let skill = given.skill.filter(|skill| !skill.is_empty());
                let query = given.query.unwrap_or_default();
                short("skill", skill.as_deref().unwrap_or_default())?;
                short("query", &query)?;
                let filter = AgentFilter {
                    skill,
                    tags: tags.collect::<Result<_, String>>()?,
                    words: words_of(&query),
                };
                Ok(DirectoryToolCall::ListAgents(filter, range))
            }
            Self::DescribeAgent => {
                let given: DescribeAgent = self.parse(arguments)?;
                short("peer_id", &given.peer_id)?;
                short("agent", given.agent.as_deref().unwrap_or_default())?;
                let agent = given.agent.filter(|agent| !agent.is_empty());
                Ok(DirectoryToolCall::DescribeAgent(given.peer_id, agent))
            }
            Self::ListSkills => {
                let given: ListSkills = self.parse(arguments)?;
                let range = range(given.limit, DEFAULT_SKILLS, MAX_SKILLS, given.offset)?;
                Ok(DirectoryToolCall::ListSkills(range))
            }
        }
    }

    fn parse<T: DeserializeOwned>(self, arguments: JsonObject) -> Result<T, String> {
        serde_json::from_value(Value::Object(arguments))
            .map_err(|error| format!("the arguments of {} cannot be read: {error}", self.name()))
    }
}

fn range(limit: Option<usize>, default: usize, most: usize, offset: usize) -> Result<PageRange, String> {
    let limit = limit.unwrap_or(default);
    if (1..=most).contains(&limit) {
        Ok(PageRange { limit, offset })
    } else {
        Err(format!("limit: {limit} is not a number from 1 to {most}"))
    }
}

fn short(name: &str, text: &str) -> Result<(), String> {
    if text.len() > api::MAX_WORD {
        return Err(format!("{name}: at most {} bytes", api::MAX_WORD));
    }
    Ok(())
}

fn text(description: &str) -> Value {
    json!({"type": "string", "maxLength": api::MAX_WORD, "description": description})
}

fn number(range: std::ops::RangeInclusive<usize>, default: usize, description: &str) -> Value {
    json!({"type": "integer", "minimum": range.start(), "maximum": range.end(), "default": default,
        "description": description})
}

fn offset() -> Value {
    json!({"type": "integer", "minimum": 0, "default": 0,
        "description": "Leave out so many: next_offset of the page before"})
}

/// All tools, as clients are told of them.
static TOOLS: LazyLock<Vec<Tool>> =
    LazyLock::new(|| ToolName::ALL.into_iter().map(ToolName::described).collect());

/// Looks it up; the error is for the model that called.
fn look(face: &RelayHttpState, call: &DirectoryToolCall) -> Result<Value, String> {
    match call {
        DirectoryToolCall::ListAgents(filter, range) => {
            let all = api::current_directory(face).agents();
            let (agents, total) = api::select(&all, filter, *range, PAGE_BYTES);
            let count = agents.len();
            Ok(page("agents", json!(agents), *range, count, total))
        }
        DirectoryToolCall::DescribeAgent(peer, agent) => {
            api::find(face, peer, agent.as_deref()).ok_or_else(|| {
                let asked = agent
                    .iter()
                    .fold(peer.clone(), |peer, agent| format!("{peer}/{agent}"));
                format!("no agent {asked:?} is registered at this relay; list_agents shows those that are")
            })
        }
        DirectoryToolCall::ListSkills(range) => {
            let all = api::current_directory(face).skills();
            let shown = all.iter().skip(range.offset).take(range.limit);
            let skills: Vec<Value> = shown
                .map(|skill| json!({ "id": skill.id, "agent_count": skill.agents }))
                .collect();
            let count = skills.len();
            Ok(page("skills", json!(skills), *range, count, all.len()))
        }
    }
}

/// A page; with where the next one begins, if there is one.
fn page(what: &str, shown: Value, range: PageRange, count: usize, total: usize) -> Value {
    let mut page = json!({ "count": count, "total": total });
    page[what] = shown;
    let next = range.offset.saturating_add(count);
    if count > 0 && next < total {
        page["next_offset"] = next.into();
    }
    page
}

impl ServerHandler for DirectoryMcpServer {
    fn get_info(&self) -> ServerConfig {
        let me = Implementation::new("agentanycast-relay", env!("CARGO_PKG_VERSION"))
            .with_title("AgentAnycast relay");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(me)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::named(&request.name) else {
            let name: String = request.name.chars().take(100).collect();
            return Err(ErrorData::invalid_params(
                format!("there is no tool {name:?}; tools/list shows the tools of this relay"),
                None,
            ));
        };
        let wrong = |text: String| CallToolResult::error(vec![ContentBlock::text(text)]);
        let call = match tool.read(request.arguments.unwrap_or_default()) {
            Ok(call) => call,
            Err(text) => return Ok(wrong(text).into()),
        };
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let asker = parts.and_then(|parts| parts.extensions.get::<ConnectInfo<ClientSource>>());
        let face = self.0.clone();
        let looked = self
            .0
            .0
            .offload
            .run(asker.copied().map(Extension), move || look(&face, &call))
            .await;
        let shown = match looked {
            Ok(Ok(value)) => CallToolResult::structured(value),
            Ok(Err(text)) => wrong(text),
            Err(busy) => wrong(busy.message().to_owned()),
        };
        Ok(shown.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_one_that_model_providers_take() {
        for tool in TOOLS.iter() {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            assert!((1..=64).contains(&tool.name.len()) && tool.name.chars().all(is_name));
            let schema = Value::Object((*tool.input_schema).clone());
            assert_eq!(schema["type"], "object", "{}", tool.name);
            for refused in ["oneOf", "anyOf", "allOf", "not", "enum", "$ref"] {
                assert!(schema.get(refused).is_none(), "{refused} in {}", tool.name);
            }
        }
    }

    #[test]
    fn arguments_are_within_the_bounds_of_the_directory() {
        let read = |tool: ToolName, arguments: Value| {
            let Value::Object(arguments) = arguments else {
                unreachable!("arguments are an object")
            };
            tool.read(arguments).map(|_| ())
        };
        let long = "x".repeat(api::MAX_WORD + 1);
        for (tool, arguments, said) in [
            (ToolName::ListAgents, json!({"limit": 0}), "from 1 to 1000"),
            (ToolName::ListAgents, json!({"limit": 1001}), "from 1 to 1000"),
            (ToolName::ListAgents, json!({"offset": -1}), "cannot be read"),
            (
                ToolName::ListAgents,
                json!({"skill": long}),
                "skill: at most 256 bytes",
            ),
            (
                ToolName::ListAgents,
                json!({"tags": {"a": long}}),
                "tags: at most 256 bytes",
            ),
            (ToolName::ListAgents, json!({"name": "x"}), "unknown field `name`"),
            (ToolName::DescribeAgent, json!({}), "missing field `peer_id`"),
            (ToolName::ListSkills, json!({"limit": 1001}), "from 1 to 1000"),
        ] {
            let error = read(tool, arguments).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(read(ToolName::ListAgents, json!({})), Ok(()));
        let all = json!({"skill": "s", "tags": {"a": "b"}, "query": "c", "limit": 1000, "offset": 3});
        assert_eq!(read(ToolName::ListAgents, all), Ok(()));
    }
}
