"""A planner for devices: it has a tool that takes a command run `uname -a`, and answers with what came of it.

The gateway asks it by standard input, one JSON object a round: anycast run --name planner -- python3 planner.py
"""

import json
import sys


def takes_command(tool):
    """Whether a tool takes a command, and requires nothing else."""
    schema = tool.get("input_schema") or {}
    required = schema.get("required") or []
    return "command" in (schema.get("properties") or {}) and set(required) <= {"command"}


question = json.load(sys.stdin)
device = question.get("device", "the device")
tools = question.get("tools") or []
if question.get("results"):
    last = question["results"][-1]
    if last.get("status") == "success":
        answer = {"status": "completed", "result": last.get("result")}
    else:
        answer = {"status": "failed", "error": last.get("error") or f"{device} says that it failed, and not why"}
else:
    tool = next((tool for tool in tools if takes_command(tool)), None)
    if tool is None:
        names = ", ".join(tool["tool_name"] for tool in tools) or "none"
        answer = {"status": "failed", "error": f"{device} has no tool that takes a command; its tools: {names}"}
    else:
        action = {"tool_name": tool["tool_name"], "parameters": {"command": "uname -a"}}
        answer = {"status": "continue", "actions": [action], "agent_name": tool.get("agent_name")}
print(json.dumps(answer))
