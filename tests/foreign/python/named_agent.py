"""An agent with this name and skill on the published Python SDK, which answers each task with its name and what it was sent.
The first word of a task says more:

hold FILE …   complete once there is that file
leave …       leave the task to another process

It prints one line of JSON when it serves, and one for each time that its handler is called. It ends when standard input
does. Usage: named_agent.py HOME NAME SKILL
"""

import asyncio
import json
import sys
from pathlib import Path

from agentanycast import AgentCard, Node, Skill

HOME, NAME, SKILL = sys.argv[1:]


def say(**facts):
    print(json.dumps(facts), flush=True)


async def handle(task):
    text = task.messages[0].parts[0].text
    say(task=task.task_id, text=text)
    word, _, rest = text.partition(" ")
    if word == "leave":
        return
    while word == "hold" and not Path(rest.split()[0]).exists():
        await asyncio.sleep(0.05)
    await task.complete(artifacts=[{"name": "answer", "parts": [{"text": f"{NAME}: {text}"}]}])


async def main():
    card = AgentCard(name=NAME, description="Says who it is", skills=[Skill(id=SKILL, description="Says who it is")])
    async with Node(card=card, home=HOME) as node:
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
