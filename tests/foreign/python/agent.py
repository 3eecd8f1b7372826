"""An agent on the published Python SDK. The first word of a task says what to do with it:

echo TEXT   complete at once
fail TEXT   fail with that text
slow        report progress, then never end
raise TEXT  report progress, then raise an exception
ask TEXT    ask for input; complete with all that was said
large SIZE  complete with an artifact of that many bytes

It prints one line of JSON when it serves, and one for each time that a handler is called. It ends when
standard input does. Usage: agent.py home DIRECTORY | agent.py daemon ADDRESS
"""

import asyncio
import json
import sys

from agentanycast import AgentCard, IncomingTask, Node, Skill
from agentanycast.task import Artifact, Part


def say(**facts):
    print(json.dumps(facts), flush=True)


def texts(task):
    return ["".join(part.text or "" for part in message.parts) for message in task.messages]


async def handle(task: IncomingTask) -> None:
    said = texts(task)
    status = task._task.status
    say(task=task.task_id, status=status.value, said=said, sender=task.peer_id)
    if status.is_terminal:
        return
    word, _, rest = said[0].partition(" ")
    if word == "echo":
        await task.complete(artifacts=[Artifact(name="echo", parts=[Part(text=rest)])])
    elif word == "fail":
        await task.fail(rest)
    elif word == "large":
        await task.complete(artifacts=[Artifact(name="large", parts=[Part(raw=b"7" * int(rest))])])
    elif word == "slow":
        await task.update_status("working")
    elif word == "raise":
        await task.update_status("working")
        raise RuntimeError(rest)
    elif word == "ask" and len(said) == 1:
        await task.request_input({"parts": [{"text": "what else?"}]})
    elif word == "ask":
        await task.complete(artifacts=[{"name": "all", "parts": [{"text": " | ".join(said)}]}])


def node_of(kind, where):
    card = AgentCard(
        name="Python agent",
        description="Does what the first word says",
        skills=[Skill(id="echo", description="Says it again")],
    )
    if kind == "daemon":
        return Node(card=card, daemon_addr=where)
    return Node(card=card, home=where)


async def main() -> None:
    async with node_of(sys.argv[1], sys.argv[2]) as node:
        node.on_task(handle)
        serving = asyncio.create_task(node.serve_forever())
        say(peer_id=node.peer_id)
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
            raise SystemExit("serve_forever ended by itself")
        serving.cancel()


asyncio.run(main())
