"""The A2A client of the Microsoft Agent Framework (`agent-framework-a2a`): each scenario is one thing that users do
with an agent.

It prints the name of each scenario that succeeds, and ends. Usage: agent_framework_client.py URL SCENARIO...
"""

import asyncio
import sys

import httpx
from a2a.client import A2ACardResolver
from agent_framework import AgentSession, Content, Message
from agent_framework_a2a import A2AAgent

URL = sys.argv[1]


async def agent(**more):
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, URL).get_agent_card()
    return A2AAgent(agent_card=card, **more)


async def card():
    async with await agent() as remote:
        assert (remote.name, remote.description) == ("Python agent", "Does what the first word says"), remote


async def send():
    async with await agent() as remote:
        response = await remote.run("echo Grüezi")
        assert response.text == "Grüezi", response


async def by_url():
    """Without a card."""
    async with A2AAgent(name="remote", url=URL) as remote:
        response = await remote.run("echo x")
        assert response.text == "x", response


async def over_rest():
    async with await agent(supported_protocol_bindings=["HTTP+JSON"]) as remote:
        response = await remote.run("echo x")
        assert response.text == "x", response


async def stream():
    async with await agent() as remote:
        updates = [update async for update in remote.run("echo live", stream=True)]
        assert [update.text for update in updates if update.text] == ["live"], updates


async def fail():
    async with await agent() as remote:
        response = await remote.run("fail no paper")
        assert "no paper" in response.text, response


async def question():
    async with await agent() as remote:
        for stream in (False, True):
            session = AgentSession()
            if stream:
                response = await remote.run("ask me", stream=True, session=session).get_final_response()
            else:
                response = await remote.run("ask me", session=session)
            assert len(response.user_input_requests) == 1, response
            answered = await remote.run("that", session=session)
            assert answered.text == "ask me | that", answered


async def background():
    """Work that goes on is followed later."""
    async with await agent() as remote:
        begun = await remote.run("slow", background=True)
        token = begun.continuation_token
        assert token, begun
        polled = await remote.poll_task(token)
        assert polled.continuation_token, polled


async def files():
    async with await agent() as remote:
        data = Content.from_data(b"\x00\xff\x10", "application/x-test")
        response = await remote.run(Message(role="user", contents=["echo file", data]))
        assert response.text == "file", response
        got = await remote.run("large 1000")
        (content,) = got.messages[-1].contents
        assert content.type == "data" and content.uri.endswith("Nw=="), got


async def main():
    for name in sys.argv[2:]:
        await globals()[name]()
        print(name, flush=True)


asyncio.run(main())
