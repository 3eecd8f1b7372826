"""An agent on the official A2A SDK, version 1.0, over JSON-RPC, REST and gRPC: what mesh agents call by URL.

It prints {"url": ...}, then {"got": MESSAGE_ID, "text": ...} for each message and {"canceled": ...} for each cancel.
A line on standard input lets what is held go on by one step. Usage: server.py BINDING streaming|plain [PORT], with the id of
its skill in A2A_SKILL (`echo`).
"""

import asyncio
import json
import os
import socket
import sys

import grpc
import uvicorn
from a2a.helpers import get_message_text, new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, Role, TaskState
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from starlette.applications import Starlette


def say(**what):
    print(json.dumps(what), flush=True)


class Agent(AgentExecutor):
    def __init__(self):
        self.steps = asyncio.Semaphore(0)

    async def execute(self, context, queue):
        text = get_message_text(context.message)
        say(got=context.message.message_id, text=text, context=context.context_id)
        if text == "message":
            said = Message(message_id="said", role=Role.ROLE_AGENT, parts=[Part(text="no task")])
            return await queue.enqueue_event(said)
        if text == "named":
            # As the SDK's own helpers make messages: with the ids that the request has been given.
            said = Message(message_id="said", role=Role.ROLE_AGENT, parts=[Part(text="no task")])
            said.task_id, said.context_id = context.task_id, context.context_id
            return await queue.enqueue_event(said)
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            task.id, task.context_id = context.task_id, context.context_id
            await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        word, _, rest = text.partition("\n")[0].partition(" ")
        do = getattr(self, f"do_{word}", None)
        if do is None:
            return await self.answer(updater, context, f"answered {text}")
        await do(updater, context, rest)

    async def answer(self, updater, context, text):
        await updater.add_artifact([Part(text=text)], artifact_id="answer", name="Answer")
        await updater.complete(updater.new_agent_message([Part(text="done")]))

    async def do_echo(self, updater, context, rest):
        await updater.start_work(updater.new_agent_message([Part(text="begun")]))
        await self.answer(updater, context, rest)

    async def do_metadata(self, updater, context, rest):
        await self.answer(updater, context, json.dumps(context.metadata, sort_keys=True))

    async def do_parts(self, updater, context, rest):
        await updater.add_artifact(list(context.message.parts)[1:], artifact_id="parts", metadata={"n": 1.5, "l": [True]})
        await updater.complete()

    async def do_steps(self, updater, context, rest):
        for step in range(int(rest)):
            await updater.update_status(
                TaskState.TASK_STATE_WORKING, updater.new_agent_message([Part(text=f"step {step}")])
            )
            last = step + 1 == int(rest)
            await updater.add_artifact([Part(text=f"{step};")], artifact_id="steps", append=step > 0, last_chunk=last)
        await updater.complete()

    async def do_held(self, updater, context, rest):
        for step in range(int(rest)):
            last = step + 1 == int(rest)
            await updater.add_artifact([Part(text=f"{step};")], artifact_id="held", append=step > 0, last_chunk=last)
            await updater.update_status(
                TaskState.TASK_STATE_WORKING, updater.new_agent_message([Part(text=f"held {step}")])
            )
            await self.steps.acquire()
        await updater.complete()

    async def do_question(self, updater, context, rest):
        await updater.requires_input(updater.new_agent_message([Part(text="which one?")]))

    async def do_login(self, updater, context, rest):
        await updater.requires_auth(updater.new_agent_message([Part(text="log in")]))

    async def do_fail(self, updater, context, rest):
        await updater.failed(updater.new_agent_message([Part(text="it broke")]))

    async def do_reject(self, updater, context, rest):
        await updater.reject(updater.new_agent_message([Part(text="not mine")]))

    async def do_wait(self, updater, context, rest):
        await updater.start_work()
        await asyncio.Event().wait()

    async def cancel(self, context, queue):
        say(canceled=context.task_id)
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


async def held(agent):
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        agent.steps.release()


async def main(binding, streaming, port):
    agent = Agent()
    listener = socket.create_server(("127.0.0.1", int(port)))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    grpc_server = grpc.aio.server()
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    places = {"JSONRPC": f"{url}/rpc", "HTTP+JSON": f"{url}/rest", "GRPC": f"127.0.0.1:{grpc_port}"}
    interface = AgentInterface(url=places[binding], protocol_binding=binding, protocol_version="1.0")
    card = AgentCard(
        name="Remote agent",
        description="Called by URL",
        version="1.0.0",
        supported_interfaces=[interface],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=streaming == "streaming"),
        skills=[AgentSkill(id=os.environ.get("A2A_SKILL", "echo"), name="echo", description="Says it again", tags=["test"])],
    )
    handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card)
    routes = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, rpc_url="/rpc"),
        *create_rest_routes(handler, path_prefix="/rest"),
    ]
    add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
    await grpc_server.start()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), lifespan="off", log_level="warning"))
    say(url=url)
    serving = asyncio.ensure_future(server.serve([listener]))
    await held(agent)
    server.should_exit = server.force_exit = True
    await grpc_server.stop(0)
    await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "0"))
