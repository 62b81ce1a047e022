"""iCache's own interface, by the stub that grpcio generates from its proto. Nothing of Fodder's package is used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

# A process of its own: grpcio's compiler and TensorFlow do not bear each other in one.
CLIENT = """
import json, pathlib, sys
import grpc

address, folder, expected = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(sys.argv[3])
messages, services = grpc.protos_and_services("deepcache.proto")
submit = services.OperatorStub(grpc.insecure_channel(address)).DCSubmit
told = submit(messages.DCRequest(type=messages.get_cache_info), timeout=60)
assert told.nsamples == len(expected), told
for number, (path, label) in enumerate(expected):
    reply = submit(messages.DCRequest(type=messages.readimg_byidx, imgidx=number), timeout=60)
    assert reply.imgidx == number and reply.data == (folder / path).read_bytes(), path
    assert (reply.len, reply.clsidx) == (len(reply.data), label), path
absent = submit(messages.DCRequest(type=messages.readimg_byidx, imgidx=told.nsamples), timeout=60)
assert absent.imgidx == -1 and not absent.data
fake = submit(messages.DCRequest(type=messages.readimg_byidx, imgidx=0, id=1), timeout=60)
assert fake.is_hit and (fake.imgidx, fake.clsidx, fake.len) == (0, 0, len(fake.data))
assert (fake.data[:4], fake.data[25]) == (b"\\x89PNG", 2), "a PNG in RGB"
print("read", told.nsamples)
"""


def test_icaches_stub_reads_every_sample_of_an_imagefolder(node, data):
    expected = json.dumps(list(zip(data.paths, data.labels)))
    command = [sys.executable, "-c", CLIENT, node.tcp, str(data.folder), expected]
    proto = Path(__file__).parents[2] / "proto"
    done = subprocess.run(command, cwd=proto, capture_output=True, text=True, timeout=300)
    assert done.stdout == f"read {len(data)}\n", done.stderr
