"""A client on the official A2A SDK, version 1.0: each scenario is one thing that users do with an agent.

It prints the name of each scenario that went well, and ends. Usage: client.py URL BINDING SCENARIO...
With A2A_VERSION=0.3 in its environment it takes the card's interfaces of 0.3.
"""

import asyncio
import os
import sys
from uuid import uuid4

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import ExtensionSupportRequiredError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from google.protobuf.json_format import MessageToDict, ParseDict
from jwt import PyJWK
from jwt.utils import base64url_encode
from webhook import Webhook

VERSION = os.environ.get("A2A_VERSION", "1.0")

ENDS = {TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED}


def message(*texts, **fields):
    parts = [Part(text=text) for text in texts]
    return Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=parts, **fields)


def request(said, wait=True):
    configuration = SendMessageConfiguration(return_immediately=not wait)
    return SendMessageRequest(message=said, configuration=configuration)


def texts(artifacts):
    return [part.text for artifact in artifacts for part in artifact.parts if part.text]


async def refused(kind, call):
    try:
        await call
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was expected")


def base58(text):
    number = 0
    for digit in text:
        number = number * 58 + "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".index(digit)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def did_key(verified=True):
    """Finds the key of a signature in its own name; or another one."""

    def key_of(kid, _):
        did = kid.partition("#")[0]
        raw = base58(did.removeprefix("did:key:z"))
        assert raw[:2] == b"\xed\x01", raw
        key = raw[2:] if verified else bytes(32)
        return PyJWK({"kty": "OKP", "crv": "Ed25519", "x": base64url_encode(key).decode()})

    return create_signature_verifier(key_of, ["EdDSA"])


