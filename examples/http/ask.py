"""Asks an agent over HTTP with the official A2A SDK, and follows its task.

Usage: python ask.py URL TEXT
"""

import asyncio
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState


async def main(url, text):
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        print(f"{card.name}: {', '.join(skill.id for skill in card.skills)}")
        client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
        message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
        state = TaskState.TASK_STATE_UNSPECIFIED
        async for event in client.send_message(SendMessageRequest(message=message)):
            artifacts = []
            # A task that was quick is there whole in the first event.
            if event.HasField("task"):
                state, artifacts = event.task.status.state, event.task.artifacts
            elif event.HasField("status_update"):
                state = event.status_update.status.state
            elif event.HasField("artifact_update"):
                artifacts = [event.artifact_update.artifact]
            for artifact in artifacts:
                print(*(part.text for part in artifact.parts))
        print(TaskState.Name(state))


asyncio.run(main(*sys.argv[1:]))
