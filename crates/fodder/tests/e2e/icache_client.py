"""A client of iCache's interface as its users write one: Python, grpcio, urllib. Nothing of Fodder is used.

    icache_client.py PROTO_DIR GRPC_ADDRESS REST_URL

Trains two epochs by importance, takes an epoch of any samples, checks every byte against the files that /cache names,
and prints what it saw as JSON.
"""

import json
import sys
import urllib.parse
import urllib.request

import grpc

proto_dir, address, rest = sys.argv[1:]
sys.path.insert(0, proto_dir)
messages, services = grpc.protos_and_services("deepcache.proto")
operator = services.OperatorStub(grpc.insecure_channel(address))


def submit(kind, **fields):
    return operator.DCSubmit(messages.DCRequest(type=kind, **fields), timeout=30)


def http(method, path, **form):
    body = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(rest + path, data=body, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


paths = {int(number): path for number, path in json.loads(http("GET", "/cache"))["imgidx2imgpath"].items()}
classes = sorted({path.split("/")[-2] for path in paths.values()})


def check(reply):
    """The reply is the sample that it says it is, whole, with its own class."""
    path = paths[reply.imgidx]
    with open(path, "rb") as file:
        assert reply.data == file.read(), f"{path} has other bytes ({reply.msg})"
    assert reply.len == len(reply.data)
    assert reply.clsidx == classes.index(path.split("/")[-2]), f"{path} has class {reply.clsidx}"
    return reply.imgidx


job = json.loads(http("POST", "/mjob", op="INIT"))
http("PUT", "/mjob", op="UPDATE", job_uuid=job["job_uuid"], job_name="icache_client.py", job_args="-b 4")
info = submit(0)
assert info.nsamples == len(paths), info

fake = submit(1, imgidx=0, id=1)
assert fake.is_hit and fake.data[12:16] == b"IHDR" and fake.data[25] == 2, "the fake image is a hit, a PNG and RGB"
cluster = urllib.request.Request(rest + "/cluster", data=b"info", method="POST")
with urllib.request.urlopen(cluster, timeout=30) as answer:
    assert json.load(answer)["nodes"], "the cluster has at least this node"
http("PUT", "/mjob", op="UPDATE", job_uuid="outlived", job_name="icache_client.py", job_args="x" * 20_000)
assert len(json.loads(http("POST", "/mjob", op="GETBYUUID", uuid="outlived"))["job_args"]) == 20_000
http("PUT", "/mjob", op="FINISH", job_uuid="outlived")

strict, substituted = 0, 0
for epoch in range(2):
    losses = {}
    for number in range(info.nsamples):
        important = number % 2 == 0
        reply = submit(3, imgidx_t=json.dumps({str(number): int(important)}))
        served = check(reply)
        assert served == number or not important, f"{served} answers the important sample {number}"
        assert served == number or not reply.is_hit, "a substitute is no hit"
        strict += served == number
        substituted += served != number
        losses[str(number)] = 1.0 / (1 + number)
    assert "accepted" in submit(2, kvlist_json=json.dumps(losses)).msg
    submit(4)

for number in range(info.nsamples):
    assert check(submit(3, imgidx_t=json.dumps({str(number): 0}), full_access=True)) == number
    assert check(submit(1, imgidx=number)) == number
refused = submit(2, kvlist_json='{"0": NaN}').msg
assert "refused" in refused, refused
absent = submit(1, imgidx=10**6)
assert absent.imgidx == -1 and "there is no sample" in absent.msg, absent

any_samples = [check(submit(1, imgidx=-1)) for _ in range(2 * info.nsamples)]
http("PUT", "/mjob", op="FINISH", job_uuid=job["job_uuid"])
print(json.dumps({"job": job["job_uuid"], "strict": strict, "substituted": substituted, "any": any_samples}))
