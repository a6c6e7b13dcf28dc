"""A full conntrack table: the kernel drops new connections, while Sluice keeps syncing; traffic recovers afterwards.

The table's size is a kernel-wide setting, so this needs a machine of its own.
"""
import time

from context import SETTLE
from objects import port, service, slice_
from registry import scenario

MAX = "/proc/sys/net/netfilter/nf_conntrack_max"
HELD = 40
KERNEL_STATE = "{ iptables-save; ip6tables-save; nft list ruleset; ipvsadm -Sn; } 2>/dev/null"


def wait_for_rule(t, address):
    """Waits until the rules contain the address, without sending packets."""
    deadline = time.monotonic() + SETTLE
    while t.lab.exec("node", f"{KERNEL_STATE} | grep -qF '{address}'", check=False).returncode != 0:
        t.check(time.monotonic() < deadline, f"{address} is not in the rules: {t.tail()}")
        time.sleep(0.2)


@scenario("conntrack: while the table is full, open connections survive and changes are applied; afterwards all services are served", each_family=False)
def full_table(t, f):
    p = port(80, 8080)
    t.start()
    t.apply(service("web", f, f.cluster(10), [p]), slice_("web", f, ["p1"], [p]))
    t.reaches("p3", (f.cluster(10), 80), ["p1"])
    # Traffic on the API watches puts their connections into the table, as on any node that has run for a while.
    t.apply(slice_("web", f, ["p1", "r2"], [p]))
    t.apply(slice_("web", f, ["p1"], [p]))
    alive = lambda: t.lab.agents["p3"].ask(op="held", id=held["id"])["alive"]
    held = t.lab.agents["p3"].ask(op="hold", dst=[f.cluster(10), 80])
    for _ in range(HELD):
        t.check("id" in t.lab.agents["p3"].ask(op="hold", dst=[f.remote["r1"], 8080]), "a connection could not be opened")
    with open(MAX) as setting:
        before = setting.read()
    entries = int(t.lab.exec("node", "conntrack -C").stdout)
    t.check(entries >= HELD, f"{HELD} connections are open, but {entries} are tracked")
    try:
        with open(MAX, "w") as setting:
            setting.write(str(HELD // 2))
        t.unserved("p3", (f.cluster(10), 80))
        t.check(alive(), "an open connection broke when the table filled up")
        t.apply(service("new", f, f.cluster(12), [p]), slice_("new", f, ["p2"], [p]), settle=False)
        wait_for_rule(t, f.pods["p2"])
        t.unserved("p3", (f.cluster(12), 80))
        t.check(alive(), "an open connection broke while the table was full")
    finally:
        with open(MAX, "w") as setting:
            setting.write(before)
    t.reaches("p3", (f.cluster(12), 80), ["p2"])
    t.reaches("p3", (f.cluster(10), 80), ["p1"])
    t.check(alive(), "an open connection broke")
    t.apply(slice_("web", f, ["r1"], [p]))
    t.reaches("p3", (f.cluster(10), 80), ["r1"])
