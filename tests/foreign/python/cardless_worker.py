"""Completes a task by the published Python SDK's own client of the daemon, in a process that never sets a card.

Usage: cardless_worker.py HOME TASK_ID TEXT
"""

import asyncio
import sys

from agentanycast._grpc_client import GrpcClient
from agentanycast.node import _artifact_to_proto
from agentanycast.task import Artifact, Part

HOME, TASK, TEXT = sys.argv[1:]


async def main():
    daemon = GrpcClient(f"unix://{HOME}/daemon.sock")
    await daemon.connect()
    await daemon.complete_task(TASK, [_artifact_to_proto(Artifact(name="answer", parts=[Part(text=TEXT)]))])
    await daemon.close()


asyncio.run(main())
