"""An execution agent on grpcio and on what grpcio-tools makes of our .proto files. It does one session as its variant says.

Usage: agent.py HUB TYPE VARIANT, with the generated modules on PYTHONPATH.

Variants: silent               says nothing until it is told what to do, then progress and the result
          acknowledged         says ACKNOWLEDGED before anything else
          status-only          ends with a status, without a result
          result-then-status   sends the result, and then the status again
          failed-then-result   says FAILED, and sends the result after that
          translation          translates
          rejects              takes no session
          gone-after-proposal, gone-after-accept, gone-after-open
                               its process ends there
          running              works until it is killed

TYPE is that of its capability. It prints a line for each thing that happens.
"""

import os
import queue
import sys

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty

from AgentHub_pb2_grpc import AgentHubStub
from AgentRegistration_pb2 import AgentRegistration
from Attachment_pb2 import Attachment
from Capability_pb2 import Capability
from ListenRequest_pb2 import ListenRequest
from Payload_pb2 import Payload
from PayloadRequirement_pb2 import PayloadRequirement
from SessionAcceptance_pb2 import SessionAcceptance
from StepReport_pb2 import StepReport
from StepStatus_pb2 import STEP_STATUS_FAILED, STEP_STATUS_PASSED, STEP_STATUS_SKIPPED
from Severity_pb2 import SEVERITY_WARN
from Summary_pb2 import Summary
from Telemetry_pb2 import Telemetry
from TestCapability_pb2 import TestCapability
from TestResponse_pb2 import TestResponse
from TestResult_pb2 import TestResult
from TestState_pb2 import (
    TEST_STATE_ACKNOWLEDGED,
    TEST_STATE_COMPLETED,
    TEST_STATE_FAILED,
    TEST_STATE_RUNNING,
)
from TestStatus_pb2 import TestStatus
from TranslationCapability_pb2 import TranslationCapability
from TranslationResponse_pb2 import TranslationResponse
from TranslationResult_pb2 import TranslationResult
from TranslationState_pb2 import TRANSLATION_STATE_COMPLETED, TRANSLATION_STATE_PROCESSING
from TranslationStatus_pb2 import TranslationStatus

hub, kind, variant = sys.argv[1:]


def say(what):
    print(what, flush=True)


def vanish(when):
    """Ends the process if the variant wants it here, without a word to the hub."""
    if variant == when:
        os._exit(1)


def capability():
    suite = PayloadRequirement(type="suite", is_required=True, accepted_mime_types=["text/xml"])
    settings = PayloadRequirement(type="settings")
    if variant == "translation":
        script = PayloadRequirement(type="script", is_required=True)
        translation = TranslationCapability(
            type=kind, source_payloads=[suite, settings], target_payloads=[script]
        )
        return Capability(translation=translation)
    return Capability(test=TestCapability(type=kind, payloads=[suite, settings]))


def described(name, payloads):
    """What the agent was given, as a file."""
    told = [name]
    for payload in payloads:
        file = payload.attachment
        told.append(f"{payload.type}: {file.name} {file.mime_type} {file.data.decode()}".strip())
    return Attachment(name="told.txt", mime_type="text/plain", data="\n".join(told).encode())


def status(state, message=""):
    return TestResponse(status=TestStatus(state=state, message=message))


def test_messages(init):
    """What the agent says of a test after it was told what to do."""
    yield status(TEST_STATE_RUNNING, "on it")
    if variant == "running":
        while True:
            queue.SimpleQueue().get()
    yield TestResponse(telemetry=Telemetry(message="slow", severity=SEVERITY_WARN, source="disk"))
    if variant == "status-only":
        yield status(TEST_STATE_COMPLETED, "done")
        return
    failed = variant == "failed-then-result"
    step = StepReport(
        name="outer",
        status=STEP_STATUS_FAILED if failed else STEP_STATUS_PASSED,
        steps=[StepReport(name="inner", status=STEP_STATUS_SKIPPED)],
    )
    settings = [payload.metadata for payload in init.payloads if payload.type == "settings"]
    result = TestResult(
        status=TestStatus(state=TEST_STATE_FAILED if failed else TEST_STATE_COMPLETED, message="done"),
        reports=[step],
        summary=Summary(total_duration=Duration(seconds=1, nanos=500_000_000), metadata=settings[0]),
        attachments=[described(init.test_type, init.payloads)],
    )
    if failed:
        yield status(TEST_STATE_FAILED, "it broke")
    yield TestResponse(result=result)
    if variant == "result-then-status":
        yield status(TEST_STATE_COMPLETED, "done")


def translation_messages(init):
    yield TranslationResponse(status=TranslationStatus(state=TRANSLATION_STATE_PROCESSING, message="on it"))
    yield TranslationResponse(
        result=TranslationResult(
            status=TranslationStatus(state=TRANSLATION_STATE_COMPLETED, message="done"),
            payloads=[Payload(type="script", attachment=described(init.target_format, init.payloads))],
        )
    )


def session(stub, session_id, client_id):
    told = queue.SimpleQueue()

    def messages():
        if variant == "acknowledged":
            yield status(TEST_STATE_ACKNOWLEDGED)
        init = told.get()
        yield from translation_messages(init) if variant == "translation" else test_messages(init)

    call = stub.Translate if variant == "translation" else stub.Execute
    metadata = (("x-session-id", session_id), ("x-client-id", client_id))
    responses = call(messages(), metadata=metadata)
    init = next(responses)
    vanish("gone-after-open")
    told.put(init)
    for _ in responses:
        raise SystemExit("a session has one start")
    say("ended")


def main():
    stub = AgentHubStub(grpc.insecure_channel(hub.removeprefix("http://")))
    registration = AgentRegistration(display_name=f"python {variant}", capabilities=[capability()])
    client_id = stub.Register(registration).client_id
    answers = queue.SimpleQueue()
    answers.put(ListenRequest(ready=Empty()))
    for event in stub.Listen(iter(answers.get, None), metadata=(("x-client-id", client_id),)):
        if event.HasField("session_proposal"):
            vanish("gone-after-proposal")
            proposal = event.session_proposal
            details = getattr(proposal, proposal.WhichOneof("details"))
            accepted = variant != "rejects" and details.type == kind
            answer = SessionAcceptance(session_id=proposal.session_id, accepted=accepted)
            if not accepted:
                answer.reason = "no display"
            answers.put(ListenRequest(session_acceptance=answer))
            say("answered")
        else:
            vanish("gone-after-accept")
            session(stub, event.session_ready.session_id, client_id)


main()
