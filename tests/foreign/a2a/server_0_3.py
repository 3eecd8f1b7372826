"""As server.py, on the official A2A SDK of version 0.3, over each binding.

Usage: server_0_3.py JSONRPC|HTTP+JSON|GRPC streaming|plain
"""

import asyncio
import json
import socket
import sys

import grpc
import uvicorn
from a2a.grpc.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Message, Part, Role, TaskState, TextPart
from a2a.utils import get_message_text, new_task


def say(**what):
    print(json.dumps(what), flush=True)


def text_part(text):
    return Part(root=TextPart(text=text))


class Agent(AgentExecutor):
    def __init__(self):
        self.steps = asyncio.Semaphore(0)

    async def execute(self, context, queue):
        text = get_message_text(context.message)
        say(got=context.message.message_id, text=text, context=context.context_id)
        if text == "message":
            said = Message(message_id="said", role=Role.agent, parts=[text_part("no task")])
            return await queue.enqueue_event(said)
        if text == "named":
            # As the SDK's own helpers make messages: with the ids that the request has been given.
            said = Message(message_id="said", role=Role.agent, parts=[text_part("no task")])
            said.task_id, said.context_id = context.task_id, context.context_id
            return await queue.enqueue_event(said)
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            task.id, task.context_id = context.task_id, context.context_id
            await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        word, _, rest = text.partition("\n")[0].partition(" ")
        do = getattr(self, f"do_{word}", None)
        if do is None:
            return await self.answer(updater, f"answered {text}")
        await do(updater, context, rest)

    async def answer(self, updater, text):
        await updater.add_artifact([text_part(text)], artifact_id="answer", name="Answer")
        await updater.complete(updater.new_agent_message([text_part("done")]))

    async def do_echo(self, updater, context, rest):
        await updater.start_work(updater.new_agent_message([text_part("begun")]))
        await self.answer(updater, rest)

    async def do_parts(self, updater, context, rest):
        await updater.add_artifact(list(context.message.parts)[1:], artifact_id="parts", metadata={"n": 1.5, "l": [True]})
        await updater.complete()

    async def do_steps(self, updater, context, rest):
        for step in range(int(rest)):
            await updater.update_status(TaskState.working, updater.new_agent_message([text_part(f"step {step}")]))
            last = step + 1 == int(rest)
            await updater.add_artifact([text_part(f"{step};")], artifact_id="steps", append=step > 0, last_chunk=last)
        await updater.complete()

    async def do_held(self, updater, context, rest):
        for step in range(int(rest)):
            last = step + 1 == int(rest)
            await updater.add_artifact([text_part(f"{step};")], artifact_id="held", append=step > 0, last_chunk=last)
            await updater.update_status(TaskState.working, updater.new_agent_message([text_part(f"held {step}")]))
            await self.steps.acquire()
        await updater.complete()

    async def do_question(self, updater, context, rest):
        await updater.update_status(
            TaskState.input_required, updater.new_agent_message([text_part("which one?")]), final=True
        )

    async def do_fail(self, updater, context, rest):
        await updater.failed(updater.new_agent_message([text_part("it broke")]))

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


async def main(binding, streaming):
    agent = Agent()
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    grpc_server = grpc.aio.server()
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    card = AgentCard(
        name="Remote agent",
        description="Called by URL",
        version="1.0.0",
        url=f"127.0.0.1:{grpc_port}" if binding == "GRPC" else url,
        preferred_transport=binding,
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=streaming == "streaming"),
        skills=[AgentSkill(id="echo", name="echo", description="Says it again", tags=["test"])],
    )
    handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore())
    add_A2AServiceServicer_to_server(GrpcHandler(card, handler), grpc_server)
    await grpc_server.start()
    application = A2ARESTFastAPIApplication if binding == "HTTP+JSON" else A2AStarletteApplication
    app = application(agent_card=card, http_handler=handler).build()
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning"))
    say(url=url)
    serving = asyncio.ensure_future(server.serve([listener]))
    await held(agent)
    server.should_exit = server.force_exit = True
    await grpc_server.stop(0)
    await serving


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
