"""Sluice takes over from kube-proxy's iptables mode on a running node, and back: no connection breaks.

Scenarios for the conformance suite's runner: run --dir tests/scenarios.
"""
import base64
import hashlib
import threading

from objects import port, service, slice_
from registry import scenario


def name(kind, key):
    return f"KUBE-{kind}-" + base64.b32encode(hashlib.sha256(key.encode()).digest()).decode()[:16]


def classic_rules(f, services):
    """The rules of kube-proxy for these services: a chain and a rule per service, and a chain per endpoint."""
    host = lambda address: f"{address}/{f.bits}"
    target = lambda address: f"[{address}]:8080" if f.version == 6 else f"{address}:8080"
    nat, lines = ["KUBE-SERVICES", "KUBE-MARK-MASQ", "KUBE-POSTROUTING", "KUBE-NODEPORTS"], []
    for service_name, address, endpoints in services:
        key = f"default/{service_name}:tcp-80"
        chain = name("SVC", key + "tcp")
        nat.append(chain)
        lines.append(f'-A KUBE-SERVICES -d {host(address)} -p tcp -m comment --comment "{key} cluster IP" -m tcp --dport 80 -j {chain}')
        for i, endpoint in enumerate(endpoints):
            endpoint_chain, left = name("SEP", key + "tcp" + target(endpoint)), len(endpoints) - i
            nat.append(endpoint_chain)
            chance = f"-m statistic --mode random --probability {1 / left:.10f} " if left > 1 else ""
            lines += [f"-A {chain} {chance}-j {endpoint_chain}", f"-A {endpoint_chain} -s {host(endpoint)} -j KUBE-MARK-MASQ",
                      f"-A {endpoint_chain} -p tcp -m tcp -j DNAT --to-destination {target(endpoint)}"]
    return "\n".join([
        "*nat", *(f":{chain} - [0:0]" for chain in nat),
        "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000", "-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN",
        "-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000", "-A KUBE-POSTROUTING -j MASQUERADE", *lines, "COMMIT", ""])


def restore(t, f, text):
    tool = "iptables" if f.version == 4 else "ip6tables"
    t.lab.exec("node", f"cat > {t.lab.directory}/classic <<'END'\n{text}END\n{tool}-restore --noflush < {t.lab.directory}/classic")


class Prober:
    """Opens connections from a pod in a loop until stopped."""

    def __init__(self, t, source, to):
        self.failed, self.tried, self.ended = [], 0, False
        self.thread = threading.Thread(target=self.run, args=(t, source, to))
        self.thread.start()

    def run(self, t, source, to):
        while not self.ended:
            answers = t.lab.agents[source].ask(op="probe", proto="tcp", dst=list(to), n=5, timeout=0.9)
            self.tried += len(answers)
            self.failed += [a for a in answers if not isinstance(a, dict)]

    def stop(self):
        self.ended = True
        self.thread.join()


@scenario("takeover: from kube-proxy's rules and back, no connection breaks or fails", modes=("iptables",))
def takeover(t, f):
    p = port(80, 8080)
    tool = "iptables" if f.version == 4 else "ip6tables"
    names = [f"s{i}" for i in range(40)]
    services = [(n, f.cluster(10 + i), [f.of("p1"), f.of("r1")]) for i, n in enumerate(names)]
    restore(t, f, classic_rules(f, services + [("gone", f.cluster(100), [f.of("p1")])]))
    t.lab.exec("node", f'{tool} -t nat -I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES; '
                       f'{tool} -t nat -I OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES; '
                       f'{tool} -t nat -I POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING')
    t.apply(*(service(n, f, a, [p]) for n, a, _ in services), *(slice_(n, f, ["p1", "r1"], [p]) for n in names), settle=False)
    t.reaches("p3", (f.cluster(10), 80), ["p1", "r1"])
    held = t.lab.agents["p3"].ask(op="hold", dst=[f.cluster(20), 80])
    prober = Prober(t, "p2", (f.cluster(12), 80))
    try:
        t.start()
        t.settle()
        saved = t.lab.exec("node", f"{tool}-save -t nat").stdout
        t.check("KUBE-SEP-" not in saved.replace("--name KUBE-SEP-", ""), "an endpoint chain of kube-proxy is left")
        t.check(saved.count('--comment "kubernetes service portals" -j KUBE-SERVICES') == 2, "the jumps were replaced or duplicated")
        t.unserved("p3", (f.cluster(100), 80))
        t.reaches("p3", (f.cluster(49), 80), ["p1", "r1"])
        t.stop()
        restore(t, f, classic_rules(f, services))
        t.reaches("p3", (f.cluster(10), 80), ["p1", "r1"])
    finally:
        prober.stop()
    t.check(not prober.failed, f"{len(prober.failed)} of {prober.tried} connections failed: {prober.failed[:3]}")
    t.check(t.lab.agents["p3"].ask(op="held", id=held["id"])["alive"], "an open connection broke")
