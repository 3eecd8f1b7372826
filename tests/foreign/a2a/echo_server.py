"""A server on the official A2A SDK, version 1.0, whose agent says again what it is told. It prints its URL.

JSON-RPC, tasks in memory, one process, no access log: as quick as the SDK is.
"""

import socket

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Part, Task, TaskState, TaskStatus
from starlette.applications import Starlette


class Echo(AgentExecutor):
    async def execute(self, context, event_queue):
        if context.current_task is None:
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            task = Task(id=context.task_id, context_id=context.context_id, status=status, history=[context.message])
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.add_artifact([Part(text="echo: " + context.get_user_input())])
        await updater.complete()

    async def cancel(self, context, event_queue):
        raise NotImplementedError


listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
url = f"http://127.0.0.1:{listener.getsockname()[1]}"
card = AgentCard(
    name="Echo",
    description="Says it again",
    version="1.0.0",
    supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
)
handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=create_jsonrpc_routes(handler, rpc_url="/"))
print(url, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])
