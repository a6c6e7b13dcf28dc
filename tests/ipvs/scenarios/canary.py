"""The canary in IPVS mode: flushed virtual servers turn it red with the cause, and are back before the sync period ends."""
import json
import time

from context import PATIENCE
from objects import port, service, slice_
from registry import scenario

# An emulated machine takes most of a second for one connection through a new socket.
CANARY = {"enabled": True, "interval": "4s", "timeout": "2s"}
WITHIN = 25 * PATIENCE
ANSWER = "exec 3<>/dev/tcp/127.0.0.1/10256; printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"


def health(t):
    """The body of /healthz in the node."""
    answer = t.lab.exec("node", f"bash -c {json.dumps(ANSWER)}", check=False).stdout
    return json.loads(answer[answer.index("{"):]) if "{" in answer else {}


def becomes(t, flow, what):
    """Waits until packets flow or not, and returns how long that took."""
    begin = time.monotonic()
    while True:
        last = health(t)
        if last.get("packetsFlow") is flow:
            return time.monotonic() - begin
        t.check(time.monotonic() - begin < WITHIN, f"{what}: {last}, {t.tail()}")
        time.sleep(0.2)


def logged(t, text):
    with open(t.log, errors="replace") as log:
        return text in log.read()


@scenario("canary: flushed virtual servers turn it red and are repaired", modes=("ipvs",), each_family=False, config={"canary": CANARY, "ipvs": {"syncPeriod": "10m"}})
def flushed(t, f):
    p = port(80, 8080)
    t.start()
    t.apply(service("web", f, f.cluster(10), [p]), slice_("web", f, ["p1"], [p]))
    t.reaches("p3", (f.cluster(10), 80), ["p1"])
    becomes(t, True, "the canary answers")
    t.lab.exec("node", "ipvsadm -C")
    red = becomes(t, False, "packets stopped")
    green = becomes(t, True, "packets flow again")
    print(f"red after {red:.1f} s, green {green:.1f} s later", flush=True)
    t.check(logged(t, "changes of services' rules by other programs, repaired now"), f"the log does not name the cause: {t.tail()}")
    t.reaches("p3", (f.cluster(10), 80), ["p1"])
