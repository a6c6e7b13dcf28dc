"""The proxy on the node is killed during churn and restarted: no change is lost and no connection breaks.

A scenario for the conformance suite's runner with tests/relay/serve_and_run as the proxy (see tests/relay/conformance).
"""
import os
import signal
import time

from churn import start_churn
from objects import port, service, slice_
from registry import scenario


def pid(t, of):
    return int(open(os.path.join(t.lab.directory, of)).read())


def kill(t, meanwhile=lambda: None):
    """Kills the proxy and waits until it is restarted; the server keeps running."""
    before, server = pid(t, "run.pid"), pid(t, "serve.pid")
    os.kill(before, signal.SIGKILL)
    meanwhile()
    # The kernel keeps forwarding.
    t.reaches("p3", (t.f.cluster(10), 80), ["p1"])
    deadline = time.monotonic() + 30
    while pid(t, "run.pid") == before:
        t.check(time.monotonic() < deadline, "the proxy was not restarted")
        time.sleep(0.05)
    t.check(pid(t, "serve.pid") == server, "the server was restarted, too")


@scenario("relay: the proxy is killed repeatedly during churn; no change is lost and no connection breaks")
def killed_in_churn(t, f):
    p = port(80, 8080)
    t.start()
    t.apply(service("web", f, f.cluster(10), [p]), slice_("web", f, ["p1"], [p]),
            service("moved", f, f.cluster(11), [p]), slice_("moved", f, ["p1"], [p]),
            service("gone", f, f.cluster(12), [p]), slice_("gone", f, ["p1"], [p]))
    t.reaches("p3", (f.cluster(10), 80), ["p1"])
    held = t.lab.agents["p3"].ask(op="hold", dst=[f.cluster(10), 80])

    changes = start_churn(t, f, p)
    for _ in range(2):
        time.sleep(0.7)
        kill(t)
    changes.join()
    def change():
        t.delete(service("gone", f, f.cluster(12), [p]), slice_("gone", f, ["p1"], [p]), settle=False)
        t.apply(slice_("moved", f, ["r1"], [p]), settle=False)

    # A restarted proxy receives no deletions from before its start; it finds stale rules in the kernel.
    kill(t, change)
    t.settle(timeout=60)
    t.reaches("p3", (f.cluster(11), 80), ["r1"])
    t.unserved("p3", (f.cluster(12), 80))
    for i in (0, 5, 11):
        t.unserved("p3", (f.cluster(20 + i), 80))
    t.check(t.lab.agents["p3"].ask(op="held", id=held["id"])["alive"], "a restart of the proxy broke an open connection")
