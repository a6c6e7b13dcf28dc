"""Sluice takes over from a real kube-proxy that has run with all of its newest features, and back.

Scenarios for the conformance suite's runner: KUBE_PROXY=PATH run --dir tests/scenarios. Without KUBE_PROXY, there are none.
"""
import os
import subprocess

from objects import port, service, slice_
from registry import scenario

KUBE_PROXY = os.environ.get("KUBE_PROXY", "")
NODE_PORT = 30080
CONFIG = {"featureGates": {"KubeProxyNFTablesLocalhostNodePorts": True}, "nodePortAddresses": ["primary", "localhost"]}


def tables(t):
    return t.lab.exec("node", "nft list tables").stdout


def takeover(t, f):
    both, web = ["p1", "r1"], port(80, 8080, node_port=NODE_PORT)
    dns = port(53, 8080, proto="UDP", node_port=NODE_PORT)
    long = "s" * 63
    sluice, localhost = t.command, "127.0.0.1" if f.version == 4 else "::1"
    t.apply(
        service("web", f, f.cluster(10), [web], type="NodePort"), slice_("web", f, both, [web]),
        service("dns", f, f.cluster(11), [dns], type="NodePort"), slice_("dns", f, both, [dns]),
        service("sticky", f, f.cluster(12), [port(80, 8080)], sessionAffinity="ClientIP",
                sessionAffinityConfig={"clientIP": {"timeoutSeconds": 600}}), slice_("sticky", f, both, [port(80, 8080)]),
        service(long, f, f.cluster(13), [port(80, 8080)]),
        settle=False)

    def serves(chosen=None):
        t.settle()
        t.reaches("p3", (f.cluster(10), 80), both)
        t.reaches("client", (f.node, NODE_PORT), both)
        t.reaches("client", (f.node, NODE_PORT), both, proto="udp")
        t.refused("p3", (f.cluster(13), 80))
        if t.mode == "nftables":
            t.reaches("node", (localhost, NODE_PORT), both)
        endpoint = t.sticks("p3", (f.cluster(12), 80), both)
        t.check(chosen in (None, endpoint), f"a client of {chosen} got {endpoint}")
        return endpoint

    t.command = KUBE_PROXY + " --config {config}"
    t.start()
    chosen = serves()
    if t.mode == "nftables":
        family = "ip" if f.version == 4 else "ip6"
        kept = t.lab.exec("node", f"nft list table {family} kube-proxy").stdout
        t.check("localhost-nodeport-reject" in kept, "kube-proxy has no rules of the gate: is it 1.37 or newer?")
    held = t.lab.agents["p3"].ask(op="hold", dst=[f.cluster(10), 80])
    t.stop()

    t.command = sluice
    t.start()
    serves(chosen)
    t._until(lambda: t.check("kube-proxy" not in tables(t), f"left: {tables(t)}"), "takeover")
    rules = t.lab.exec("node", "iptables-save; ip6tables-save").stdout
    t.check(t.mode != "nftables" or ":KUBE-S" not in rules, "chains of another mode")
    t.check("KUBE-SEP-" not in rules.replace("--name KUBE-SEP-", ""), "an endpoint chain of kube-proxy is left")
    t.check(t.lab.agents["p3"].ask(op="held", id=held["id"])["alive"], "an open connection broke")
    t.stop()

    # The table of nftables mode goes on serving until it is removed, which waits for kube-proxy; no service changes meanwhile.
    t.command = KUBE_PROXY + " --config {config}"
    t.start()

    def remove_own():
        removed = t.lab.exec("node", sluice.split(" --config")[0] + " --cleanup --only-own 2>&1", check=False)
        t.check(removed.returncode == 0, removed.stdout)

    t._until(remove_own, "removal of Sluice's tables")
    t.check("sluice" not in tables(t), f"left: {tables(t)}")
    serves()


if KUBE_PROXY:
    version = subprocess.run([KUBE_PROXY, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    scenario(f"takeover: from a real kube-proxy {version} and back", modes=("iptables", "nftables", "ipvs"), config=CONFIG)(takeover)
