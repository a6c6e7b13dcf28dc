"""The director of tests/scenarios/failover/soak, which starts it in PREFIX-node:

    soak.py PREFIX SLUICE FOLDER MINUTES CONNECTIONS_PER_SECOND SERVICES ENDPOINTS_OF_EACH

Starts a process for each pod, a client, and Sluice. Every second an endpoint leaves its service or comes back. The faults change
with the phases. Fails if an endpoint was left out, connections stop, or an endpoint that is really dead is not found at the end.
"""
import ctypes
import json
import os
import random
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request

PREFIX, SLUICE, FOLDER = sys.argv[1:4]
MINUTES, RATE, SERVICES, ENDPOINTS = (float(sys.argv[4]), *map(int, sys.argv[5:]))

HOT_SERVICES = 2
"""Services with more than half of the connections, so that the accept queues of their pods fill."""
HOT_SHARE = 0.6
HUNG_SECONDS = 0.9
LONGEST_SECONDS = 30
PAUSE_SECONDS = 5
SLOW_SECONDS = 0.3
PHASES = {
    "churn only": (),
    "5 % loss": ("loss",),
    "full accept queues": ("paused",),
    "stopped processes": ("stopped",),
    "slow pods": ("slow",),
    "all at once": ("loss", "paused", "stopped", "slow"),
}
PHASE_SECONDS = min(120, MINUTES * 60 / len(PHASES))
FAULT_INTERVAL = {"paused": 2, "stopped": 2, "slow": 10}
"""The time between two faults of a kind, in seconds."""

libc = ctypes.CDLL(None, use_errno=True)


