/** Who leads a site, and how often its nodes use the line for that. */
import assert from "node:assert/strict";
import { createFakeClock } from "../../../fakes/clock.ts";
import { type ElectionNode, settleElections, startElectionNode, TIMING } from "../../../fakes/election_node.ts";
import { createLeaseLines } from "../../../fakes/lease_line.ts";
import { seeded } from "../../../fakes/random.ts";
import type { LeaseClient } from "../../../../features/site/lease.ts";

const STEP_MS = 100;

/** A site of nodes with lines of which none loses anything, and a count of each node's requests. */
function setUp(count: number, { members }: { readonly members?: readonly string[] } = {}) {
  const clock = createFakeClock();
  const random = seeded(7);
  const names = Array.from({ length: count }, (_, index) => `n${index}`);
  const lines = createLeaseLines(clock, members ?? [...names, "late"]);
  const requests: string[] = [];
  const dead = new Set<string>();
  const nodes: ElectionNode[] = [];
  const start = (name: string) => {
    // Neither a long delay nor a loss.
    const line = lines.open(() => 0.1);
    const counted = <K extends keyof LeaseClient>(key: K): LeaseClient[K] =>
      ((...args: unknown[]) => {
        requests.push(`${name} ${key}`);
        return (line.client[key] as (...args: unknown[]) => unknown)(...args);
      }) as LeaseClient[K];
    const lease = {
      read: counted("read"),
      members: counted("members"),
      take: counted("take"),
      renew: counted("renew"),
    };
    const node = Object.assign(startElectionNode(name, lease, { clock, random }), { line });
    nodes.push(node);
    return node;
  };
  const started = names.map(start);
  /** Connections to leaders work while those live and lead. */
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= STEP_MS) {
      clock.advance(STEP_MS);
      await settleElections();
      for (const { name, election } of nodes) {
        const role = election.role();
        if (role.kind !== "follower" || dead.has(name)) continue;
        const leader = nodes.find(({ name }) => name === role.leader.node);
        if (leader === undefined || dead.has(leader.name) || leader.election.role().kind !== "leader") election.lost();
        else election.followed();
      }
    }
  };
  const kill = (node: ElectionNode) => {
    node.stop();
    dead.add(node.name);
  };
  const living = () => nodes.filter(({ name }) => !dead.has(name));
  const leader = () => living().find(({ election }) => election.holds());
  const isFollowed = () =>
    living().every(({ election, name }) => {
      const role = election.role();
      return name === leader()?.name || role.kind === "follower" && role.leader.node === leader()?.name;
    });
  const stop = () => nodes.forEach((node) => node.stop());
  /** The requests since the last call but renewals: how many of each kind a node has sent. */
  const taken = () => {
    const counts: Record<string, Record<string, number>> = {};
    for (const request of requests.splice(0)) {
      const [name, verb] = request.split(" ") as [string, string];
      if (verb === "renew" || verb === "members") continue;
      const ofNode = counts[name] ??= {};
      ofNode[verb] = (ofNode[verb] ?? 0) + 1;
    }
    return counts;
  };
  return { clock, lines, nodes: started, start, pass, kill, leader, living, isFollowed, requests, taken, stop };
}

Deno.test("of 20 nodes that start at once, few try to take the Lease, and all follow the one that does", async () => {
  const { pass, isFollowed, taken, stop } = setUp(20);
  await pass(8_000);
  assert.ok(isFollowed());
  const requests = Object.entries(taken());
  assert.ok(requests.filter(([, { take }]) => take !== undefined).length <= 3);
  assert.ok(requests.every(([, { read }]) => read! <= 3));
  stop();
});

Deno.test("nodes that find their leader send nothing more over the line", async () => {
  const { pass, leader, start, taken, isFollowed, stop } = setUp(3);
  await pass(8_000);
  taken();
  await pass(600_000);
  assert.deepEqual(taken(), {});
  start("late");
  await pass(4_000);
  assert.ok(leader() && isFollowed());
  assert.deepEqual(taken(), { late: { read: 1 } });
  stop();
});

Deno.test("a lost leader costs one read of the Lease per node, and its successor one write at the Lease's end", async () => {
  const { clock, nodes, pass, kill, leader, living, isFollowed, taken, stop } = setUp(20);
  await pass(62_000);
  taken();
  const former = leader()!;
  kill(former);
  const killedMs = clock.monotonic();
  while (leader() === undefined) await pass(STEP_MS);
  assert.ok(clock.monotonic() - killedMs <= TIMING.leaseMs + 1_500, "soon after the end of the Lease");
  const { name } = leader()!;
  await pass(5_000);
  assert.ok(isFollowed());
  assert.deepEqual(
    taken(),
    Object.fromEntries(
      living().map((node) => [
        node.name,
        node.name === name ? { read: 1, take: 1 } : { read: 1 },
      ]),
    ),
  );
  assert.deepEqual(nodes.filter(({ standBys }) => standBys > 0).map((node) => node.name), [name]);

  // Its own loss is noticed, too, although the nodes had lost the former one.
  kill(leader()!);
  await pass(TIMING.leaseMs + 5_000);
  assert.ok(isFollowed());
  const again = Object.entries(taken());
  assert.deepEqual(again.filter(([, { take }]) => take !== undefined).map(([name]) => name), [leader()!.name]);
  assert.ok(again.length === 18 && again.every(([, { read }]) => read === 1), JSON.stringify(again));
  stop();
});

