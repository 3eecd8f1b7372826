"""A client on the official A2A SDK, version 1.0, that follows one task whatever breaks: it subscribes again until the
task has ended, and prints each message of the agent once, then the state of the end. Usage: follower.py URL BINDING"""

import asyncio
import json
import sys
from uuid import uuid4

import grpc
import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import UnsupportedOperationError

ENDS = {TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED}


def say(**what):
    print(json.dumps(what), flush=True)


def texts(messages):
    return [part.text for message in messages for part in message.parts]


class Follower:
    def __init__(self, client):
        self.client, self.id, self.heard, self.state = client, None, [], None

    def hear(self, event):
        if event.HasField("task"):
            task = event.task
            self.id, self.state = task.id, task.status.state
            shown = texts(message for message in task.history if message.role == Role.ROLE_AGENT)
            shown += texts([task.status.message])
            # The task has all of it, in the order in which it was told.
            assert shown[: len(self.heard)] == self.heard, (shown, self.heard)
            news = shown[len(self.heard) :]
        elif event.HasField("status_update"):
            self.state = event.status_update.status.state
            news = texts([event.status_update.status.message])
        else:
            return
        for text in news:
            assert text not in self.heard, (text, self.heard)
            self.heard.append(text)
            say(said=text)

    async def listen(self, events):
        async for event in events:
            self.hear(event)

    async def again(self):
        try:
            await self.listen(self.client.subscribe(SubscribeToTaskRequest(id=self.id)))
        except UnsupportedOperationError:
            # It has ended meanwhile.
            self.hear(StreamResponse(task=await self.client.get_task(GetTaskRequest(id=self.id))))

    async def follow(self):
        message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text="count")])
        attempt = self.listen(self.client.send_message(SendMessageRequest(message=message)))
        while self.state not in ENDS:
            try:
                await attempt
            except AssertionError:
                raise
            except Exception as error:
                assert self.id, error
                print(f"the stream broke off: {error!r}", file=sys.stderr, flush=True)
            attempt = self.again()
            await asyncio.sleep(0.1)
        attempt.close()
        say(end=TaskState.Name(self.state), said=self.heard)


async def main():
    url, binding = sys.argv[1:]
    config = ClientConfig(
        streaming=True,
        httpx_client=httpx.AsyncClient(timeout=60),
        supported_protocol_bindings=[binding],
        grpc_channel_factory=grpc.aio.insecure_channel,
    )
    await Follower(await create_client(url, config)).follow()


asyncio.run(main())
