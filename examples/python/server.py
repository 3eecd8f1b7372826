"""An agent that counts words.

Usage: python server.py, beside a daemon that runs (`anycast up`).
"""

import asyncio

from agentanycast import AgentCard, Node, Skill

CARD = AgentCard(
    name="Counter",
    description="Counts the words of a text",
    skills=[Skill(id="count", description="How many words a text has")],
)


async def main():
    async with Node(card=CARD) as node:

        @node.on_task
        async def count(task):
            words = [word for part in task.messages[-1].parts for word in (part.text or "").split()]
            if not words:
                await task.fail("there are no words to count")
                return
            answer = f"{len(words)} words, the longest is {max(words, key=len)}"
            await task.complete(artifacts=[{"name": "count", "parts": [{"text": answer}]}])

        print(f"{CARD.name} serves as {node.peer_id}", flush=True)
        await node.serve_forever()


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
