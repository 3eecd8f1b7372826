"""Registers, renews, finds and takes off agents with the registry stubs of the published Python SDK, as deployed clients
do: no signature, and ids that are no peer ids. Prints each step when it has passed.

Usage: registry.py HOST:PORT TTL_SECONDS
"""

import sys
import time

import grpc

# The package makes its generated modules findable.
import agentanycast._generated  # noqa: F401
from agentanycast._generated.agentanycast.v1 import registry_service_pb2 as pb
from agentanycast._generated.agentanycast.v1 import registry_service_pb2_grpc as stubs

address, ttl = sys.argv[1], float(sys.argv[2])
TIMEOUT = 30


def registration(peer, skill, **tags):
    info = pb.SkillInfo(skill_id=skill, description=f"{skill} by {peer}", tags=tags)
    return pb.RegisterSkillsRequest(
        peer_id=peer, skills=[info], agent_name=f"Agent {peer}", agent_description="Made up"
    )


def refused(call, code):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        return error.details()
    raise AssertionError(f"not refused with {code}")


with grpc.insecure_channel(address) as channel:
    registry = stubs.RegistryServiceStub(channel)

    def found(skill, **filters):
        request = pb.DiscoverBySkillRequest(skill_id=skill, **filters)
        return registry.DiscoverBySkill(request, timeout=TIMEOUT).agents

    for peer in ["agent-1", "agent-2", "überall"]:
        answer = registry.RegisterSkills(registration(peer, "translate", lang="de"), timeout=TIMEOUT)
        left = answer.expires_at.seconds - time.time()
        assert -2 < left <= ttl + 2, left
    registry.RegisterSkills(registration("agent-3", "translate", lang="fr"), timeout=TIMEOUT)
    print("register")

    assert {agent.peer_id for agent in found("translate")} == {"agent-1", "agent-2", "agent-3", "überall"}
    german = found("translate", tags={"lang": "de"})
    assert {agent.peer_id for agent in german} == {"agent-1", "agent-2", "überall"}
    assert len(found("translate", limit=2)) == 2
    assert found("no such skill") == []
    first = next(agent for agent in german if agent.peer_id == "agent-1")
    assert first.agent_name == "Agent agent-1"
    assert first.agent_description == "Made up"
    assert [(skill.skill_id, dict(skill.tags)) for skill in first.skills] == [("translate", {"lang": "de"})]
    assert first.expires_at.seconds >= first.registered_at.seconds > 0
    print("discover")

    # Renewed for three lives; the others run out meanwhile.
    end = time.monotonic() + 3 * ttl
    while time.monotonic() < end:
        registry.Heartbeat(pb.HeartbeatRequest(peer_id="agent-1"), timeout=TIMEOUT)
        assert "agent-1" in {agent.peer_id for agent in found("translate")}
        time.sleep(ttl / 6)
    assert {agent.peer_id for agent in found("translate")} == {"agent-1"}
    refused(
        lambda: registry.Heartbeat(pb.HeartbeatRequest(peer_id="agent-2"), timeout=TIMEOUT),
        grpc.StatusCode.NOT_FOUND,
    )
    print("heartbeat")

    registry.UnregisterSkills(pb.UnregisterSkillsRequest(peer_id="agent-1"), timeout=TIMEOUT)
    assert found("translate") == []
    registry.UnregisterSkills(pb.UnregisterSkillsRequest(peer_id="agent-1"), timeout=TIMEOUT)
    print("unregister")

    for wrong in [registration("", "s"), registration("p", ""), pb.RegisterSkillsRequest(peer_id="p")]:
        refused(lambda: registry.RegisterSkills(wrong, timeout=TIMEOUT), grpc.StatusCode.INVALID_ARGUMENT)
    refused(lambda: found(""), grpc.StatusCode.INVALID_ARGUMENT)
    print("refused")
