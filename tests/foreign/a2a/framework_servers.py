"""An agent of a framework that is served over A2A as users serve it: `to_a2a` of the Agent Development Kit, or
`A2AExecutor` of the Microsoft Agent Framework. No model is asked: the agent answers by a function.

`echo TEXT` is answered with TEXT, `fail TEXT` fails; all other text is answered with `answered TEXT`. It prints
{"url": ...} and ends with its input. Usage: framework_servers.py adk|agent-framework
"""

import asyncio
import json
import socket
import sys
import warnings

import uvicorn

warnings.simplefilter("ignore")


def answer(text):
    word, _, rest = text.partition(" ")
    if word == "fail":
        raise RuntimeError(rest)
    return rest if word == "echo" else f"answered {text}"


def adk(port):
    from google.adk.a2a.utils.agent_to_a2a import to_a2a
    from google.adk.agents import BaseAgent
    from google.adk.events import Event
    from google.genai.types import Content, Part

    class Agent(BaseAgent):
        async def _run_async_impl(self, context):
            text = "".join(part.text or "" for part in context.user_content.parts)
            content = Content(role="model", parts=[Part(text=answer(text))])
            yield Event(invocation_id=context.invocation_id, author=self.name, content=content)

    return to_a2a(Agent(name="remote", description="Called by URL"), host="127.0.0.1", port=port)


def agent_framework(port):
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface
    from agent_framework import AgentResponse, BaseAgent, Message
    from agent_framework_a2a import A2AExecutor
    from starlette.applications import Starlette

    class Agent(BaseAgent):
        async def run(self, messages=None, *, stream=False, session=None, **_):
            text = messages if isinstance(messages, str) else messages[-1].text
            return AgentResponse(messages=[Message(role="assistant", contents=[answer(text)])])

    card = AgentCard(
        name="remote",
        description="Called by URL",
        version="1.0.0",
        default_input_modes=["text"],
        default_output_modes=["text"],
        capabilities=AgentCapabilities(streaming=True),
        # Without a version, as the framework's own example has it.
        supported_interfaces=[AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC")],
    )
    executor = A2AExecutor(Agent(name="remote"))
    handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])


async def main(framework):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = {"adk": adk, "agent-framework": agent_framework}[framework](port)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.ensure_future(server.serve([listener]))
    while not server.started:
        await asyncio.sleep(0.02)
    print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.should_exit = server.force_exit = True
    await serving


asyncio.run(main(sys.argv[1]))