def enter(namespace):
    with open(f"/run/netns/{PREFIX}-{namespace}") as file:
        if libc.setns(file.fileno(), 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def child(namespace, main, *arguments):
    """Runs a function in a process of its own in a namespace; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    libc.prctl(1, signal.SIGKILL)
    enter(namespace)
    try:
        main(*arguments)
    finally:
        os._exit(1)


def serve(address):
    """A pod: accepts a connection, sends a byte, closes. SIGUSR1 pauses it; SIGUSR2 makes it slow, or no longer."""
    slow = [False]
    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(PAUSE_SECONDS))
    signal.signal(signal.SIGUSR2, lambda *_: slow.__setitem__(0, not slow[0]))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND: its address comes and goes.
    listener.bind((address, 8080))
    listener.listen(1)
    while True:
        connection, _ = listener.accept()
        try:
            connection.send(b"x")
            connection.close()
        except OSError:
            pass
        if slow[0]:
            time.sleep(SLOW_SECONDS)


def connect(output):
    """The client: connects at RATE, and writes a line of JSON a second with what has ended since."""
    epoll, waiting = select.epoll(), {}
    next_at = report_at = time.monotonic()
    figures = {"ended": 0, "failed": 0, "hung": 0, "longest": 0.0}

    def end(descriptor, failed):
        connection, started, _ = waiting.pop(descriptor)
        connection.close()
        figures["ended"] += 1
        figures["failed"] += failed
        if failed:
            note(time.monotonic() - started)

    def note(seconds):
        figures["hung"] += seconds > HUNG_SECONDS
        figures["longest"] = max(figures["longest"], seconds)

    while True:
        now = time.monotonic()
        while next_at <= now:
            next_at += 1 / RATE
            hot = random.random() < HOT_SHARE
            service = random.randrange(HOT_SERVICES) if hot else random.randrange(SERVICES)
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex((f"10.96.0.{service + 1}", 80))
            waiting[connection.fileno()] = [connection, now, False]
            epoll.register(connection, select.EPOLLOUT)
        for descriptor, _ in epoll.poll(max(0, next_at - now)):
            connection, started, connected = waiting[descriptor]
            if connected or connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                end(descriptor, not connected)
                continue
            waiting[descriptor][2] = True
            note(time.monotonic() - started)
            epoll.modify(connection, select.EPOLLIN)
        if now >= report_at:
            report_at += 1
            late = now - LONGEST_SECONDS
            for descriptor in [one for one, (_, started, _) in waiting.items() if started < late]:
                end(descriptor, not waiting[descriptor][2])
            os.write(output, f"{json.dumps(figures)}\n".encode())
            figures.update(ended=0, failed=0, hung=0, longest=0.0)


class Pod:
    def __init__(self, service, index):
        self.service, self.address = service, f"10.244.{service}.{index + 1}"
        self.is_listed, self.is_ready, self.fault = True, True, None
        add_address(self)
        self.pid = child("pods", serve, self.address)


def add_address(pod):
    subprocess.run(["ip", "-n", f"{PREFIX}-pods", "addr", "replace", f"{pod.address}/32", "dev", "lo"], check=True)


def remove_address(pod):
    subprocess.run(["ip", "-n", f"{PREFIX}-pods", "addr", "del", f"{pod.address}/32", "dev", "lo"], check=True)


def write_service(service):
    name, ip = f"web-{service}", f"10.96.0.{service + 1}"
    meta = {"name": name, "namespace": "shop"}
    objects = [
        {"apiVersion": "v1", "kind": "Service", "metadata": meta,
         "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
         "metadata": {**meta, "labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
         "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
         "endpoints": [{"addresses": [pod.address], "conditions": {"ready": pod.is_ready}}
                       for pod in pods if pod.service == service and pod.is_listed]},
    ]
    path = f"{FOLDER}/manifests/{name}.json"
    with open(f"{path}.new", "w") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": objects}, file)
    os.rename(f"{path}.new", path)


def churn():
    """Takes one endpoint out of its service, or back. A pod's address vanishes 2 s after it has left the slice."""
    service = random.randrange(SERVICES)
    changed = [pod for pod in pods if pod.service == service and not (pod.is_listed and pod.is_ready)]
    if changed and (len(changed) > 1 or random.random() < 0.5):
        pod = random.choice(changed)
        if not pod.is_listed and pod in leaving:
            return
        add_address(pod)
        pod.is_listed = pod.is_ready = True
    else:
        pod = random.choice([pod for pod in pods if pod.service == service and pod not in changed])
        if random.random() < 0.3:
            pod.is_ready = False
        else:
            pod.is_listed = False
            leaving.add(pod)
            later(2, lambda: (remove_address(pod), leaving.discard(pod)))
    write_service(service)


def start_fault(kind):
    idle = [pod for pod in pods if pod.fault is None and pod.is_listed]
    pod = random.choice([one for one in idle if one.service < HOT_SERVICES] if random.random() < 0.8 else idle)
    pod.fault = kind

    def end():
        if kind == "slow":
            os.kill(pod.pid, signal.SIGUSR2)
        if kind == "stopped":
            os.kill(pod.pid, signal.SIGCONT)
        pod.fault = None

    os.kill(pod.pid, {"paused": signal.SIGUSR1, "stopped": signal.SIGSTOP, "slow": signal.SIGUSR2}[kind])
    later({"paused": PAUSE_SECONDS, "stopped": random.uniform(1, 8), "slow": 30}[kind], end)


def set_loss(is_lossy):
    rules = "flush chain ip lab loss\n" + ("add rule ip lab loss numgen random mod 100 < 5 drop\n" if is_lossy else "")
    subprocess.run(["ip", "netns", "exec", f"{PREFIX}-router", "nft", "-f", "-"], input=rules.encode(), check=True)


def probes():
    command = ["ip", "netns", "exec", f"{PREFIX}-router", "nft", "--json", "list", "counter", "ip", "lab", "probes"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return listed["nftables"][-1]["counter"]["packets"]


def metrics():
    text = urllib.request.urlopen("http://127.0.0.1:10249/metrics", timeout=20).read().decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#"]
    sums = {}
    for name, value in lines:
        sums[name.split("{")[0]] = sums.get(name.split("{")[0], 0) + float(value)
    return sums


def say_left_out():
    """Says which faults the endpoints have that Sluice has just left out."""
    for line in log_lines:
        if '"endpoint-unreachable"' in line:
            address = json.loads(line).get("subject", "").split(":")[0]
            for pod in pods:
                if pod.address == address:
                    say(f"left out: {address}, fault {pod.fault}, listed {pod.is_listed}, leaving {pod in leaving}")


def later(seconds, act):
    timers.append((time.monotonic() + seconds, act))


def run_until(end, kinds=(), is_churning=True):
    """Runs timers and faults, and adds the client's lines up; returns their sum."""
    total = {"ended": 0, "failed": 0, "hung": 0, "longest": 0.0}
    next_at = {kind: time.monotonic() for kind in [*(one for one in kinds if one in FAULT_INTERVAL), *["churn"] * is_churning]}
    while (now := time.monotonic()) < end:
        for kind, at in next_at.items():
            if now >= at:
                next_at[kind] = now + FAULT_INTERVAL.get(kind, 1)
                churn() if kind == "churn" else start_fault(kind)
        for timer in [one for one in timers if one[0] <= now]:
            timers.remove(timer)
            timer[1]()
        if select.select([client_lines], [], [], 0.2)[0]:
            line = json.loads(client_lines.readline())
            for name in ("ended", "failed", "hung"):
                total[name] += line[name]
            total["longest"] = max(total["longest"], line["longest"])
            say_left_out()
    return total


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


timers, leaving = [], set()
pods = [Pod(service, index) for service in range(SERVICES) for index in range(ENDPOINTS)]
for service in range(SERVICES):
    write_service(service)
with open(f"{FOLDER}/log", "w") as log:
    sluice = subprocess.Popen(
        [SLUICE, "--proxy-mode", "nftables", "--source", f"file:{FOLDER}/manifests", "--hostname-override", "node",
         "--cluster-cidr", "10.244.0.0/16", "--control-socket", "", "--endpoint-failure-detection"],
        stdout=subprocess.DEVNULL, stderr=log)
log_lines = open(f"{FOLDER}/log")
reading, writing = os.pipe()
time.sleep(5)
client = child("client", connect, writing)
client_lines = os.fdopen(reading)
run_until(time.monotonic() + 5)

failures = []
began, ejections = time.monotonic(), metrics()["sluice_endpoint_ejections_total"]
while time.monotonic() - began < MINUTES * 60:
    for name, kinds in PHASES.items():
        before = metrics(), probes()
        set_loss("loss" in kinds)
        figures = run_until(time.monotonic() + PHASE_SECONDS, kinds)
        after = metrics(), probes()
        cpu = (after[0]["process_cpu_seconds_total"] - before[0]["process_cpu_seconds_total"]) / PHASE_SECONDS
        ejected = after[0]["sluice_endpoint_ejections_total"] - ejections
        ejections += ejected
        if figures["ended"] < 0.8 * RATE * PHASE_SECONDS:
            failures.append(f"{name}: only {figures['ended']} connections ended")
        if ejected:
            failures.append(f"{name}: {ejected:.0f} endpoints were left out")
        say(f"{name}: {figures['ended']} connections, {figures['failed']} failed, {figures['hung']} waited for more than "
            f"{HUNG_SECONDS} s, the longest {figures['longest']:.1f} s; {after[1] - before[1]} probes, {ejected:.0f} "
            f"endpoints left out; CPU {100 * cpu:.1f} %")

set_loss(False)
run_until(time.monotonic() + 10, is_churning=False)
before, dead = metrics()["sluice_endpoint_ejections_total"], next(pod for pod in pods if pod.is_listed and pod.is_ready)
remove_address(dead)
run_until(time.monotonic() + 10, is_churning=False)
found = metrics()["sluice_endpoint_ejections_total"] - before
say(f"a dead pod at the end: {found:.0f} left out")
if found != 1:
    failures.append(f"the dead pod {dead.address} was not left out")
sluice.terminate()
sluice.wait()
for pid in [client, *(pod.pid for pod in pods)]:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
used = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
seconds = sum(one.ru_utime + one.ru_stime for one in used)
say(f"{seconds:.0f} s of CPU in {time.monotonic() - began:.0f} s, all processes together")
for failure in failures:
    say(f"FAILED {failure}")
sys.exit(1 if failures else 0)
