"""A webhook that remembers what it was told."""

import asyncio
import json


class Webhook:
    def __init__(self):
        self.told = asyncio.Queue()

    async def start(self):
        self.server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}/hook"
        return self

    async def answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = [line.partition(": ") for line in head.split("\r\n")[1:] if line]
        headers = {name.lower(): value for name, _, value in lines}
        body = await reader.readexactly(int(headers["content-length"]))
        self.told.put_nowait((headers, json.loads(body)))
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def next(self):
        return await asyncio.wait_for(self.told.get(), 60)
