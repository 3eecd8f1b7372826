"""Two Node objects of the published Python SDK in one process, at the same daemon.

It prints one line of JSON when both serve, and one for each time that a handler is called. The first node's handler completes
the task; the second one's only says that it was called. It ends when standard input does. Usage: two_nodes.py HOME
"""

import asyncio
import json
import sys

from agentanycast import AgentCard, Node, Skill

HOME = sys.argv[1]


def say(**facts):
    print(json.dumps(facts), flush=True)


def handler(number):
    async def handle(task):
        text = task.messages[0].parts[0].text
        say(node=number, text=text)
        if number == 1:
            await task.complete(artifacts=[{"name": "answer", "parts": [{"text": text.upper()}]}])

    return handle


async def main():
    card = AgentCard(name="Pair", description="Is served by two nodes", skills=[Skill(id="pair", description="")])
    async with Node(card=card, home=HOME) as first, Node(card=card, home=HOME) as second:
        first.on_task(handler(1))
        second.on_task(handler(2))
        serving = {asyncio.create_task(node.serve_forever()) for node in (first, second)}
        say(peer_id=first.peer_id)
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait({*serving, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            raise SystemExit("serve_forever ended by itself")
        for task in serving:
            task.cancel()


asyncio.run(main())