Deno.test("a leader that answers again is not replaced, and is asked about once", async () => {
  const { nodes, pass, leader, taken, stop } = setUp(5);
  await pass(62_000);
  taken();
  const { name } = leader()!;
  for (const node of nodes) node.election.lost();
  await pass(600_000);
  assert.equal(leader()!.name, name);
  for (const [node, counts] of Object.entries(taken())) assert.ok(counts.read! <= 2, `${node}: ${counts.read} reads`);
  assert.ok(nodes.every(({ standBys }) => standBys === 0), "no node prepares to succeed it");
  stop();
});

Deno.test("a leader that does not serve yet when it is found is no reason to read the Lease again", async () => {
  const { start, pass, taken, stop } = setUp(1);
  await pass(8_000);
  taken();
  const late = start("late");
  const { followed } = late.election;
  late.election.followed = () => {};
  while (late.election.role().kind !== "follower") await pass(STEP_MS);
  late.election.lost();
  await pass(2_000);
  late.election.followed = followed;
  await pass(60_000);
  assert.deepEqual(taken(), { late: { read: 1 } });
  stop();
});

Deno.test("a node that cannot reach a living leader asks ever more rarely", async () => {
  const { nodes, pass, leader, taken, stop } = setUp(3);
  await pass(62_000);
  taken();
  const { name } = leader()!;
  const cut = nodes.find((node) => node.name !== name)!;
  const { followed } = cut.election;
  cut.election.followed = () => {};
  cut.election.lost();
  const reads = async (ms: number) => {
    await pass(ms);
    return taken()[cut.name]!.read!;
  };
  const first = await reads(300_000), later = await reads(900_000);
  assert.equal(leader()!.name, name);
  assert.ok(first >= 5 && first <= 9, `${first} reads in the first 5 minutes`);
  assert.ok(later >= 14 && later <= 16, `${later} reads in the next 15 minutes, about one a minute`);
  cut.election.followed = followed;
  cut.election.followed();
  await pass(120_000);
  taken();
  await pass(600_000);
  assert.deepEqual(taken(), {});
  stop();
});

Deno.test("if the node whose turn it is dies as well, another one takes over", async () => {
  const { nodes, pass, kill, leader, taken, isFollowed, stop } = setUp(5);
  await pass(62_000);
  taken();
  kill(leader()!);
  let next: ElectionNode | undefined;
  while (next === undefined) {
    await pass(STEP_MS);
    next = nodes.find(({ standBys }) => standBys > 0);
  }
  kill(next);
  await pass(20_000);
  assert.ok(leader() && isFollowed());
  stop();
});

Deno.test("a leader that serves on but cannot renew its Lease is replaced by a node that reaches the API server", async () => {
  const { nodes, pass, leader, living, stop } = setUp(3);
  await pass(8_000);
  const former = nodes.find((node) => node === leader())!;
  former.line.isCut = true;
  // It closes its connections once, and accepts new ones.
  await pass(TIMING.leaseMs / 2);
  for (const { election } of living()) election.lost();
  await pass(TIMING.leaseMs / 2 + 3_000);
  assert.ok(leader() && leader() !== former);
  stop();
});

Deno.test("a former leader that restarts follows its successor, or leads again without an API server", async () => {
  const { nodes, pass, leader, stop } = setUp(2);
  await pass(8_000);
  const former = nodes.find((node) => node === leader())!;
  former.stop();
  while (leader() === former || leader() === undefined) {
    for (const { election } of nodes) election.lost();
    await pass(STEP_MS);
  }
  former.restart();
  await pass(5_000);
  assert.equal(former.roles.at(-1), "follower");
  const successor = leader()!;
  for (const { line } of nodes) line.isCut = true;
  for (const node of nodes) node.restart();
  await pass(2_000);
  assert.deepEqual([successor.roles, former.roles], [["leader"], ["follower"]]);
  stop();
});

Deno.test("a leader that restarts asks at once, and its followers only after a while", async () => {
  const { nodes, pass, leader, requests, stop } = setUp(3);
  await pass(8_000);
  const { name } = leader()!;
  requests.splice(0);
  for (const node of nodes) node.restart();
  await settleElections();
  assert.deepEqual(requests, [`${name} members`]);
  await pass(4_000);
  assert.equal(leader()!.name, name);
  stop();
});

