"""The protobuf messages, made from the descriptor set that the package ships.

There is no generated Python: it would work only with the versions of protobuf that its generator
allows. `tools/compile_protos.py` writes the descriptor set.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "onward.v1"
DESCRIPTORS = Path(__file__).parent / "proto" / "onward.binpb"


def _load() -> Any:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file
    for file in files:
        pool.Add(file)
    classes: dict[str, Any] = {}
    for file in files:
        for message in file.message_type:
            descriptor = pool.FindMessageTypeByName(f"{PACKAGE}.{message.name}")
            classes[message.name] = message_factory.GetMessageClass(descriptor)
    return SimpleNamespace(**classes)


messages: Any = _load()
"""All messages by name: `messages.Request(id=1)`."""
