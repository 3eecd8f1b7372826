"""A device of the Agent Interaction Protocol, by hand on the package websockets. It has one tool, `shout`, with the
parameter `text`, and takes a task in words by asking its service for it.

It prints one line of JSON for each frame that it receives. It sends heartbeats as often as it is told to, and ends
when standard input does.
Usage: device.py URL CLIENT_ID [CA_FILE]
"""

import asyncio
import json
import ssl
import sys
from datetime import datetime, timezone

import websockets

URL, CLIENT_ID = sys.argv[1:3]
CA_FILE = sys.argv[3] if len(sys.argv) > 3 else None

SYSTEM = {
    "device_id": CLIENT_ID,
    "platform": "linux",
    "os_version": "6.1",
    "cpu_count": 2,
    "memory_total_gb": 4.0,
    "hostname": "python",
    "ip_address": "127.0.0.1",
    "supported_features": ["cli"],
    "platform_type": "computer",
    "schema_version": "1.0",
    "custom_metadata": {},
}
TOOL = {
    "tool_key": "action::shout",
    "tool_name": "shout",
    "title": None,
    "namespace": "Python",
    "tool_type": "action",
    "description": "Says a text loudly",
    "input_schema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
    "output_schema": None,
    "meta": None,
    "annotations": None,
}


def frame(kind, status, **fields):
    message = {"type": kind, "status": status, "client_type": "device", "client_id": CLIENT_ID}
    message["timestamp"] = datetime.now(timezone.utc).isoformat()
    return json.dumps(message | fields)


def execute(actions):
    results, failed = [], False
    for action in actions:
        result = {"status": "success", "error": None, "result": None, "namespace": "Python"}
        if failed:
            result |= {"status": "skipped", "error": "Skipped due to previous failure (early_exit=True)."}
        elif action["tool_name"] == "list_tools":
            result["result"] = [TOOL]
        elif action["tool_name"] == "shout" and action["parameters"].get("text"):
            result["result"] = action["parameters"]["text"].upper()
        else:
            failed = True
            result |= {"status": "failure", "error": f"no {action['tool_name']} with that"}
        results.append(result | {"call_id": action.get("call_id")})
    return results


async def serve(socket):
    metadata = {"system_info": SYSTEM, "platform": "linux"}
    await socket.send(frame("register", "ok", metadata=metadata))
    async for text in socket:
        message = json.loads(text)
        print(text, flush=True)
        if message["type"] == "command":
            results = execute(message["actions"])
            answer = {"prev_response_id": message["response_id"], "session_id": message.get("session_id")}
            await socket.send(frame("command_results", "continue", action_results=results, **answer))
        elif message["type"] == "task":
            task = {"session_id": None, "task_name": message["task_name"], "request": message["user_request"]}
            await socket.send(frame("task", "continue", **task))


async def main():
    context = ssl.create_default_context(cafile=CA_FILE) if CA_FILE else None
    async with websockets.connect(URL, ssl=context, max_size=100 << 20) as socket:
        serving = asyncio.create_task(serve(socket))
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()


asyncio.run(main())