class Asker:
    def __init__(self, url, binding):
        self.url, self.binding = url, binding

    async def client(self, streaming):
        token = os.environ.get("BRIDGE_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        http = httpx.AsyncClient(timeout=60, headers=headers)
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            supported_protocol_bindings=[self.binding],
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        card = await A2ACardResolver(http, self.url).get_agent_card()
        interfaces = [interface for interface in card.supported_interfaces if interface.protocol_version == VERSION]
        card.ClearField("supported_interfaces")
        card.supported_interfaces.extend(interfaces)
        return ClientFactory(config).create(card)

    async def open(self):
        self.plain, self.live = await self.client(False), await self.client(True)

    async def ask(self, said, wait=True):
        answers = [answer async for answer in self.plain.send_message(request(said, wait))]
        assert len(answers) == 1, answers
        return answers[0].task

    async def until(self, id, state):
        while True:
            task = await self.plain.get_task(GetTaskRequest(id=id))
            if task.status.state == state:
                return task
            assert task.status.state not in ENDS, task
            await asyncio.sleep(0.02)

    async def card(self):
        card = self.plain._card
        assert card.name == "Python agent", card
        assert [skill.id for skill in card.skills] == ["echo"], card
        assert card.capabilities.streaming, card

    async def signature(self):
        async with httpx.AsyncClient() as http:
            resolver = A2ACardResolver(http, self.url)
            await resolver.get_agent_card(signature_verifier=did_key())
            await refused(InvalidSignaturesError, resolver.get_agent_card(signature_verifier=did_key(False)))

    async def send(self):
        said = message("echo Grüezi")
        task = await self.ask(said)
        assert task.status.state == TaskState.TASK_STATE_COMPLETED, task
        assert texts(task.artifacts) == ["Grüezi"], task
        assert task.history[0].message_id == said.message_id, task

    async def fail(self):
        task = await self.ask(message("fail no paper"))
        assert task.status.state == TaskState.TASK_STATE_FAILED, task
        assert task.status.message.parts[0].text == "no paper", task

    async def stream(self):
        events = [event async for event in self.live.send_message(request(message("echo live")))]
        assert events[0].WhichOneof("payload") == "task", events
        results = texts(events[0].task.artifacts)
        results += [text for event in events for text in texts([event.artifact_update.artifact])]
        assert results == ["live"], events
        last = events[-1]
        state = last.task.status.state if last.HasField("task") else last.status_update.status.state
        assert state == TaskState.TASK_STATE_COMPLETED, events

    async def get(self):
        task = await self.ask(message("echo x"))
        again = await self.plain.get_task(GetTaskRequest(id=task.id))
        assert again == task, (again, task)
        if (VERSION, self.binding) != ("0.3", "GRPC"):
            # There, 0 means all.
            short = await self.plain.get_task(GetTaskRequest(id=task.id, history_length=0))
            assert not short.history, short
        await refused(TaskNotFoundError, self.plain.get_task(GetTaskRequest(id="no-such-task")))

    async def list(self):
        context = str(uuid4())
        ids = [(await self.ask(message(f"echo {n}", context_id=context))).id for n in range(3)]
        page = await self.plain.list_tasks(ListTasksRequest(context_id=context, page_size=2))
        assert (len(page.tasks), page.total_size) == (2, 3), page
        rest = ListTasksRequest(context_id=context, page_size=2, page_token=page.next_page_token)
        last = await self.plain.list_tasks(rest)
        assert last.next_page_token == "", last
        assert [task.id for task in [*page.tasks, *last.tasks]] == ids[::-1]

    async def cancel(self):
        task = await self.ask(message("slow"), wait=False)
        await self.until(task.id, TaskState.TASK_STATE_WORKING)
        ended = await self.plain.cancel_task(CancelTaskRequest(id=task.id))
        assert ended.status.state == TaskState.TASK_STATE_CANCELED, ended
        await refused(TaskNotCancelableError, self.plain.cancel_task(CancelTaskRequest(id=task.id)))

    async def question(self):
        # The stream of a message ends when the agent asks.
        events = [event async for event in self.live.send_message(request(message("ask live")))]
        assert self.state(events[-1]) == TaskState.TASK_STATE_INPUT_REQUIRED, events
        task = await self.ask(message("ask me"))
        assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task
        done = await self.ask(message("that", task_id=task.id, context_id=task.context_id))
        assert done.id == task.id and texts(done.artifacts) == ["ask me | that"], done
        await refused(UnsupportedOperationError, self.ask(message("more", task_id=task.id)))

    async def resubscribe(self):
        task = await self.ask(message("ask live"))
        events = []
        async for event in self.live.subscribe(SubscribeToTaskRequest(id=task.id)):
            events.append(event)
            if len(events) == 1:
                assert event.task.id == task.id, event
                await self.ask(message("again", task_id=task.id), wait=False)
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED, events
        results = [text for event in events for text in texts([event.artifact_update.artifact])]
        assert results == ["ask live | again"], events

    async def parts(self):
        fields = {
            "messageId": str(uuid4()),
            "role": "ROLE_USER",
            "parts": [
                {"text": "ask", "mediaType": "text/markdown", "metadata": {"lang": "en"}},
                {"raw": "AP8Q", "filename": "a.bin", "mediaType": "application/octet-stream"},
                {"url": "https://example.org/a.png", "mediaType": "image/png"},
                {"data": {"n": 42, "f": 1.5, "list": [None, True, "x"]}},
            ],
            "metadata": {"trace": {"id": "7"}},
            "extensions": ["urn:x"],
        }
        if VERSION == "0.3":
            # The SDK has no place for it there.
            del fields["parts"][0]["mediaType"]
        task = await self.ask(ParseDict(fields, Message()))
        first = MessageToDict(task.history[0])
        assert first["parts"] == fields["parts"], first
        assert first["metadata"]["trace"] == fields["metadata"]["trace"], first
        assert first["extensions"] == fields["extensions"], first
        await self.plain.cancel_task(CancelTaskRequest(id=task.id))

    async def push(self):
        webhook = await Webhook().start()
        authentication = AuthenticationInfo(scheme="Bearer", credentials="secret")
        config = TaskPushNotificationConfig(
            id="mine", url=webhook.url, token="token", authentication=authentication
        )
        said = request(message("ask me"))
        said.configuration.task_push_notification_config.CopyFrom(config)
        (answer,) = [answer async for answer in self.plain.send_message(said)]
        task = answer.task
        named = dict(task_id=task.id, id="mine")
        kept = await self.plain.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**named))
        # Over gRPC the tenant names the agent.
        config.task_id, config.tenant = task.id, kept.tenant
        assert kept == config, kept
        other = TaskPushNotificationConfig(task_id=task.id, id="other", url="https://hooks.example.org/")
        assert await self.plain.create_task_push_notification_config(other) == other
        listed = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        found = await self.plain.list_task_push_notification_configs(listed)
        assert [one.id for one in found.configs] == ["mine", "other"], found
        gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="other")
        await self.plain.delete_task_push_notification_config(gone)
        found = await self.plain.list_task_push_notification_configs(listed)
        assert [one.id for one in found.configs] == ["mine"], found

        await self.ask(message("that", task_id=task.id), wait=False)
        events = []
        while not events or self.state(events[-1]) != TaskState.TASK_STATE_COMPLETED:
            headers, body = await webhook.next()
            assert headers["authorization"] == "Bearer secret", headers
            assert headers["x-a2a-notification-token"] == "token", headers
            events.append(ParseDict(body, StreamResponse()))
        assert events[0].task.id == task.id, events
        results = [text for event in events for text in texts([event.artifact_update.artifact])]
        assert results == ["ask me | that"], events

    def state(self, event):
        return event.task.status.state if event.HasField("task") else event.status_update.status.state

    async def extended(self):
        assert self.plain._card.capabilities.extended_agent_card, self.plain._card
        asked = GetExtendedAgentCardRequest()
        card = await self.plain.get_extended_agent_card(asked, signature_verifier=did_key())
        assert "secret" in [skill.id for skill in card.skills], card

    async def extensions(self):
        said = request(message("echo x"))
        await refused(ExtensionSupportRequiredError, self.ask(message("echo x")))
        parameters = ServiceParametersFactory.create([with_a2a_extensions(["urn:must"])])
        context = ClientCallContext(service_parameters=parameters)
        (answer,) = [answer async for answer in self.plain.send_message(said, context=context)]
        assert texts(answer.task.artifacts) == ["x"], answer


async def main():
    url, binding, *scenarios = sys.argv[1:]
    asker = Asker(url, binding)
    await asker.open()
    for scenario in scenarios:
        await getattr(asker, scenario)()
        print(scenario, flush=True)


asyncio.run(main())
