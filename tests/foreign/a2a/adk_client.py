"""`RemoteA2aAgent` of the Agent Development Kit (`google-adk`): each scenario is one thing that users do with an agent.
No model is asked.

It prints the name of each scenario that succeeds, and ends. Usage: adk_client.py URL SCENARIO...
"""

import asyncio
import sys
import warnings

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai.types import Blob, Content, FunctionResponse, Part

warnings.simplefilter("ignore")

URL = sys.argv[1]


class Conversation:
    """One session of a user."""

    def __init__(self):
        self.agent = RemoteA2aAgent(name="remote", agent_card=f"{URL}/.well-known/agent-card.json", timeout=60)
        self.runner = InMemoryRunner(agent=self.agent, app_name="test")

    async def __aenter__(self):
        self.session = await self.runner.session_service.create_session(app_name="test", user_id="alice")
        return self

    async def __aexit__(self, *_):
        await self.runner.close()

    async def say(self, *parts):
        parts = [Part(text=part) if isinstance(part, str) else part for part in parts]
        said = Content(role="user", parts=parts)
        running = self.runner.run_async(user_id="alice", session_id=self.session.id, new_message=said)
        return [event async for event in running]


def parts_of(events):
    # Thoughts are what a peer said while it worked.
    parts = [part for event in events if event.content for part in event.content.parts]
    return [part for part in parts if not part.thought]


def texts(events):
    return [part.text for part in parts_of(events) if part.text]


def no_error(events):
    assert events and not [event for event in events if event.error_message], events
    return events


async def card():
    async with Conversation() as conversation:
        no_error(await conversation.say("echo x"))
        assert "Does what the first word says" in conversation.agent.description, conversation.agent


async def send():
    async with Conversation() as conversation:
        assert texts(no_error(await conversation.say("echo Grüezi"))) == ["Grüezi"]
        assert texts(no_error(await conversation.say("echo again"))) == ["again"]


async def fail():
    async with Conversation() as conversation:
        events = await conversation.say("fail no paper")
        assert "no paper" in str([event.model_dump(exclude_none=True) for event in events]), events


async def question():
    async with Conversation() as conversation:
        events = no_error(await conversation.say("ask me"))
        (call,) = [part.function_call for part in parts_of(events) if part.function_call]
        assert events[-1].long_running_tool_ids == {call.id}, events
        answer = FunctionResponse(id=call.id, name=call.name, response={"result": "that"})
        assert texts(no_error(await conversation.say(Part(function_response=answer)))) == ["ask me | that"]


async def files():
    async with Conversation() as conversation:
        blob = Blob(data=b"\x00\xff\x10", mime_type="application/x-test")
        events = no_error(await conversation.say("echo file", Part(inline_data=blob)))
        assert texts(events) == ["file"], events
        got = no_error(await conversation.say("large 1000"))
        assert [part.inline_data.data for part in parts_of(got) if part.inline_data] == [b"7" * 1000], got


async def main():
    for name in sys.argv[2:]:
        await globals()[name]()
        print(name, flush=True)


asyncio.run(main())
