"""Asks whichever agent can count words.

Usage: python ask.py HOME TEXT, with HOME the directory of a node (`anycast --home HOME up`).
"""

import asyncio
import sys
from pathlib import Path

from agentanycast import AgentCard, Node
from agentanycast.exceptions import AgentAnycastError


async def main(home, text):
    card = AgentCard(name="Asker", description="Asks", skills=[])
    async with Node(card=card, home=Path(home).absolute()) as node:
        try:
            task = await node.send_task({"role": "user", "parts": [{"text": text}]}, skill="count")
            result = await task.wait(timeout=60)
        except AgentAnycastError as error:
            sys.exit(f"no answer: {error}")
        print(result.artifacts[0].parts[0].text)


asyncio.run(main(*sys.argv[1:]))
