"""A constellation of the Agent Interaction Protocol, by hand on the package websockets: it registers for one target, asks
what the target is, and has it do each task that standard input names, one JSON text a line.

It prints one line of JSON for each frame that it receives. Its heartbeats say "device", as upstream's do.
Usage: constellation.py URL TARGET [CA_FILE]
"""

import asyncio
import json
import ssl
import sys

import websockets

URL, TARGET = sys.argv[1:3]
CA_FILE = sys.argv[3] if len(sys.argv) > 3 else None
CLIENT_ID = f"probe@{TARGET}"


def frame(kind, status, client_type="constellation", **fields):
    message = {"type": kind, "status": status, "client_type": client_type, "client_id": CLIENT_ID}
    return json.dumps(message | fields)


async def receive(socket, wanted):
    while True:
        text = await socket.recv()
        print(text, flush=True)
        message = json.loads(text)
        if message["type"] in wanted:
            return message


async def main():
    context = ssl.create_default_context(cafile=CA_FILE) if CA_FILE else None
    async with websockets.connect(URL, ssl=context, max_size=100 << 20) as socket:
        metadata = {
            "type": "constellation_client",
            "task_name": "probe",
            "targeted_device_id": TARGET,
            "capabilities": ["task_distribution"],
            "version": "2.0",
        }
        await socket.send(frame("register", "ok", target_id=TARGET, metadata=metadata))
        if (await receive(socket, {"heartbeat", "error"}))["type"] == "error":
            return
        await socket.send(frame("device_info_request", "ok", target_id=TARGET, request_id="info-1"))
        await receive(socket, {"device_info_response", "error"})
        await socket.send(frame("heartbeat", "ok", client_type="device", metadata={"device_id": TARGET}))
        await receive(socket, {"heartbeat", "error"})
        number = 0
        while line := await asyncio.to_thread(sys.stdin.readline):
            task = {
                "target_id": TARGET,
                "request": json.loads(line),
                "task_name": "probe",
                "session_id": f"probe@t{number}",
                "request_id": None,
            }
            await socket.send(frame("task", "continue", **task))
            await receive(socket, {"task_end"})
            number += 1


asyncio.run(main())
