"""Asks agents by their URLs with the official A2A SDK, version 1.0, over JSON-RPC.

Each line on standard input is {"url": ..., "text": ...}; it prints {"state": ..., "said": all results, or why there is none}.
"""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState
from google.protobuf.json_format import MessageToDict


async def ask(http, url, text):
    card = await A2ACardResolver(http, url).get_agent_card()
    config = ClientConfig(streaming=False, httpx_client=http, supported_protocol_bindings=["JSONRPC"])
    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
    [answer] = [answer async for answer in ClientFactory(config).create(card).send_message(SendMessageRequest(message=message))]
    task = answer.task
    said = [MessageToDict(artifact) for artifact in task.artifacts] or MessageToDict(task.status.message)
    return {"state": TaskState.Name(task.status.state), "said": json.dumps(said)}


async def main():
    async with httpx.AsyncClient(timeout=60) as http:
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await ask(http, **json.loads(line))), flush=True)


asyncio.run(main())
