"""Each IPVS scheduler, and in nftables mode what replaces it, with the same traffic: prints the shares of docs/ipvs.md and checks
them. In ipvs mode it needs the virtual machine; in nftables mode it runs on the machine itself, since `least-connections` follows
too slowly in an emulated one:

    ../shared/conformance/run --proxy 'dist/sluice --config {config}' --mode nftables --dir tests/ipvs/scenarios --only schedulers

A service has the endpoints p1, p2 and r1, of which r1 is on another node. A connection to p1 stays open ten times as long as to
the others, and nine connections stay open all the time. Where the client's address matters, 41 clients open five each instead.
"""
import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Optional

from objects import port, service, slice_
from registry import scenario

ENDPOINTS = ["p1", "p2", "r1"]
CLIENTS, EACH = 41, 5
HEAVIER = "node=node-b: 2, *: 1"
LEAST = {"balance": "least-connections"}


class Row(NamedTuple):
    scheduler: str
    replacement: Optional[dict]          # annotations; None if there is none
    shares: Optional[tuple] = None       # of p1, p2 and r1 in percent; None if they depend on the moment
    weights: Optional[str] = None
    many: bool = False                   # many clients instead of one with connections of different length
    loyal: Optional[int] = None          # the number of clients that keep one endpoint


ROWS = [
    Row("rr", {"balance": "round-robin"}, (33, 33, 33)),
    Row("wrr", {"balance": "round-robin", "weights": HEAVIER}, (25, 25, 50), HEAVIER),
    Row("lc", LEAST, (7, 47, 47)),
    Row("wlc", {**LEAST, "weights": HEAVIER}, (5, 36, 58), HEAVIER),
    Row("sed", LEAST, (7, 47, 47)),
    Row("nq", LEAST, (7, 47, 47)),
    Row("lblcr", LEAST, (7, 47, 47)),
    Row("sh", {"balance": "consistent-hash", "affinity-hash": "client"}, (33, 33, 33), many=True, loyal=CLIENTS),
    Row("mh", {"balance": "consistent-hash"}, (33, 33, 33), many=True, loyal=0),
    Row("fo", {"weights": "node=node-b: 1, *: 0"}, (0, 0, 100), HEAVIER),
    Row("lblc", None),
    Row("dh", None, many=True, loyal=CLIENTS),
    Row("ovf", None),
]
TOLERANCE = 12                           # percentage points: hashes are not exact

CLIENT = r"""
import asyncio, collections, json, sys, time
spec = json.loads(sys.argv[1])
answers, held = [], []

async def connect(source, keep):
    started = time.monotonic()
    try:
        opening = asyncio.open_connection(*spec["to"], local_addr=(source, 0) if source else None)
        reader, writer = await asyncio.wait_for(opening, 3)
        server = json.loads(await asyncio.wait_for(reader.readline(), 3))["server"]
    except (OSError, ValueError, asyncio.TimeoutError):
        answers.append((started, source, "refused"))
        return
    answers.append((started, source, server))
    if keep:
        held.append(writer)
        return
    await asyncio.sleep(spec["slow"] if server == "p1" else spec["fast"])
    writer.close()

async def main():
    begin, tasks = time.monotonic(), []
    for number in range(spec["count"]):
        source = spec["sources"][number % len(spec["sources"])] if spec["sources"] else None
        tasks.append(asyncio.create_task(connect(source, number < spec["held"])))
        await asyncio.sleep(spec["pause"])
    await asyncio.gather(*tasks)
    counted = [(source, server) for started, source, server in answers if started - begin >= spec["warmUp"]]
    by_source = collections.defaultdict(set)
    for source, server in counted:
        by_source[source].add(server)
    print(json.dumps({"counts": collections.Counter(server for _, server in counted),
                      "loyal": sum(len(servers) == 1 for servers in by_source.values())}))

asyncio.run(main())
"""

LOAD = {"count": 600, "pause": 0.05, "held": 9, "fast": 0.4, "slow": 4, "warmUp": 12}
MANY = {"count": CLIENTS * EACH, "pause": 0.05, "held": 0, "fast": 0, "slow": 0, "warmUp": 0}


def measure(t, at, many):
    """The share of each endpoint and of refused connections in percent, and how many clients keep one endpoint."""
    sources = [f"203.0.113.{100 + i}" for i in range(CLIENTS)] if many else []
    spec = {**(MANY if many else LOAD), "to": at, "sources": sources}
    place = "world" if many else "p3"
    answer = json.loads(t.lab.exec(place, f"python3 -c {shlex.quote(CLIENT)} {shlex.quote(json.dumps(spec))}").stdout)
    counts = [answer["counts"].get(name, 0) for name in [*ENDPOINTS, "refused"]]
    return [round(100 * count / sum(counts)) for count in counts], answer["loyal"]


def annotations(row, mode):
    if mode == "nftables":
        return row.replacement
    return {"balance": row.scheduler, **({"weights": row.weights} if row.weights else {})}


@scenario("schedulers: each, or its replacement in nftables mode, gives the shares of docs/ipvs.md", each_family=False, modes=("ipvs", "nftables"))
def schedulers(t, f):
    for i in range(CLIENTS):
        t.lab.exec("world", f"ip addr add 203.0.113.{100 + i}/32 dev lo")
    t.lab.exec("node", "modprobe -a " + " ".join(f"ip_vs_{row.scheduler}" for row in ROWS), check=False)
    p, rows = port(80, 8080), [row for row in ROWS if annotations(row, t.mode)]
    t.start()
    for i, row in enumerate(rows):
        web = service(f"web{i}", f, f.cluster(10 + i), [p])
        web["metadata"]["annotations"] = {f"sluice.dev/{name}": text for name, text in annotations(row, t.mode).items()}
        t.apply(web, slice_(f"web{i}", f, ENDPOINTS, [p]), settle=row is rows[-1])
    with ThreadPoolExecutor(2) as pool:
        measured = list(pool.map(lambda i: measure(t, [f.cluster(10 + i), 80], rows[i].many), range(len(rows))))
    wrong = []
    for row, (shares, loyal) in zip(rows, measured):
        refused = f", {shares[3]} % refused" if shares[3] else ""
        of_clients = f", {loyal} of {CLIENTS} clients keep one endpoint" if row.many else ""
        print(f"{row.scheduler} {annotations(row, t.mode)}: {'/'.join(map(str, shares[:3]))}{refused}{of_clients}", flush=True)
        differences = [abs(a - b) for a, b in zip(shares, [*(row.shares or ()), 0])]
        # Counted connections decide about the slow endpoint; between fast ones, with a few open each, shares swing.
        is_counted = annotations(row, t.mode).get("balance") == "least-connections"
        if row.shares and (differences[0] if is_counted else max(differences)) > TOLERANCE:
            wrong.append(row.scheduler)
        # By chance, a few clients of a hash of ports keep one endpoint.
        if row.loyal is not None and abs(loyal - row.loyal) > (0 if row.loyal else 4):
            wrong.append(f"{row.scheduler} by client")
    t.check(not wrong, f"other shares than expected: {', '.join(wrong)}")
