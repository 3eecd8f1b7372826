//! What an agent does, as progress for people. PURE.

use agent_client_protocol::v1::schema::{Plan, PlanEntryStatus, SessionUpdate, ToolCallStatus};

use crate::task_content::shortened;

/// Longest progress, in bytes.
const LONGEST: usize = 500;

/// The progress that an update means; `None`: none.
pub(super) fn text(update: &SessionUpdate) -> Option<String> {
    let text = match update {
        SessionUpdate::ToolCall(call) => with_status(&call.title, Some(call.status)),
        SessionUpdate::ToolCallUpdate(call) => with_status(call.fields.title.as_deref()?, call.fields.status),
        SessionUpdate::Plan(plan) => plan_text(plan)?,
        _ => return None,
    };
    (!text.is_empty()).then(|| shortened(&text, LONGEST))
}

fn with_status(title: &str, status: Option<ToolCallStatus>) -> String {
    match status {
        Some(ToolCallStatus::Completed) => format!("{title}: done"),
        Some(ToolCallStatus::Failed) => format!("{title}: failed"),
        _ => title.to_owned(),
    }
}

/// The entry that is worked on, and how many are done.
fn plan_text(plan: &Plan) -> Option<String> {
    let of = |status: PlanEntryStatus| plan.entries.iter().filter(move |entry| entry.status == status);
    let current = of(PlanEntryStatus::InProgress).next()?;
    let done = of(PlanEntryStatus::Completed).count();
    Some(format!(
        "{} ({done} of {} done)",
        current.content,
        plan.entries.len()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(update: Value) -> Option<String> {
        text(&serde_json::from_value(update).unwrap())
    }

    #[test]
    fn tool_calls_and_plans_are_progress() {
        let call = |status: &str| {
            told(
                json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read a.rs", "status": status}),
            )
        };
        assert_eq!(call("in_progress").as_deref(), Some("Read a.rs"));
        assert_eq!(call("failed").as_deref(), Some("Read a.rs: failed"));
        let untitled = json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed"});
        assert_eq!(told(untitled), None);
        let entry =
            |content: &str, status: &str| json!({"content": content, "priority": "high", "status": status});
        let plan = json!({"sessionUpdate": "plan", "entries":
            [entry("a", "completed"), entry("b", "in_progress"), entry("c", "pending")]});
        assert_eq!(told(plan).as_deref(), Some("b (1 of 3 done)"));
        let said = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}});
        assert_eq!(told(said), None);
    }
}
