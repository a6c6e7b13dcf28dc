"""Traffic metrics, with a known number of connections: each mode counts what it can, and has no metric for the rest."""
import operator
import re
import time

from context import SETTLE
from objects import port, service, slice_
from registry import scenario

CONNECTIONS = 12
COUNTED = {
    "nftables": {"connections", "packets", "bytes", "failed_packets"},
    "iptables": {"connections", "failed_packets"},
    "ipvs": {"connections", "packets", "bytes"},
    "userspace": {"connections", "bytes", "failed_packets"},
}
TRAFFIC = {"traffic": {"metrics": True, "endpointMetrics": True, "period": "1s"}}


def counts(t, kind, what, name):
    """The values of `sluice_service_…_total` or `sluice_endpoint_…_total` of one service, summed."""
    text = t.http("node", "http://127.0.0.1:10249/metrics", 200)["body"]
    lines = re.findall(rf'^sluice_{kind}_{what}_total{{([^}}]*)}} (\d+)$', text, re.M)
    return sum(int(value) for labels, value in lines if f'service="{name}"' in labels)


def wait_for(t, is_met, read, expected):
    """The metrics may be a second old."""
    deadline = time.monotonic() + SETTLE
    while not is_met(last := read(), expected):
        t.check(time.monotonic() < deadline, f"counted {last}, expected {expected}: {t.tail()}")
        time.sleep(0.3)


@scenario("traffic: every connection is counted once, by service and by endpoint", config=TRAFFIC, modes=tuple(COUNTED))
def counted(t, f):
    p = port(80, 8080)
    t.start()
    t.apply(service("web", f, f.cluster(10), [p]), slice_("web", f, ["p1", "r1"], [p]))
    t.apply(service("empty", f, f.cluster(11), [p]))
    connections = lambda kind="service": counts(t, kind, "connections", "web")
    before = connections()
    for source in ("p3", "node", "client"):
        t.reaches_any(source, (f.cluster(10), 80), CONNECTIONS)
    wait_for(t, operator.eq, connections, before + 3 * CONNECTIONS)
    wait_for(t, operator.eq, lambda: connections("endpoint"), before + 3 * CONNECTIONS)
    t.unserved("p3", (f.cluster(11), 80))
    text = t.http("node", "http://127.0.0.1:10249/metrics", 200)["body"]
    have = set(re.findall(r"^# TYPE sluice_service_(\w+)_total", text, re.M))
    t.check(have == COUNTED[t.mode], f"{t.mode} has {sorted(have)}")
    if "failed_packets" in have:
        wait_for(t, operator.ge, lambda: counts(t, "service", "failed_packets", "empty"), 1)
    if "bytes" in have:
        wait_for(t, operator.ge, lambda: counts(t, "service", "bytes", "web"), 3 * CONNECTIONS)
    if "packets" in have:
        packets = 5 * 3 * CONNECTIONS
        wait_for(t, operator.ge, lambda: counts(t, "service", "packets", "web"), packets)
        wait_for(t, operator.ge, lambda: counts(t, "service", "bytes", "web"), 52 * packets)
    # An endpoint that leaves and comes back, and a restart, count nothing twice.
    t.apply(slice_("web", f, ["r1"], [p]))
    t.apply(slice_("web", f, ["p1", "r1"], [p]))
    t.reaches_any("p3", (f.cluster(10), 80), CONNECTIONS)
    wait_for(t, operator.eq, connections, before + 4 * CONNECTIONS)
    t.stop()
    t.start()
    t.settle()
    t.reaches_any("p3", (f.cluster(10), 80), CONNECTIONS)
    wait_for(t, operator.eq, connections, CONNECTIONS)
