"""A client on the official MCP SDK: each scenario is one thing that an application does with the tools.

It prints the name of each scenario that went well, and ends. Usage: client.py MODE PEER SCENARIO... with MCP_URL (and
MCP_TOKEN, MCP_OTHER_TOKEN), or with MCP_COMMAND, a program with its arguments, in its environment. MODE is `legacy` or a
revision.
"""

import asyncio
import os
import shlex
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

MODE, PEER = sys.argv[1:3]
URL = os.environ.get("MCP_URL")
NAMES = {
    "discover_agents",
    "list_agents",
    "list_skills",
    "get_agent_card",
    "ask_agent",
    "get_task",
    "reply_to_task",
    "cancel_task",
    "list_tasks",
}


def client(token=os.environ.get("MCP_TOKEN")):
    if URL:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        http = httpx2.AsyncClient(headers=headers, timeout=60)
        return Client(streamable_http_client(URL, http_client=http), mode=MODE)
    command, *args = shlex.split(os.environ["MCP_COMMAND"])
    return Client(StdioServerParameters(command=command, args=args), mode=MODE)


async def call(mcp, tool, progress=None, **arguments):
    result = await mcp.call_tool(tool, arguments, progress_callback=progress)
    return result, result.structured_content


async def ask(mcp, message, **more):
    return await call(mcp, "ask_agent", agent=PEER, message=message, **more)


def words(result):
    return result.content[0].text


async def tools(mcp):
    listed = (await mcp.list_tools()).tools
    assert {tool.name for tool in listed} == NAMES, listed
    asking = next(tool for tool in listed if tool.name == "ask_agent")
    assert asking.annotations.destructive_hint and not asking.annotations.read_only_hint
    assert asking.input_schema["properties"]["wait_seconds"]["maximum"] == 600
    card, shown = await call(mcp, "get_agent_card", agent=PEER)
    assert shown["name"] == "Python agent" and shown["skills"][0]["id"] == "echo", card


async def answer(mcp):
    result, shown = await ask(mcp, "echo hello", files=[{"name": "a.txt", "text": "x"}], data={"n": 1})
    assert not result.is_error and shown["state"] == "completed", result
    assert shown["results"][0]["parts"][0]["text"] == "hello", result
    assert [block.text for block in result.content if block.type == "text"][1] == "hello"


async def fail(mcp):
    result, shown = await ask(mcp, "fail because of the weather")
    assert result.is_error and "because of the weather" in words(result), result
    assert shown["state"] == "failed"
    result, _ = await call(mcp, "ask_agent", message="to nobody")
    assert result.is_error and "exactly one of" in words(result), result


async def file(mcp):
    result, shown = await ask(mcp, "large 1000")
    blob = result.content[-1]
    assert blob.type == "resource" and len(blob.resource.blob) == 1336, result
    result, shown = await ask(mcp, "large 3000000")
    part = shown["results"][0]["parts"][0]
    assert part["size"] == 3000000 and "left out" in part["left_out"], shown


async def progress(mcp):
    heard = []

    async def hear(done, total, message):
        heard.append((done, message))

    result, shown = await call(mcp, "ask_agent", hear, agent=PEER, message="slow", wait_seconds=5)
    assert shown["state"] == "working" and not result.is_error, result
    assert any(message.startswith("working") for _, message in heard), heard
    assert [done for done, _ in heard] == sorted({done for done, _ in heard}), heard
    result, shown = await call(mcp, "cancel_task", task_id=shown["task_id"])
    assert shown["state"] == "canceled", result


async def question(mcp):
    result, shown = await ask(mcp, "ask one")
    # What it asks, this agent's SDK keeps to itself.
    assert shown["state"] == "input_required" and "reply_to_task" in words(result), result
    result, shown = await call(mcp, "reply_to_task", task_id=shown["task_id"], message="two")
    assert shown["results"][0]["parts"][0]["text"] == "ask one | two", result


async def abandon(mcp):
    """A call that nobody waits for any more: the connection goes on, and so does the task."""
    before = (await call(mcp, "list_tasks"))[1]["total"]
    waiting = asyncio.create_task(ask(mcp, "slow"))
    while (await call(mcp, "list_tasks"))[1]["total"] == before:
        await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    _, shown = await call(mcp, "list_tasks", limit=1)
    task = shown["tasks"][0]
    assert task["state"] in ("submitted", "working"), task
    await call(mcp, "cancel_task", task_id=task["task_id"])


async def unknown(mcp):
    try:
        await mcp.call_tool("format_disk", {})
    except MCPError as error:
        assert "format_disk" in str(error), error
    else:
        raise AssertionError("there is no such tool")


async def other(mcp):
    """Somebody else's task."""
    _, shown = await ask(mcp, "echo mine")
    async with client(os.environ["MCP_OTHER_TOKEN"]) as theirs:
        result, _ = await call(theirs, "get_task", task_id=shown["task_id"])
        assert result.is_error and "there is no task" in words(result), result
        assert (await call(theirs, "list_tasks"))[1]["total"] == 0


async def refusals(mcp):
    """What does not get as far as the protocol."""
    headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {os.environ['MCP_TOKEN']}"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with httpx2.AsyncClient(timeout=60) as http:
        page = await http.post(URL, json=ping, headers={**headers, "origin": "https://evil.example"})
        assert page.status_code == 403, page
        large = {**ping, "params": {"x": "y" * 100_000}}
        assert (await http.post(URL, json=large, headers=headers)).status_code == 413
        nobody = await http.post(URL, json=ping, headers={**headers, "authorization": ""})
        assert nobody.status_code == 401 and "www-authenticate" in nobody.headers, nobody


async def main():
    async with client() as mcp:
        for name in sys.argv[3:]:
            await globals()[name](mcp)
            print(name, flush=True)


asyncio.run(main())
