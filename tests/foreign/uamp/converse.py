"""A conversation with an agent of UAMP over each binding, with published clients: `websockets`, `aioquic` and `grpcio`.

`converse.py BINDING HOST PORT CERTIFICATE TOKEN DID TEXT` asks, acknowledges what comes, and prints the deltas as JSON.
"""

import asyncio
import json
import ssl
import struct
import sys
from datetime import datetime, timezone

import grpc
import websockets
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated

from signer import new_key, signed

ENDS = ("done", "cancel", "error")


def envelope(to, text):
    body = {"type": "text/plain", "content": text}
    return json.dumps(signed(new_key("ES256"), "ES256", False, [to], body=body)).encode()


def acknowledgement(delta):
    now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    ack = {"type": "progress", "ts": now, "stream_id": delta["stream_id"], "delta_seq": delta["delta_seq"]}
    return json.dumps({**ack, "payload": {"ack": delta["delta_seq"]}}).encode()


def record(data):
    return struct.pack(">I", len(data)) + data


async def over_websocket(host, port, certificate, token, to, text):
    context = ssl.create_default_context(cafile=certificate)
    url = f"wss://{host}:{port}/uamp/1/ws"
    headers = {"Authorization": f"Bearer {token}"}
    deltas = []
    async with websockets.connect(url, ssl=context, additional_headers=headers, proxy=None) as socket:
        await socket.send(record(envelope(to, text)))
        while not deltas or deltas[-1]["type"] not in ENDS:
            message = await socket.recv()
            (length,) = struct.unpack(">I", message[:4])
            assert length == len(message) - 4
            value = json.loads(message[4:])
            if "delta_seq" in value:
                deltas.append(value)
                await socket.send(record(acknowledgement(value)))
    return deltas


class Http3(QuicConnectionProtocol):
    """Requests over HTTP/3, one after another."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http, self.answers = None, {}

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for said in self.http.handle_event(event):
            headers, body, ended = self.answers[said.stream_id]
            if isinstance(said, HeadersReceived):
                headers.update({name.decode(): value.decode() for name, value in said.headers})
            if isinstance(said, DataReceived):
                body.extend(said.data)
            if said.stream_ended:
                ended.set_result(None)

    async def request(self, method, authority, path, token, data=b""):
        stream = self._quic.get_next_available_stream_id()
        ended = asyncio.get_running_loop().create_future()
        headers, body = {}, bytearray()
        self.answers[stream] = headers, body, ended
        asked = {":method": method, ":scheme": "https", ":authority": authority, ":path": path}
        asked |= {"authorization": f"Bearer {token}", "content-type": "application/uamp+json;v=1"}
        lines = [(name.encode(), value.encode()) for name, value in asked.items()]
        self.http.send_headers(stream, lines, end_stream=not data)
        if data:
            self.http.send_data(stream, data, end_stream=True)
        self.transmit()
        await ended
        return headers, bytes(body)


async def over_http3(host, port, certificate, token, to, text):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"])
    configuration.load_verify_locations(certificate)
    authority = f"{host}:{port}"
    async with connect(host, port, configuration=configuration, create_protocol=Http3) as client:
        sent, _ = await client.request("POST", authority, "/v1/messages", token, envelope(to, text))
        assert sent[":status"] == "202", sent
        _, events = await client.request("GET", authority, sent["location"], token)
    lines = events.decode().split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def field(number, data):
    """A field of protobuf that holds bytes."""
    length, size = b"", len(data)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def first_field(message):
    """The bytes of the first field of a message."""
    size, shift, at = 0, 0, 1
    while True:
        size |= (message[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if message[at - 1] < 128:
            return message[at : at + size]


async def over_grpc(host, port, certificate, token, to, text):
    with open(certificate, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    metadata = (("authorization", f"Bearer {token}"),)
    async with grpc.aio.secure_channel(f"{host}:{port}", credentials) as channel:
        accepted = await channel.unary_unary("/uamp.v1.Agent/Send")(field(1, envelope(to, text)), metadata=metadata)
        wanted = field(1, first_field(accepted))
        answer = channel.unary_stream("/uamp.v1.Agent/Stream")(wanted, metadata=metadata)
        return [json.loads(first_field(delta)) async for delta in answer]


BINDINGS = {"websocket": over_websocket, "http3": over_http3, "grpc": over_grpc}


async def main(binding, host, port, *rest):
    deltas = await asyncio.wait_for(BINDINGS[binding](host, int(port), *rest), 30)
    json.dump(deltas, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
