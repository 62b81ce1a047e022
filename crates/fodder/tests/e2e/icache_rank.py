"""One rank of a job of iCache's, on a machine of its own: Python, grpcio, urllib. Nothing of Fodder is used.

    icache_rank.py PROTO_DIR GRPC_ADDRESS REST_URL RANK RANKS

Asks the server of its own machine for its slice of each of two epochs, the slices of the second being others than those of
the first, reports losses, checks every byte against the files that /cache names, and prints what it saw as JSON.
"""

import json
import sys
import urllib.request

import grpc

proto_dir, address, rest, *numbers = sys.argv[1:]
rank, ranks = map(int, numbers)
sys.path.insert(0, proto_dir)
messages, services = grpc.protos_and_services("deepcache.proto")
operator = services.OperatorStub(grpc.insecure_channel(address))


def submit(kind, **fields):
    return operator.DCSubmit(messages.DCRequest(type=kind, **fields), timeout=30)


with urllib.request.urlopen(rest + "/cache", timeout=30) as answer:
    paths = {int(number): path for number, path in json.load(answer)["imgidx2imgpath"].items()}
info = submit(0)
assert info.nsamples == len(paths), info

served = []
for epoch in range(2):
    losses = {}
    for number in range(info.nsamples):
        if (number + epoch) % ranks != rank:
            continue
        reply = submit(3, imgidx_t=json.dumps({str(number): 1}))
        assert reply.imgidx == number, f"{reply.imgidx} answers the important sample {number}: {reply.msg}"
        with open(paths[number], "rb") as file:
            assert reply.data == file.read(), f"{paths[number]} has other bytes ({reply.msg})"
        losses[str(number)] = 1.0 + number
        served.append(number)
    said = submit(2, kvlist_json=json.dumps(losses)).msg
    assert "accepted" in said, said
    submit(4)
print(json.dumps(served))
