"""The director of tests/scenarios/failover/attacks, which starts it in attacks-node:

    attacks.py SLUICE FOLDER [SCENARIO]…

Runs each scenario with a Sluice of its own, and fails if endpoints are left out other than those it names.
"""
import ctypes
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time

SLUICE, FOLDER = sys.argv[1:3]
POD_COUNT = 4
PODS = [f"10.244.0.{number}" for number in range(1, POD_COUNT + 1)]
SERVICE = ("10.96.0.1", 80)
NODE, DENIED = "192.168.8.1", "10.244.251.2"
MOST_FLOWS = 262_144
SETTLE_SECONDS, ATTACK_SECONDS = 4, 20

libc = ctypes.CDLL(None, use_errno=True)


def child(namespace, main, *arguments):
    """Runs a function in a process of its own in a namespace; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    libc.prctl(1, signal.SIGKILL)
    with open(f"/run/netns/attacks-{namespace}") as file:
        if libc.setns(file.fileno(), 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    try:
        main(*arguments)
    finally:
        os._exit(1)


def serve(address):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, 8080))
    listener.listen(128)
    while True:
        listener.accept()[0].close()


def connect(rate):
    """Opens connections to the service at this rate, and closes each after half a second."""
    opened, next_at = [], time.monotonic()
    while True:
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(SERVICE)
        opened.append((time.monotonic(), connection))
        while opened[0][0] < time.monotonic() - 0.5:
            opened.pop(0)[1].close()
        next_at += 1 / rate
        time.sleep(max(0, next_at - time.monotonic()))


def spoof(rate):
    """Sends SYN packets from random addresses to the service."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    next_at = time.monotonic()
    while True:
        source = struct.pack(">I", 0xAC100000 + random.randrange(1 << 20))
        target = socket.inet_aton(SERVICE[0])
        tcp = struct.pack(">HHIIHHHH", random.randrange(1024, 65535), SERVICE[1], random.getrandbits(32), 0, 0x5002, 1024, 0, 0)
        words = struct.unpack(">16H", source + target + struct.pack(">HH", 6, len(tcp)) + tcp)
        total = sum(words)
        total = (total & 0xFFFF) + (total >> 16)
        checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, source, target)
        sender.sendto(header + tcp[:16] + struct.pack(">HH", checksum, 0), SERVICE)
        next_at += 1 / rate
        time.sleep(max(0, next_at - time.monotonic()))


def nft(namespace, rules):
    subprocess.run(["ip", "netns", "exec", f"attacks-{namespace}", "nft", "-f", "-"], input=rules.encode(), check=True)


def policy(*rules):
    """Drops packets at the pods, as a network policy does."""
    nft("router", "\n".join(["table ip lab", "delete table ip lab", "table ip lab {", "chain forward {",
                             "type filter hook forward priority filter; policy accept;", *rules, "}", "}", ""]))


def deny(*sources):
    return [f"ip saddr {source} tcp flags syn / syn,ack drop" for source in sources]


def dead(*pods):
    return [f"ip {side} {pod} drop" for pod in pods for side in ("saddr", "daddr")]


def write_manifests():
    objects = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
         "spec": {"clusterIP": SERVICE[0], "clusterIPs": [SERVICE[0]], "ports": [{"port": SERVICE[1], "protocol": "TCP"}]}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
         "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
         "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
         "endpoints": [{"addresses": [pod], "conditions": {"ready": True}} for pod in PODS]},
    ]
    with open(f"{FOLDER}/manifests/web.json", "w") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": objects}, file)


