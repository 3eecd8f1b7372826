"""LangChain's adapters of MCP (`langchain-mcp-adapters`, on the official SDK 1.30): each scenario is one thing that an
application does with the tools.

It prints the name of each scenario that succeeds, and ends. Usage: langchain_client.py PEER SCENARIO... with MCP_URL, or with
MCP_COMMAND, a program with its arguments, in its environment.
"""

import asyncio
import os
import re
import shlex
import sys

from langchain_core.tools import ToolException
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

PEER = sys.argv[1]


def server():
    if url := os.environ.get("MCP_URL"):
        return {"transport": "streamable_http", "url": url}
    command, *args = shlex.split(os.environ["MCP_COMMAND"])
    return {"transport": "stdio", "command": command, "args": args}


class Application:
    def __init__(self, tools, heard):
        self.named = {tool.name: tool for tool in tools}
        self.heard = heard

    async def call(self, tool, **arguments):
        """Calls a tool as a model does: the text for the model, and the structured content."""
        asked = {"type": "tool_call", "id": "1", "name": tool, "args": arguments}
        message = await self.named[tool].ainvoke(asked)
        text = message.content if isinstance(message.content, str) else str(message.content)
        return text, message.artifact and message.artifact.get("structured_content")

    async def ask(self, message, **more):
        return await self.call("ask_agent", agent=PEER, message=message, **more)

    async def tools(self):
        asking = self.named["ask_agent"].args_schema
        assert "message" in asking["properties"], asking
        for name, tool in self.named.items():
            assert re.fullmatch("[A-Za-z0-9_.-]{1,64}", name), name
            assert not {"oneOf", "anyOf", "allOf", "not", "enum", "$ref"} & set(tool.args_schema), name

    async def answer(self):
        text, shown = await self.ask("echo hello", files=[{"name": "a.txt", "text": "x"}], data={"n": 1})
        assert "hello" in text and shown["state"] == "completed", (text, shown)

    async def fail(self):
        try:
            text, _ = await self.ask("fail because of the weather")
        except ToolException as error:
            text = str(error)
        assert "because of the weather" in text, text

    async def file(self):
        text, shown = await self.ask("large 1000")
        assert shown["state"] == "completed", (text, shown)

    async def progress(self):
        _, shown = await self.ask("slow", wait_seconds=3)
        assert shown["state"] == "working", shown
        assert any(message.startswith("working") for message in self.heard), self.heard
        _, shown = await self.call("cancel_task", task_id=shown["task_id"])
        assert shown["state"] == "canceled", shown

    async def question(self):
        _, shown = await self.ask("ask one")
        assert shown["state"] == "input_required", shown
        text, shown = await self.call("reply_to_task", task_id=shown["task_id"], message="two")
        assert "ask one | two" in text, text

    async def mistake(self):
        try:
            text, _ = await self.call("get_task", task_id="no-such-task")
        except ToolException as error:
            text = str(error)
        assert "there is no task" in text, text


async def main():
    heard = []

    async def hear(_done, _total, message, _context):
        heard.append(message)

    callbacks = Callbacks(on_progress=hear)
    client = MultiServerMCPClient({"mesh": server()}, callbacks=callbacks)
    async with client.session("mesh") as session:
        tools = await load_mcp_tools(session, callbacks=callbacks, server_name="mesh")
        application = Application(tools, heard)
        for name in sys.argv[2:]:
            await getattr(application, name)()
            print(name, flush=True)


asyncio.run(main())
