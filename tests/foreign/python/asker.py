"""Sends tasks with the published Python SDK to an agent as agent.py is one, and checks how they end.

Usage: asker.py home DIRECTORY PEER SCENARIO… | asker.py daemon ADDRESS PEER SCENARIO…
With RELAY in the environment the first one's daemon knows that relay, by the SDK's own `relay=`.
Scenarios: many, fail, cancel, talk, large, card, skill, url (where PEER is a URL). Prints each when it has passed; anything unexpected is a traceback.
"""

import asyncio
import os
import sys

from agentanycast import AgentCard, Message, Node, Part
from agentanycast.exceptions import SkillNotFoundError, TaskCanceledError, TaskFailedError
from agentanycast.task import TaskStatus

LIMIT = 60
MANY = 200


def message(text):
    return Message(role="user", parts=[Part(text=text)])


def text_of(task):
    return "".join(part.text or "" for artifact in task.artifacts for part in artifact.parts)


async def until(handle, status):
    async with asyncio.timeout(LIMIT):
        while handle.status != status:
            await asyncio.sleep(0.02)


async def echo(node, peer, number):
    handle = await node.send_task(message(f"echo {number}"), peer_id=peer)
    task = await handle.wait(timeout=LIMIT)
    assert task.status == TaskStatus.COMPLETED, task
    assert text_of(task) == str(number), task


async def many(node, peer):
    """The handler completes at once, so the end may come before the SDK has subscribed."""
    for number in range(MANY // 2):
        await echo(node, peer, number)
    await asyncio.gather(*(echo(node, peer, number) for number in range(MANY // 2, MANY)))


async def fail(node, peer):
    handle = await node.send_task(message("fail no such city"), peer_id=peer)
    try:
        await handle.wait(timeout=LIMIT)
    except TaskFailedError:
        pass
    else:
        raise AssertionError("the task did not fail")
    task = await node._grpc.get_task(handle.task_id)
    said = [part.text_part.text for part in task.messages[-1].parts]
    assert said == ["no such city"], task


async def cancel(node, peer):
    handle = await node.send_task(message("slow"), peer_id=peer)
    await until(handle, TaskStatus.WORKING)
    await handle.cancel()
    try:
        await handle.wait(timeout=LIMIT)
    except TaskCanceledError:
        return
    raise AssertionError("the task was not canceled")


async def talk(node, peer):
    handle = await node.send_task(message("ask first"), peer_id=peer)
    await until(handle, TaskStatus.INPUT_REQUIRED)
    further = await node.send_task(
        message("second"), peer_id=peer, metadata={"task_id": handle.task_id}
    )
    assert further.task_id == handle.task_id
    task = await handle.wait(timeout=LIMIT)
    assert text_of(task) == "ask first | second", task
    again = await further.wait(timeout=LIMIT)
    assert text_of(again) == text_of(task)


async def large(node, peer):
    """More than the SDK's gRPC library takes in one message: it comes by reference, and as a stream."""
    size = 5 << 20
    handle = await node.send_task(message(f"large {size}"), peer_id=peer)
    task = await handle.wait(timeout=LIMIT)
    [artifact] = task.artifacts
    reference = f"agentanycast-stream:{task.task_id}/{artifact.artifact_id}"
    assert artifact.parts[0].url == reference, artifact
    content = b""
    async for event in node._grpc.subscribe_task_stream(task.task_id):
        content += event.stream_chunk.data
    assert content == b"7" * size


async def card(node, peer):
    await node.connect_peer(peer)
    found = await node.get_card(peer)
    assert found.peer_id == peer and found.did_key.startswith("did:key:z6Mk"), found
    assert [skill.id for skill in found.skills] == ["echo"], found
    assert peer in [entry["peer_id"] for entry in await node.list_peers()]


async def skill(node, peer):
    """To whoever can; the peer is the only one."""
    found = await node.discover("echo")
    assert [agent["peer_id"] for agent in found] == [peer], found
    assert await node.discover("dance") == []
    handle = await node.send_task(message("echo by skill"), skill="echo")
    task = await handle.wait(timeout=LIMIT)
    assert text_of(task) == "by skill", task
    try:
        await node.send_task(message("tango"), skill="dance")
    except SkillNotFoundError:
        pass
    else:
        raise AssertionError("somebody can dance")


async def url(node, where):
    handle = await node.send_task(message("echo by url"), url=where)
    task = await handle.wait(timeout=LIMIT)
    assert text_of(task) == "by url", task
    handle = await node.send_task(message("question"), url=where)
    await until(handle, TaskStatus.INPUT_REQUIRED)
    await node.send_task(message("the red one"), url=where, metadata={"task_id": handle.task_id})
    task = await handle.wait(timeout=LIMIT)
    assert text_of(task) == "answered the red one", task


SCENARIOS = {
    "many": many,
    "fail": fail,
    "cancel": cancel,
    "talk": talk,
    "large": large,
    "card": card,
    "skill": skill,
    "url": url,
}


async def main():
    kind, where, peer, *names = sys.argv[1:]
    own = AgentCard(name="Python asker", description="Asks")
    if kind == "daemon":
        node = Node(card=own, daemon_addr=where)
    else:
        node = Node(card=own, home=where, relay=os.environ.get("RELAY"))
    async with node:
        for name in names:
            await SCENARIOS[name](node, peer)
            print(name, flush=True)


asyncio.run(main())
