"""`sluice check --proxy-mode nftables` on a node in ipvs mode: it names what will differ, as the real tools show it, and is silent
once the node has left that mode.
"""
import json
import shlex
import time

from context import SETTLE
from objects import port, service, slice_
from registry import scenario

CONFIG = {"ipvs": {"strictARP": True, "excludeCIDRs": ["192.0.2.0/24"], "udpTimeout": "60s"}, "nodePortAddresses": []}
EXPECTED = {
    "ipvs scheduler": "yellow",
    "ipvs addresses": "yellow",
    "ipvs node ports": "yellow",
    "ipvs policy Local": "green",
    "ipvs affinity": "yellow",
    "ipvs timeouts": "yellow",
    "ipvs strict ARP": "green",
    "ipvs others": "green",
}


def findings(t):
    command = shlex.split(t.command)[0] + " check --proxy-mode nftables --source file:/dev/null -o json"
    answer = json.loads(t.lab.exec("node", command, check=False).stdout)
    return {found["name"]: found for found in answer["findings"] if found["name"].startswith("ipvs ")}


@scenario("departure: check for nftables mode names what will differ from ipvs mode", each_family=False, modes=("ipvs",), config=CONFIG)
def departure(t, f):
    p = port(80, 8080, node_port=30080)
    t.lab.exec("node", "modprobe ip_vs_wlc; ipvsadm -A -t 192.0.2.9:443 -s wlc", check=False)
    t.start()
    t.apply(service("web", f, f.cluster(10), [p], type="NodePort", sessionAffinity="ClientIP", externalTrafficPolicy="Local"),
            slice_("web", f, ["p1"], [p]))
    found = findings(t)
    for finding in found.values():
        print(f"{finding['verdict']} {finding['name']}  {finding['message']}; fix: {finding.get('fix')}", flush=True)
    verdicts = {name: finding["verdict"] for name, finding in found.items()}
    t.check(verdicts == EXPECTED, f"{verdicts}")
    t.check(f.node2 in found["ipvs node ports"]["message"], found["ipvs node ports"]["message"])
    t.stop()
    t.mode = "nftables"
    t.start()
    t.settle()
    deadline = time.monotonic() + SETTLE
    while left := findings(t):
        t.check(time.monotonic() < deadline, f"still said in nftables mode: {left}")
