"""The server between the API server and the proxy is killed during churn: no change is lost and no connection breaks.

A scenario for the conformance suite's runner with tests/relay/serve_and_run as the proxy (see tests/relay/conformance).
"""
import os
import signal
import time

from churn import start_churn
from objects import port, service, slice_
from registry import scenario


def server_pid(t):
    """The server's process id."""
    path = os.path.join(t.lab.directory, "serve.pid")
    deadline = time.monotonic() + 20
    while True:
        try:
            return int(open(path).read())
        except (OSError, ValueError):
            t.check(time.monotonic() < deadline, "the server did not start")
            time.sleep(0.05)


@scenario("relay: the server is killed repeatedly during churn; no change is lost and no connection breaks")
def killed_in_churn(t, f):
    p = port(80, 8080)
    t.start()
    t.apply(service("web", f, f.cluster(10), [p]), slice_("web", f, ["p1"], [p]))
    t.reaches("p3", (f.cluster(10), 80), ["p1"])
    held = t.lab.agents["p3"].ask(op="hold", dst=[f.cluster(10), 80])

    changes = start_churn(t, f, p)
    for _ in range(2):
        before = server_pid(t)
        os.kill(before, signal.SIGKILL)
        t.reaches("p3", (f.cluster(10), 80), ["p1"])
        deadline = time.monotonic() + 30
        while server_pid(t) == before:
            t.check(time.monotonic() < deadline, "the server was not restarted")
            time.sleep(0.05)
    changes.join()
    os.kill(server_pid(t), signal.SIGKILL)
    t.apply(service("late", f, f.cluster(11), [p]), slice_("late", f, ["r1"], [p]), settle=False)
    t.settle(timeout=60)
    t.reaches("p3", (f.cluster(11), 80), ["r1"])
    for i in (0, 5, 11):
        t.unserved("p3", (f.cluster(20 + i), 80))
    t.check(t.lab.agents["p3"].ask(op="held", id=held["id"])["alive"], "a restart of the server broke an open connection")
