//! Clients and peers that we did not write, as they are published: the Python and the TypeScript SDK on our
//! daemon, js-libp2p against our wire protocol, the published descriptors against our own, the official
//! A2A SDKs and agent frameworks before our bridge, and as agents that our daemon calls, the official MCP SDKs and
//! LangChain as clients of our tools, execution agents made of our .proto files, devices and
//! constellations on a stock WebSocket client; and the pages and examples that tell users how to use them.
//!
//! Needs what `tests/foreign/setup` makes, or what these variables name: `AGENTANYCAST_TEST_PYTHON`,
//! `AGENTANYCAST_TEST_A2A_1_0_PYTHON`, `AGENTANYCAST_TEST_A2A_0_3_PYTHON`, `AGENTANYCAST_TEST_A2A_0_3_10_PYTHON`,
//! `AGENTANYCAST_TEST_MCP_PYTHON`, `AGENTANYCAST_TEST_LANGCHAIN_PYTHON`, `AGENTANYCAST_TEST_LANGGRAPH_PYTHON`,
//! `AGENTANYCAST_TEST_UAP_PYTHON`, `AGENTANYCAST_TEST_AIP_PYTHON` (each the python of a venv),
//! `AGENTANYCAST_TEST_RUST_A2A` and `AGENTANYCAST_TEST_NODE_MODULES`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by a panic"
)]

mod a2a;
mod a2a_restarts;
mod aip_clients;
mod circuit_relay;
mod client_env;
mod clients;
mod compose_schema;
mod doc_pages;
mod doc_run;
mod examples;
mod execution_agents;
mod getting_started;
mod hostile_js_peer;
mod js_libp2p;
mod js_peer;
mod mcp;
mod mcp_conformance;
mod outbound;
mod programs_as_agents;
mod proto_descriptors;
mod python;
mod python_agents;
mod python_processes;
mod readme;
mod registry;
mod run_backends;
mod script;
mod sdk_daemon_lifecycle;
mod sealed_boxes;
mod skill_routing;
mod typescript;
