"""A node leaves ipvs mode while it serves: the file of the running process changes, and no connection breaks or fails."""
import json
import os
import subprocess
import sys
import time

from context import PATIENCE
from objects import port, service, slice_
from registry import scenario

# Each target is [KIND, NAME, SOURCE, ADDRESS, PORT]; kinds are `tcp` and `udp`, one flow with a request every 100 ms, and `new`, one
# connection after the other. Ends with the standard input, and prints the counts.
CLIENT = r"""
import json, socket, struct, sys, threading, time
PATIENCE, ended, results = float(sys.argv[2]), threading.Event(), []

def connected(kind, source, address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    sock.settimeout(5 * PATIENCE)
    if source:
        sock.bind((source, 0))
    if kind != "udp":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.connect((address, port))
    return sock

def held(kind, source, address, port, result):
    with connected(kind, source, address, port) as sock:
        result["local"] = sock.getsockname()[0]
        if kind == "tcp":
            sock.recv(4096)
        while not ended.wait(0.1):
            result["tried"] += 1
            sock.send(b"%d\n" % result["tried"])
            answer = sock.recv(4096)
            if kind == "tcp" and answer != b"%d\n" % result["tried"]:
                raise OSError("answered " + repr(answer))

def new(kind, source, address, port, result):
    while not ended.is_set():
        result["tried"] += 1
        with connected(kind, source, address, port) as sock:
            sock.recv(4096)
            result["again"] += struct.unpack_from("I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)[0]
        ended.wait(0.05 * PATIENCE)

def run(target):
    kind, name, source, address, port = target
    result = {"name": kind + " " + name, "tried": 0, "failed": 0, "again": 0}
    results.append(result)
    while not ended.is_set():
        try:
            (new if kind == "new" else held)(kind, source, address, port, result)
        except OSError as error:
            result["failed"] += 1
            result["error"] = f"{error!r} at {time.strftime('%X')}"
            if kind != "new":
                return

threads = [threading.Thread(target=run, args=(target,)) for target in json.loads(sys.argv[1])]
for thread in threads:
    thread.start()
print("started", flush=True)
sys.stdin.read()
ended.set()
for thread in threads:
    thread.join()
print(json.dumps(results), flush=True)
"""
GONE = ("ipvsadm -Sn; ipset list -n | grep KUBE-; ip link show kube-ipvs0; ip route show table local proto 122; "
        "ip -6 route show table local proto 122; iptables-save | grep IPVS; ip6tables-save | grep IPVS")
PORTS = (port(80, 8080, node_port=30080, name="web"), port(53, 8080, proto="UDP", name="dns"))


class Client:
    """Flows from one place of the laboratory."""

    def __init__(self, t, place, *targets):
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", t.lab.ns(place), sys.executable, "-c", CLIENT, json.dumps(targets), str(PATIENCE)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def end(self, t):
        """Ends all flows, which must have seen no failure."""
        results = json.loads(self.process.communicate()[0])
        for result in results:
            print(json.dumps(result), flush=True)
            t.check(result["failed"] == 0 and result["tried"] > 5, f"flow failed: {result}")
        return results


def kernel(t, command):
    return t.lab.exec("node", f"{{ {command}; }} 2>/dev/null", check=False).stdout.strip()


def wait_until(t, is_met, what, seconds=30):
    deadline = time.monotonic() + seconds * PATIENCE
    while not is_met():
        t.check(time.monotonic() < deadline, f"not in time: {what}: {t.tail()}")
        time.sleep(0.2)


def logged(t, text):
    with open(t.log, errors="replace") as log:
        return log.read().count(text)


def change_mode(t, mode):
    path = os.path.join(t.lab.directory, "config.json")
    with open(path) as file:
        config = json.load(file)
    with open(path + ".new", "w") as file:
        json.dump({**config, "mode": mode}, file)
    os.rename(path + ".new", path)


def leave(t, f, mode, kube_proxy=None):
    """Serves in ipvs mode, with Sluice or another kube-proxy, and goes on in another mode."""
    sluice = t.command
    if kube_proxy:
        t.command = f"{kube_proxy} --config {{config}}"
    address, target = f.cluster(10), (f.cluster(10), 80)
    t.start()
    t.apply(service("web", f, address, PORTS, type="NodePort"), slice_("web", f, ["p1", "r1"], PORTS),
            service("idle", f, f.cluster(11), [port(80, 8080)]), slice_("idle", f, ["p1"], [port(80, 8080)]))
    t.reaches("p3", target, ["p1", "r1"])
    t.lab.exec("node", "ipvsadm --set 0 0 10")
    held = [
        Client(t, "p3", ["tcp", "pod", None, *target], ["udp", "pod", None, address, 53]),
        Client(t, "node", ["tcp", "node", None, *target]),
        Client(t, "world", ["tcp", "node port", f.client, f.node, 30080]),
    ]
    opened = [
        Client(t, "p2", ["new", "pod", None, *target]),
        Client(t, "node", ["new", "node", None, *target]),
        Client(t, "world", ["new", "node port", f.client2, f.node, 30080]),
    ]
    time.sleep(2)
    if kube_proxy:
        t.stop()
        t.command, t.mode = sluice, mode
        t.start()
    else:
        change_mode(t, mode)
    process = t.process
    wait_until(t, lambda: logged(t, "connections of ipvs mode are open"), "the drain starts")
    late = Client(t, "node", ["tcp", "node, late", None, *target])
    t.apply(slice_("new", f, ["p1"], [port(80, 8080)]), service("new", f, f.cluster(12), [port(80, 8080)]))
    t.reaches("p3", (f.cluster(12), 80), ["p1"])
    servers = kernel(t, "ipvsadm -Sn")
    t.check(f"{f.cluster(11)}" not in servers, f"a virtual server without connections is left: {servers}")
    t.check("-w 1" not in servers and "-w 0" in servers, f"virtual servers take connections: {servers}")
    t.check(kernel(t, "ip addr show kube-ipvs0") == "", "the interface is left")
    t.refused("p3", (address, 7))
    time.sleep(3 * PATIENCE)
    for client in held:
        client.end(t)
    wait_until(t, lambda: kernel(t, GONE) == "", f"left: {kernel(t, GONE)[:300]}", 60)
    time.sleep(2)
    for client in opened:
        client.end(t)
    [result] = late.end(t)
    t.check(result["local"] == f.node, f"the node's connection came from {result['local']}")
    t.check(process.poll() is None, f"the process ended: {t.tail()}")
    t.reaches("p3", target, ["p1", "r1"])


CONFIG = {"ipvs": {"udpTimeout": "10s"}}


@scenario("leave: ipvs to nftables in the running process, no connection breaks or fails", modes=("ipvs",))
def to_nftables(t, f):
    leave(t, f, "nftables")


@scenario("leave: ipvs to iptables in the running process, no connection breaks or fails", modes=("ipvs",))
def to_iptables(t, f):
    leave(t, f, "iptables")


KUBE_PROXY = os.environ.get("KUBE_PROXY")


@scenario("kube-proxy: from its ipvs mode to Sluice's nftables mode, no connection breaks or fails",
          modes=("ipvs",) if KUBE_PROXY else ("none",))
def from_kube_proxy(t, f):
    leave(t, f, "nftables", KUBE_PROXY)
