"""Loopback addresses of the node are for the node alone, even for a neighbour that sends to its MAC address."""
import json
import shlex
import subprocess
import sys

from context import PATIENCE
from objects import port, service, slice_
from registry import scenario

MODES = ("iptables", "nftables", "ipvs", "userspace")
AT_LOOPBACK = {"nodePortAddresses": ["127.0.0.0/8", "::1/128"]}
NODE_PORT, PRIVATE_PORT = 30080, 9999
BALANCER = "127.0.0.9"    # some tools write such a load balancer IP into a Service's status
SETTING = "net.ipv4.conf.all.route_localnet"

# Sends a SYN and a datagram to each target in raw frames, and prints which ones were answered, in whatever way. A target may
# have an address at which a source route ends.
NEIGHBOUR = """
import ipaddress, json, socket, struct, sys, time
given = json.loads(sys.argv[1])
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.bind((given["device"], 0))
raw.settimeout(0.05)
mac = lambda text: bytes.fromhex(text.replace(":", ""))
source = ipaddress.ip_address(given["source"])

def checksum(data):
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff

def frame(target, via, number, segment, at):
    pseudo = source.packed + (via or target).packed + struct.pack("!IHBB", len(segment), 0, 0, number)
    segment = segment[:at] + struct.pack("!H", checksum(pseudo + segment)) + segment[at + 2:]
    if target.version == 6:
        head = struct.pack("!IHBB", 6 << 28, len(segment), number, 64) + source.packed + target.packed
    else:
        route = b"\\x83\\x07\\x04" + via.packed + b"\\0" if via else b""
        size = 20 + len(route)
        head = struct.pack("!BBHHHBBH", 0x40 | size // 4, 0, size + len(segment), 1, 0, 64, number, 0)
        head += source.packed + target.packed + route
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    kind = b"\\x86\\xdd" if target.version == 6 else b"\\x08\\x00"
    return mac(given["to"]) + mac(given["from"]) + kind + head + segment

asked = {}
for i, (address, number, *route) in enumerate(given["targets"]):
    via = ipaddress.ip_address(route[0]) if route else None
    for j, protocol in enumerate(("tcp", "udp")):
        sport, target = given["port"] + 2 * i + j, ipaddress.ip_address(address)
        asked[sport] = " ".join(map(str, [protocol, address, number, *route]))
        syn = struct.pack("!HHIIBBHHH", sport, number, 1, 0, 5 << 4, 2, 64240, 0, 0)
        datagram = struct.pack("!HHHH", sport, number, 12, 0) + b"ping"
        raw.send(frame(target, via, *((6, syn, 16) if protocol == "tcp" else (17, datagram, 6))))
answered, end = set(), time.monotonic() + given["seconds"]
while time.monotonic() < end and len(answered) < len(asked):
    try:
        data, (_, _, kind, _, _) = raw.recvfrom(2048)
    except TimeoutError:
        continue
    at = 14 + (40 if source.version == 6 else 20)
    if kind != socket.PACKET_OUTGOING and len(data) >= at + 4:
        answered.add(asked.get(struct.unpack("!H", data[at + 2:at + 4])[0]))
print(json.dumps(sorted(answered - {None})))
"""


