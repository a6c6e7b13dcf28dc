"""A node that changes its proxy mode: the new mode takes over all services and removes everything of the old one."""
import time

from context import SETTLE
from objects import port, service, slice_
from registry import scenario

TOOLS = ("iptables", "ip6tables")
IPVS_STATE = "ipvsadm -Sn; ipset list -n | grep KUBE-; ip link show kube-ipvs0"
LEFTOVERS = {
    "ipvs": f"{{ {IPVS_STATE}; }} 2>/dev/null",
    "iptables": "; ".join(f"{tool}-save | grep -E 'KUBE-(SVC|SEP|EXT|FW)-'" for tool in TOOLS),
    "nftables": "nft list tables | grep kube-proxy",
}
ORDER = ("iptables", "ipvs", "nftables", "ipvs")


def wait_until_removed(t, mode):
    deadline = time.monotonic() + SETTLE
    while left := t.lab.exec("node", LEFTOVERS[mode], check=False).stdout.strip():
        t.check(time.monotonic() < deadline, f"left of mode {mode}: {left[:300]}")
        time.sleep(0.2)


@scenario("switch: from ipvs to the other modes and back, each takes over all services and removes the last mode's state",
          each_family=False, modes=("ipvs",))
def switch(t, f):
    p = port(80, 8080, node_port=30080)
    web = service("web", f, f.cluster(10), [p], type="NodePort")
    t.start()
    t.apply(web, slice_("web", f, ["p1"], [p]))
    before = t.mode
    for step, mode in enumerate(ORDER):
        t.stop()
        t.mode = mode
        t.start()
        endpoint = ("p2", "r1")[step % 2]
        t.apply(slice_("web", f, [endpoint], [p]))
        wait_until_removed(t, before)
        t.reaches("p3", (f.cluster(10), 80), [endpoint])
        t.reaches("client", (f.node, 30080), [endpoint], source_seen="masqueraded")
        before = mode
