"""A client on the official A2A SDK, version 0.3: each scenario is one thing that users do with an agent.

It prints the name of each scenario that went well, and ends. Usage: client_0_3.py URL TRANSPORT SCENARIO...
With A2A_TENANT in its environment it begins without a card, at the URL's host over gRPC, and names the agent in each call.
"""

import asyncio
import os
import sys
from importlib.metadata import version
from uuid import uuid4

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client_factory import minimal_agent_card
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.client.transports.grpc import GrpcTransport
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
    TextPart,
)
from webhook import Webhook


def message(text, *parts, **fields):
    parts = [Part(root=TextPart(text=text)), *parts]
    return Message(message_id=str(uuid4()), role=Role.user, parts=parts, **fields)


def texts(artifacts):
    parts = [part.root for artifact in artifacts or [] for part in artifact.parts]
    return [part.text for part in parts if isinstance(part, TextPart)]


# An error of JSON-RPC, of REST, and of gRPC with the name that its text begins with.
TASK_NOT_FOUND = (-32001, 404, grpc.StatusCode.NOT_FOUND, "TaskNotFoundError")
TASK_NOT_CANCELABLE = (-32002, 409, grpc.StatusCode.UNIMPLEMENTED, "TaskNotCancelableError")

TRANSPORTS = {"JSONRPC": JsonRpcTransport, "HTTP+JSON": RestTransport, "GRPC": GrpcTransport}


async def refused(expected, call):
    code, status, of_grpc, name = expected
    try:
        await call
    except A2AClientJSONRPCError as error:
        assert error.error.code == code, error
    except A2AClientHTTPError as error:
        assert error.status_code == status, error
    except grpc.aio.AioRpcError as error:
        assert error.code() == of_grpc and error.details().startswith(f"{name}: "), error
    else:
        raise AssertionError(f"{name} was expected")


def bare(parts):
    """Parts as they are meant: over REST and gRPC, no metadata and empty metadata are one."""
    parts = [part.root.model_copy(update={"metadata": part.root.metadata or None}) for part in parts]
    return [part.model_dump() for part in parts]


class With:
    """Adds metadata to the calls of a channel."""

    def __init__(self, metadata):
        self.metadata = metadata

    def details(self, given):
        return given._replace(metadata=grpc.aio.Metadata(*(given.metadata or ()), *self.metadata))


class WithUnary(With, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, go_on, details, request):
        return await go_on(self.details(details), request)


class WithStream(With, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, go_on, details, request):
        return await go_on(self.details(details), request)


