"""What the A2A Inspector checks of an agent's card and of its answers, in both versions. The package `a2a-inspector`
on PyPI is empty, so its checks are written down here. The official SDK fetches the card, as in the Inspector.

It prints the name of each scenario that succeeds, and ends. Usage: inspector.py URL SCENARIO...
"""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver
from google.protobuf.json_format import MessageToDict

URL = sys.argv[1]

STATES = {"submitted", "working", "input-required", "completed", "canceled", "failed", "rejected", "auth-required"}


def faults_of_card(card):
    for name in ("name", "description", "version", "skills"):
        if not card.get(name):
            yield f"{name} is missing or empty"
    if "url" not in card and "supportedInterfaces" not in card:
        yield "neither url nor supportedInterfaces"
    if not card.get("url", "http://").startswith(("http://", "https://")):
        yield f"url is not absolute: {card['url']}"
    interfaces = card.get("supportedInterfaces", [{"url": "x", "protocolBinding": "x"}])
    if not interfaces:
        yield "supportedInterfaces is empty"
    for interface in interfaces:
        if not interface.get("url") or not interface.get("protocolBinding"):
            yield f"an interface without url or protocolBinding: {interface}"
    if not isinstance(card.get("capabilities", {}), dict):
        yield "capabilities is not an object"
    for name in ("defaultInputModes", "defaultOutputModes"):
        if not all(isinstance(mode, str) for mode in card.get(name, [])):
            yield f"{name} is not an array of strings"


def faults_of_event(kind, event):
    """`kind`: as 0.3 names it."""
    if kind == "task" and not event.get("id"):
        yield "a task without id"
    if kind in ("task", "status-update"):
        state = event.get("status", {}).get("state", "")
        if state.removeprefix("TASK_STATE_").lower().replace("_", "-") not in STATES:
            yield f"an unknown state: {state!r}"
    if kind == "artifact-update" and not event.get("artifact", {}).get("parts"):
        yield "an artifact without parts"
    if kind == "message" and (not event.get("parts") or event.get("role") not in ("agent", "ROLE_AGENT")):
        yield "a message that is not an agent's, or is empty"
    if kind not in ("task", "status-update", "artifact-update", "message"):
        yield f"an unknown kind: {kind!r}"


async def card():
    async with httpx.AsyncClient(timeout=60) as http:
        resolver = A2ACardResolver(http, URL)
        parsed = MessageToDict(await resolver.get_agent_card())
        whole = (await http.get(f"{URL}/.well-known/agent-card.json")).raise_for_status().json()
    for shown in (parsed, whole):
        assert not list(faults_of_card(shown)), (list(faults_of_card(shown)), shown)


async def events(method, message, headers):
    """The results of a stream over JSON-RPC."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": {"messageId": str(uuid4()), **message}}}
    async with httpx.AsyncClient(timeout=60) as http, http.stream("POST", URL, json=asked, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream"), answer
        lines = [line async for line in answer.aiter_lines()]
    answers = [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]
    return [answer["result"] for answer in answers]


async def messages():
    for text in ("echo x", "ask me", "fail it broke"):
        said = {"role": "user", "kind": "message", "parts": [{"kind": "text", "text": text}]}
        seen = [(event["kind"], event) for event in await events("message/stream", said, {})]
        said = {"role": "ROLE_USER", "parts": [{"text": text}]}
        names = {"statusUpdate": "status-update", "artifactUpdate": "artifact-update"}
        for event in await events("SendStreamingMessage", said, {"A2A-Version": "1.0"}):
            ((name, value),) = event.items()
            seen.append((names.get(name, name), value))
        faults = [fault for kind, event in seen for fault in faults_of_event(kind, event)]
        assert len(seen) > 1 and not faults, (faults, seen)


async def main():
    for name in sys.argv[2:]:
        await globals()[name]()
        print(name, flush=True)


asyncio.run(main())