Deno.test("while the API server is away, nobody is elected", async () => {
  const { nodes, pass, kill, leader, living, lines, stop } = setUp(4);
  await pass(8_000);
  const { version } = lines.current();
  for (const { line } of nodes) line.isCut = true;
  kill(leader()!);
  await pass(300_000);
  assert.equal(lines.current().version, version);
  assert.ok(living().every(({ election }) => election.role().kind === "follower"));
  stop();
});

Deno.test("a node that is no member neither leads nor follows, until the list names it", async () => {
  const members = ["n0"];
  const { nodes: [member, other], pass, leader, taken, stop } = setUp(2, { members });
  await pass(8_000);
  assert.equal(leader(), member);
  assert.deepEqual(other!.roles, ["alone"]);
  assert.deepEqual(other!.problems, ["site-not-member"]);
  assert.equal(taken()[other!.name], undefined, "it does not read the Lease");
  members.push("n1");
  await pass(70_000);
  assert.deepEqual(other!.roles, ["alone", "follower"]);
  assert.deepEqual(other!.problems, []);
  stop();
});

Deno.test("a follower that is removed from the members neither follows nor succeeds the next leader", async () => {
  const members = ["n0", "n1", "n2", "n3"];
  const { nodes, pass, kill, leader, stop } = setUp(4, { members });
  await pass(8_000);
  const former = leader()!;
  const removed = nodes.filter((node) => node !== former);
  const [stays] = removed.splice(1, 1);
  for (const { name } of removed) members.splice(members.indexOf(name), 1);
  kill(former);
  await pass(40_000);
  assert.deepEqual(removed.map(({ election }) => election.role().kind), ["alone", "alone"]);
  assert.equal(leader(), stays);
  stop();
});

Deno.test("a leader that is removed from the members gives up the Lease, and another one leads", async () => {
  const members = ["n0", "n1", "n2"];
  const { nodes, pass, leader, stop } = setUp(3, { members });
  await pass(8_000);
  const former = leader()!;
  members.splice(members.indexOf(former.name), 1);
  await pass(100_000);
  assert.deepEqual(former.roles, ["leader", "alone"]);
  assert.ok(leader() && leader() !== former);
  assert.equal(nodes.filter(({ election }) => election.role().kind === "follower").length, 1);
  stop();
});

for (
  const [what, claim] of Object.entries({
    "is no member": { node: "intruder", proof: "intruder" },
    "has not signed it": { node: "n2", proof: "forged" },
  })
) {
  Deno.test(`a Lease whose holder ${what} is not followed, and is taken when it has ended`, async () => {
    const { nodes, pass, leader, lines, isFollowed, clock, taken, stop } = setUp(2, { members: ["n0", "n1", "n2"] });
    await pass(8_000);
    const forged = { ...claim, address: "rogue:1", certificate: "", durationMs: TIMING.leaseMs, transitions: 9 };
    const takeMs = clock.monotonic();
    lines.seize(forged);
    for (const node of nodes) node.restart("lost");
    await pass(6_000);
    for (const node of nodes) {
      assert.equal(node.election.role().kind, "alone");
      assert.deepEqual(node.problems, ["site-leader-refused"]);
    }
    await pass(15_000);
    assert.ok(leader() && isFollowed(), `${clock.monotonic() - takeMs} ms later`);
    assert.deepEqual(nodes.flatMap(({ problems }) => problems), []);
    const requests = Object.entries(taken());
    for (const [name, { read }] of requests) assert.ok(read! <= 4, `${name} reads the Lease ${read} times`);
    assert.ok(!JSON.stringify(requests).includes("rogue"));
    stop();
  });
}

Deno.test("a follower without an API server asks again after 30 s at most, and soon in each outage", async () => {
  const { nodes, pass, leader, requests, stop } = setUp(2);
  await pass(62_000);
  const cut = nodes.find((node) => node !== leader())!;
  const { followed } = cut.election;
  const asked = () => requests.splice(0).filter((request) => request.startsWith(cut.name)).length;
  for (const outage of ["first", "second"]) {
    cut.line.isCut = true;
    cut.election.followed = () => {};
    cut.election.lost();
    asked();
    while (asked() === 0) await pass(STEP_MS);
    // Each request lasts 10 s.
    await pass(45_000);
    const soon = asked();
    assert.ok(soon >= 3, `${soon} requests in 45 s of the ${outage} outage`);
    await pass(120_000);
    asked();
    await pass(600_000);
    const later = asked();
    assert.ok(later >= 15 && later <= 24, `${later} requests in 10 minutes of the ${outage} outage`);
    cut.line.isCut = false;
    cut.election.followed = followed;
    await pass(62_000);
    assert.equal(cut.election.role().kind, "follower");
  }
  stop();
});
