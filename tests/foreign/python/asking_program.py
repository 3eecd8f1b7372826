"""A program on the published Python SDK that asks and never serves: it has a card, since the SDK wants one, and no handler.

Each line on standard input is a task, {"peer_id" or "skill": ..., "message": TEXT}. It prints {"peer_id": ...} when it has
started, and {"status", "text"} of each task that ended. Usage: asking_program.py HOME
"""

import asyncio
import json
import sys

from agentanycast import AgentCard, Node, Skill

LIMIT = 60


def say(**facts):
    print(json.dumps(facts), flush=True)


async def main():
    card = AgentCard(name="Asker", description="Asks others", skills=[Skill(id="ask", description="Asks others")])
    async with Node(card=card, home=sys.argv[1]) as node:
        say(peer_id=node.peer_id)
        while line := await asyncio.to_thread(sys.stdin.readline):
            target = json.loads(line)
            message = {"parts": [{"text": target.pop("message")}]}
            handle = await node.send_task(message, **target)
            task = await handle.wait(timeout=LIMIT)
            texts = [part.text for artifact in task.artifacts for part in artifact.parts]
            say(status=task.status.value, text="".join(texts))


asyncio.run(main())