class Watch:
    """The endpoints that Sluice says are left out."""

    def __init__(self):
        self.file, self.at, self.out, self.seen = open(f"{FOLDER}/log"), time.monotonic(), set(), []

    def wait(self, seconds):
        """Reads the log for this time; notes who is left out when."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            for line in self.file:
                if '"endpoint-unreachable"' not in line:
                    continue
                record = json.loads(line)
                pod, is_left = record["subject"].split(":")[0], record["level"] == "warn"
                self.seen.append((round(now - self.at, 2), pod, "out" if is_left else "back"))
                (self.out.add if is_left else self.out.discard)(pod)
            select.select([], [], [], 0.02)

    def begin(self):
        self.at = time.monotonic()


def scenario(rate=2, denied=20, before=(), during=(), expected=(), act=None):
    return rate, denied, before, during, expected, act


def flap(watch):
    for _ in range(4):
        policy(*dead(PODS[0]))
        watch.wait(3)
        policy()
        watch.wait(4)


def cut_egress(watch):
    nft("node", 'table ip fault {\nchain out {\ntype filter hook postrouting priority 300;\noifname "router" drop\n}\n}\n')
    watch.wait(ATTACK_SECONDS)
    nft("node", "delete table ip fault")


def fill_conntrack(watch):
    lines = (f"-I -p tcp -s 10.1.{n >> 8 & 255}.{n & 255} -d 10.2.0.{n >> 16} --sport 1000 --dport 80 "
             "--state ESTABLISHED -u ASSURED,SEEN_REPLY -t 600" for n in range(MOST_FLOWS + 1_000))
    subprocess.run(["conntrack", "--load-file", "-"], input="\n".join(lines).encode(), stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    print("  flows:", open("/proc/sys/net/netfilter/nf_conntrack_count").read().strip(), flush=True)
    watch.begin()
    # Now and then a flow ends, so that a few new ones are possible.
    for second in range(ATTACK_SECONDS):
        for n in range(5):
            subprocess.run(["conntrack", "-D", "-s", f"10.1.{second}.{n}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            watch.wait(0.2)
    subprocess.run(["conntrack", "-F"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def spoof_clients(watch):
    pid = child("client", spoof, 1_000)
    watch.wait(ATTACK_SECONDS)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


SCENARIOS = {
    "a pod that is denied, where the node is denied, too": scenario(before=deny(NODE, DENIED), during=deny(NODE, DENIED)),
    "a pod that is denied": scenario(before=deny(DENIED), during=deny(DENIED)),
    "a pod and the node that are denied later": scenario(during=deny(NODE, DENIED)),
    "the node is denied, and an endpoint dies": scenario(rate=100, denied=0, before=deny(NODE), during=deny(NODE) + dead(PODS[0])),
    "an endpoint that refuses": scenario(rate=100, denied=0, during=[f"ip daddr {PODS[0]} tcp dport 8080 reject with tcp reset"]),
    "spoofed clients": scenario(denied=0, act=spoof_clients),
    "the node's packets are dropped": scenario(rate=100, denied=0, act=cut_egress),
    "a full connection table": scenario(rate=100, denied=0, act=fill_conntrack),
    "an endpoint that flaps": scenario(rate=100, denied=0, expected=PODS[:1], act=flap),
    "an endpoint dies": scenario(rate=100, denied=0, during=dead(PODS[0]), expected=PODS[:1]),
    "an endpoint dies while a pod is denied": scenario(
        rate=100, before=deny(DENIED), during=deny(DENIED) + dead(PODS[0]), expected=PODS[:1]),
}


def run(name):
    rate, denied, before, during, expected, act = SCENARIOS[name]
    policy(*before)
    with open(f"{FOLDER}/log", "w") as log:
        sluice = subprocess.Popen(
            [SLUICE, "--proxy-mode", "nftables", "--source", f"file:{FOLDER}/manifests", "--hostname-override", "node",
             "--cluster-cidr", "10.244.0.0/16", "--control-socket", "", "--endpoint-failure-detection"],
            stdout=subprocess.DEVNULL, stderr=log)
    watch = Watch()
    while subprocess.run(["nft", "list", "chain", "ip", "sluice", "nat-output"], capture_output=True).returncode != 0:
        time.sleep(0.1)
    clients = [child("client", connect, rate)]
    watch.wait(SETTLE_SECONDS)
    if denied:
        clients.append(child("denied", connect, denied))
    watch.begin()
    if act:
        act(watch)
    else:
        policy(*during)
        watch.wait(ATTACK_SECONDS)
    for pid in clients:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    sluice.terminate()
    sluice.wait()
    left = {pod for _, pod, what in watch.seen if what == "out"}
    is_right = left == set(expected)
    print(f"{'ok' if is_right else 'FAILED'} {name}: {len(left)} of {POD_COUNT} left out {watch.seen[:12]}", flush=True)
    return is_right


write_manifests()
for pod in PODS:
    subprocess.run(["ip", "-n", "attacks-pods", "addr", "add", f"{pod}/32", "dev", "lo"], check=True)
pods = [child("pods", serve, pod) for pod in PODS]
failed = [name for name in sys.argv[3:] or SCENARIOS if not run(name)]
for pid in pods:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
sys.exit(1 if failed else 0)
