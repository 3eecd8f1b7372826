//! Each agent is called by name and by skill from the other node: by the SDK, by `anycast`, by the official A2A SDK through a
//! bridge, and by the official MCP SDK.
//!
//! A call by name says no skill. To an MCP server with several tools it says the tool in its message; without, the answer is the
//! names of the tools. The Rust SDK can also say agent and skill.

use agentanycast::Target;
use agentanycast_tests::{Bridge, cli::anycast_at, task_assertions::completed};
use serde_json::{Value, json};

use super::{AGENTS, ProgramAgent, ProgramAgents};
use crate::{
    client_env::{a2a_python, mcp_python, scripts},
    script::ScriptProcess,
};

impl ProgramAgent {
    /// Whether an answer is that to a call by skill.
    fn assert_done(&self, how: &str, is_done: bool, said: &str) {
        let (name, answer) = (self.name, self.answer);
        assert!(is_done && said.contains(answer), "{name} {how}: {said}");
    }

    /// The message of a call that says no skill.
    fn message_by_name(&self) -> String {
        if !self.has_several_skills {
            return self.message.to_owned();
        }
        let arguments: Value =
            serde_json::from_str(self.message).unwrap_or_else(|_| json!({ "timezone": self.message }));
        json!({ "name": self.skill, "arguments": arguments }).to_string()
    }
}

/// Tells a client what to ask; what its state is, and what was said.
async fn asked(client: &mut ScriptProcess, question: Value) -> (String, String) {
    client.tell(&question).await;
    let answer = client.json().await;
    let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
    (text("state"), text("said"))
}

#[tokio::test]
async fn each_agent_is_called_by_name_and_by_skill() {
    let scene = ProgramAgents::start().await;
    let peer = scene.pair.alice.peer_id();
    let named = |agent: &ProgramAgent| format!("{peer}/{}", agent.name);
    let (_, bob) = scene.pair.nodes().await;

    for agent in &AGENTS {
        let mut by_name = bob
            .task(Target::Peer(peer.clone()), agent.message)
            .agent(agent.name);
        if agent.has_several_skills {
            by_name = by_name.skill_of_peer(agent.skill);
        }
        let by_skill = bob.task(Target::skill(agent.skill), agent.message);
        for task in [by_name, by_skill] {
            let task = completed(&task.send().await.unwrap()).await;
            let said = format!("{:?}", task.artifacts);
            agent.assert_done("by the SDK", true, &said);
        }

        let by_name = anycast_at(
            &scene.pair.bob,
            &["send", &named(agent), &agent.message_by_name()],
        )
        .await;
        agent.assert_done("by anycast", by_name.status.success(), &by_name.all_output);
        if agent.has_several_skills {
            let unnamed = anycast_at(&scene.pair.bob, &["send", &named(agent), agent.message]).await;
            let names = unnamed.all_output.contains(agent.skill);
            assert!(!unnamed.status.success() && names, "{}", unnamed.all_output);
        }
        let by_skill = anycast_at(&scene.pair.bob, &["send", "--skill", agent.skill, agent.message]).await;
        agent.assert_done("by anycast", by_skill.status.success(), &by_skill.all_output);
    }

    let bridge = Bridge::start(&scene.pair.bob).await;
    let mut command = scene.stage.command(a2a_python("1.0"));
    command.arg(scripts().join("a2a/asks.py"));
    let mut client = ScriptProcess::start(command);
    for agent in &AGENTS {
        let url = format!("{}/agents/{}", bridge.url(), named(agent));
        let (state, said) = asked(&mut client, json!({"url": url, "text": agent.message_by_name()})).await;
        agent.assert_done("by A2A", state == "TASK_STATE_COMPLETED", &said);
        let url = format!("{}/skills/{}", bridge.url(), agent.skill);
        let (state, said) = asked(&mut client, json!({"url": url, "text": agent.message})).await;
        agent.assert_done("by A2A", state == "TASK_STATE_COMPLETED", &said);
    }
    client.succeed().await;

    let mut command = scene.stage.command(mcp_python());
    command.arg(scripts().join("mcp/asks.py"));
    command.env("MCP_URL", format!("http://{}/mcp", scene.pair.bob.mcp()));
    let mut client = ScriptProcess::start(command);
    for agent in &AGENTS {
        let question = json!({"agent": named(agent), "message": agent.message_by_name()});
        let (state, said) = asked(&mut client, question).await;
        agent.assert_done("by MCP", state == "completed", &said);
        let question = json!({"skill": agent.skill, "message": agent.message});
        let (state, said) = asked(&mut client, question).await;
        agent.assert_done("by MCP", state == "completed", &said);
    }
    client.succeed().await;
}