class Neighbour:
    """Two attackers, outside and in a pod, and a program of the node that listens at its loopback address alone."""

    def __init__(self, t, f):
        self.t, self.f, self.port = t, f, 20000
        t.lab.agents["node"].ask(op="serve", name="private", ports=[[p, f.loopback, PRIVATE_PORT] for p in ("tcp", "udp")])
        t.lab.exec("node", "sysctl -qw " + " ".join(f"net.ipv4.conf.{of}.accept_source_route=1" for of in ("all", "eth0", "vethp1")))
        self.stays_away("before the start", False)

    def link(self, place, device):
        return json.loads(self.t.lab.exec(place, f"ip -j link show {device}").stdout)[0]["address"]

    def answers(self, place, targets):
        here, there = ("eth0", "eth0") if place == "world" else ("eth0", f"veth{place}")
        self.port += 100
        given = {"device": here, "from": self.link(place, here), "to": self.link("node", there), "targets": targets,
                 "source": self.t.address("client" if place == "world" else place), "port": self.port, "seconds": 0.6 * PATIENCE}
        return json.loads(subprocess.run(
            ["ip", "netns", "exec", self.t.lab.ns(place), sys.executable, "-c", NEIGHBOUR, json.dumps(given)],
            check=True, capture_output=True, text=True).stdout)

    def stays_away(self, when, is_closed=True):
        """The node answers at its own address, and nothing does at its loopback addresses (if the proxy closes them)."""
        f = self.f
        private = [(f.loopback, PRIVATE_PORT), (f.loopback, NODE_PORT), (f.any, NODE_PORT)] + ([
            ("127.0.0.2", NODE_PORT), (BALANCER, 80), (f.node, PRIVATE_PORT, f.loopback)] if f.version == 4 else [])
        for place in ("world", "p1"):
            found = self.answers(place, [(f.node, 9090), *private])
            own = [f"{protocol} {f.node} 9090" for protocol in ("tcp", "udp")]
            self.t.check(set(own) <= set(found), f"{when}: the node does not answer {place}: {found}")
            if is_closed:
                self.t.check(found == own, f"{when}: {place} gets answers from {found}")
        if is_closed:
            for protocol in ("tcp", "udp"):
                self.t.reaches("node", (f.loopback, PRIVATE_PORT), ["private"], proto=protocol)

    def is_served(self):
        """The node itself reaches the node port, whose replies come back through a pod's interface."""
        f, is_open = self.f, self.f.version == 4 or self.t.mode != "iptables"
        for protocol in ("tcp", "udp"):
            if is_open:
                self.t.reaches("node", (f.loopback, NODE_PORT), ["p2"], proto=protocol)
            else:
                self.t.unserved("node", (f.loopback, NODE_PORT), proto=protocol)
        if f.version == 4:
            self.t.unserved("node", ("127.0.0.2", NODE_PORT))


def set_routing(t, value):
    t.lab.exec("node", f"sysctl -qw {SETTING}={value}")


def routing(t):
    return t.lab.exec("node", f"sysctl -n {SETTING}").stdout.strip()


def apply_web(t, f):
    both = [port(80, 8080, node_port=NODE_PORT), port(81, 8080, node_port=NODE_PORT, proto="UDP", name="udp")]
    ingress = [{"ip": BALANCER}] if f.version == 4 else None
    t.apply(service("web", f, f.cluster(10), both, type="LoadBalancer", ingress=ingress), slice_("web", f, ["p2"], both))


@scenario("loopback: a neighbour gets nothing at the node's loopback addresses, whatever route_localnet was", config=AT_LOOPBACK, modes=MODES)
def neighbour(t, f):
    attack = Neighbour(t, f)
    for before in (1, 0):
        set_routing(t, before)
        t.start()
        apply_web(t, f)
        attack.is_served()
        attack.stays_away(f"started with {SETTING}={before}")
        set_routing(t, 1)
        attack.stays_away("once another program lets the kernel route loopback addresses")
        t.stop()
        attack.stays_away("after a stop")


@scenario("loopback: a neighbour gets nothing after changes of nodePortAddresses and of the mode", config=AT_LOOPBACK, modes=MODES)
def changes(t, f):
    attack = Neighbour(t, f)
    set_routing(t, 1)
    own, primary, everything = AT_LOOPBACK["nodePortAddresses"], [f.node_cidr], ["0.0.0.0/0", "::/0"]
    others = [mode for mode in MODES if mode not in (t.mode, "ipvs")]
    steps = [(t.mode, None), (t.mode, own), *((mode, own) for mode in others), (t.mode, everything), (t.mode, primary)]
    for mode, addresses in steps:
        t.mode, t.config = mode, {"nodePortAddresses": addresses}
        t.start()
        apply_web(t, f)
        attack.stays_away(f"{mode} mode, nodePortAddresses {addresses}")
        t.stop()


@scenario("loopback: a cleanup leaves nothing, and no loopback address open that was closed before", config=AT_LOOPBACK, modes=MODES)
def cleanup(t, f):
    attack = Neighbour(t, f)
    for before in (0, 1):
        set_routing(t, before)
        t.start()
        apply_web(t, f)
        attack.is_served()
        t.stop()
        config = shlex.quote(f"{t.lab.directory}/config.json")
        t.lab.exec("node", t.command.replace("{config}", config) + " --cleanup")
        left = t.lab.exec("node", "iptables-save | grep KUBE-; ip6tables-save | grep KUBE-; nft list tables | grep sluice", check=False).stdout
        # A rule stays where another program has the kernel route loopback addresses; without iptables there is none.
        stays = before == 1 and t.mode != "nftables"
        t.check(routing(t) == str(before), f"{SETTING} was {before} and is {routing(t)}")
        t.check(("KUBE-MARTIANS" in left) == stays and "KUBE-S" not in left and "sluice" not in left, f"left: {left}")
        if stays or before == 0:
            attack.stays_away(f"after a cleanup, {SETTING}={before}")
