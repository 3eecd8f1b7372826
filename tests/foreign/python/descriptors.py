"""Writes the descriptors in the published Python SDK to standard output, as one FileDescriptorSet."""

import sys

from agentanycast._generated.agentanycast.v1 import (
    a2a_models_pb2,
    agent_card_pb2,
    common_pb2,
    federation_pb2,
    node_service_pb2,
    registry_service_pb2,
    streaming_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorSet

MODULES = [
    a2a_models_pb2,
    agent_card_pb2,
    common_pb2,
    federation_pb2,
    node_service_pb2,
    registry_service_pb2,
    streaming_pb2,
]

files = FileDescriptorSet()
for module in MODULES:
    files.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
sys.stdout.buffer.write(files.SerializeToString())