class Asker:
    def __init__(self, url, transport):
        self.url, self.transport = url, transport

    async def client(self, streaming):
        token, tenant = os.environ.get("BRIDGE_TOKEN"), os.environ.get("A2A_TENANT")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        metadata = [*headers.items(), *([("a2a-tenant", tenant)] if tenant else [])]
        config = ClientConfig(
            streaming=streaming,
            httpx_client=httpx.AsyncClient(timeout=60, headers=headers),
            supported_transports=[self.transport],
            grpc_channel_factory=lambda url: grpc.aio.insecure_channel(
                url, interceptors=[WithUnary(metadata), WithStream(metadata)]
            ),
        )
        agent = self.url
        if tenant:
            agent = minimal_agent_card(httpx.URL(self.url).netloc.decode(), ["GRPC"])
        client = await ClientFactory.connect(agent, config)
        assert type(client._transport) is TRANSPORTS[self.transport], client._transport
        if tenant:
            await client.get_card()
        return client

    async def open(self):
        self.plain, self.live = await self.client(False), await self.client(True)

    async def ask(self, said):
        answers = [answer async for answer in self.plain.send_message(said)]
        assert len(answers) == 1, answers
        return answers[0][0]

    async def card(self):
        card = await self.plain.get_card()
        assert card.name == "Python agent" and card.capabilities.streaming, card
        assert [skill.id for skill in card.skills] == ["echo"], card

    async def send(self):
        said = message("echo Grüezi")
        task = await self.ask(said)
        assert task.status.state == TaskState.completed, task
        assert texts(task.artifacts) == ["Grüezi"], task
        assert task.history[0].message_id == said.message_id, task

    async def stream(self):
        events = [event async for event in self.live.send_message(message("echo live"))]
        task = events[-1][0]
        assert task.status.state == TaskState.completed, events
        assert texts(task.artifacts) == ["live"], events

    async def get(self):
        task = await self.ask(message("echo x"))
        again = await self.plain.get_task(TaskQueryParams(id=task.id))
        assert again == task, (again, task)
        await refused(TASK_NOT_FOUND, self.plain.get_task(TaskQueryParams(id="no-such-task")))

    async def question(self):
        events = [event async for event in self.live.send_message(message("ask me"))]
        task = events[-1][0]
        assert task.status.state == TaskState.input_required, events
        done = await self.ask(message("that", task_id=task.id, context_id=task.context_id))
        assert texts(done.artifacts) == ["ask me | that"], done

    async def cancel(self):
        task = await self.ask(message("ask"))
        ended = await self.plain.cancel_task(TaskIdParams(id=task.id))
        assert ended.status.state == TaskState.canceled, ended
        await refused(TASK_NOT_CANCELABLE, self.plain.cancel_task(TaskIdParams(id=task.id)))

    async def resubscribe(self):
        task = await self.ask(message("ask live"))
        results = []
        first = True
        async for found, update in self.live.resubscribe(TaskIdParams(id=task.id)):
            if first:
                first = False
                answer = message("again", task_id=task.id)
                asyncio.get_running_loop().create_task(self.ask(answer))
            if isinstance(update, TaskArtifactUpdateEvent):
                results += texts([update.artifact])
        assert found.status.state == TaskState.completed, found
        assert results == ["ask live | again"], results

    async def parts(self):
        # Over REST and gRPC all numbers of 0.3 are doubles.
        big = 9007199254740993 if self.transport == "JSONRPC" else 9007199254740992
        file = FileWithBytes(bytes="AP8Q", name="a.bin", mime_type="application/octet-stream")
        more = [
            Part(root=FilePart(file=file, metadata={"k": "v"})),
            Part(root=DataPart(data={"n": 42, "big": big, "f": 1.5, "list": [None, True]})),
        ]
        said = message("ask", *more, metadata={"trace": {"id": 7}}, extensions=["urn:x"])
        task = await self.ask(said)
        first = task.history[0]
        assert bare(first.parts) == bare(said.parts), first
        assert first.metadata["trace"] == {"id": 7}, first
        if self.transport == "JSONRPC" or version("a2a-sdk") != "0.3.10":
            # Over REST and gRPC that release leaves it out.
            assert first.extensions == ["urn:x"], first
        await self.plain.cancel_task(TaskIdParams(id=task.id))

    async def push(self):
        webhook = await Webhook().start()
        task = await self.ask(message("ask me"))
        authentication = PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials="secret")
        config = PushNotificationConfig(id="mine", url=webhook.url, token="token", authentication=authentication)
        asked = TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
        assert await self.plain.set_task_callback(asked) == asked
        named = GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="mine")
        assert await self.plain.get_task_callback(named) == asked
        await self.ask(message("that", task_id=task.id, context_id=task.context_id))
        while True:
            headers, body = await webhook.next()
            assert headers["authorization"] == "Bearer secret", headers
            assert headers["x-a2a-notification-token"] == "token", headers
            told = Task.model_validate(body)
            if told.status.state == TaskState.completed:
                break
        assert told.id == task.id and texts(told.artifacts) == ["ask me | that"], told

    async def extended(self):
        card = await self.plain.get_card()
        assert "secret" in [skill.id for skill in card.skills], card


async def main():
    url, transport, *scenarios = sys.argv[1:]
    asker = Asker(url, transport)
    await asker.open()
    for scenario in scenarios:
        await getattr(asker, scenario)()
        print(scenario, flush=True)


asyncio.run(main())
