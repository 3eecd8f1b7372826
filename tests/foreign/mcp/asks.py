"""Asks agents by the tool `ask_agent`, with the official MCP SDK over HTTP.

Each line on standard input has the arguments of a call; it prints {"state": ..., "said": the content of the answer}. The server
is at MCP_URL.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main():
    http = httpx2.AsyncClient(timeout=60)
    async with Client(streamable_http_client(os.environ["MCP_URL"], http_client=http), mode="2026-07-28") as mcp:
        while line := await asyncio.to_thread(sys.stdin.readline):
            result = await mcp.call_tool("ask_agent", json.loads(line))
            shown = result.structured_content or {}
            said = json.dumps([shown, *(getattr(block, "text", "") for block in result.content)])
            print(json.dumps({"state": shown.get("state"), "said": said}), flush=True)


asyncio.run(main())
