"""iCache's own interface, by the stub that grpcio generates from its proto. Nothing of Fodder's package is used."""

from __future__ import annotations

from pathlib import Path

import pytest

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")


def test_icaches_stub_reads_every_sample_of_an_imagefolder(node, data, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "proto"))
    messages, services = grpc.protos_and_services("deepcache.proto")
    with grpc.insecure_channel(node.tcp) as channel:
        submit = services.OperatorStub(channel).DCSubmit
        told = submit(messages.DCRequest(type=messages.get_cache_info), timeout=60)
        assert told.nsamples == len(data)
        for number in range(told.nsamples):
            reply = submit(messages.DCRequest(type=messages.readimg_byidx, imgidx=number), timeout=60)
            assert reply.imgidx == number and reply.data == data.content[number]
            assert (reply.len, reply.clsidx) == (len(data.content[number]), data.labels[number])
        absent = submit(messages.DCRequest(type=messages.readimg_byidx, imgidx=told.nsamples), timeout=60)
        assert absent.imgidx == -1 and not absent.data
