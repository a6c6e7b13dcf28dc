/** How many nodes of a site use the line when they start, and when their leader dies. */
import assert from "node:assert/strict";
import { createFakeClock } from "../../../fakes/clock.ts";
import {
  type ElectionNode,
  randomSequence,
  settleElections,
  startElectionNode,
  TIMING,
} from "../../../fakes/election_node.ts";
import { createLanHub } from "../../../fakes/lan_hub.ts";
import { createLeaseLines } from "../../../fakes/lease_line.ts";
import type { LeaseClient } from "../../../../sources/site/lease.ts";

const STEP_MS = 100;

/** A site of nodes with lines of which none loses anything, and a count of each node's requests. */
function setUp(count: number, { hasLan = true } = {}) {
  const clock = createFakeClock();
  const random = randomSequence(7);
  // Neither a long delay nor a loss.
  const lines = createLeaseLines(clock);
  const hub = hasLan ? createLanHub(clock, random) : undefined;
  const requests: string[] = [];
  const dead = new Set<string>();
  const nodes: ElectionNode[] = [];
  const start = (name: string) => {
    const line = lines.open(() => 0.1);
    const counted = <K extends keyof LeaseClient>(key: K): LeaseClient[K] =>
      ((...args: unknown[]) => {
        requests.push(`${name} ${key}`);
        return (line.client[key] as (...args: unknown[]) => unknown)(...args);
      }) as LeaseClient[K];
    const lease = { read: counted("read"), create: counted("create"), take: counted("take"), renew: counted("renew") };
    const node = Object.assign(startElectionNode(name, lease, { clock, random, hub }), { line });
    nodes.push(node);
    return node;
  };
  const started = Array.from({ length: count }, (_, index) => start(`n${index}`));
  /** Connections to leaders work while those live and lead. */
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= STEP_MS) {
      clock.advance(STEP_MS);
      await settleElections();
      for (const { name, election } of nodes) {
        const role = election.role();
        if (role.kind !== "follower" || dead.has(name)) continue;
        const leader = nodes.find(({ name }) => name === role.leader.node)!;
        if (dead.has(leader.name) || leader.election.role().kind !== "leader") election.lost();
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
  const isFollowed = () => living().every(({ election }) => ["leader", "follower"].includes(election.role().kind));
  const stop = () => nodes.forEach((node) => node.stop());
  const taken = () => requests.splice(0).filter((request) => !request.endsWith("renew"));
  return { clock, hub, lines, nodes: started, start, pass, kill, leader, living, isFollowed, taken, stop };
}

Deno.test("of 20 nodes that start at once, one uses the line", async () => {
  const { pass, leader, isFollowed, taken, stop } = setUp(20);
  await pass(7_000);
  assert.ok(leader() && isFollowed());
  assert.deepEqual(taken(), [`${leader()!.name} read`, `${leader()!.name} create`]);
  stop();
});

Deno.test("without answers on the LAN, every node uses the line as before", async () => {
  for (const site of [setUp(3, { hasLan: false }), setUp(3)]) {
    if (site.hub !== undefined) site.hub.isCut = true;
    await site.pass(20_000);
    assert.ok(site.leader() && site.isFollowed());
    assert.deepEqual(new Set(site.taken().map((request) => request.split(" ")[0])), new Set(["n0", "n1", "n2"]));
    site.stop();
  }
});

Deno.test("a node that starts later finds the leader without the line, also after the loss of its disk", async () => {
  const { nodes, start, pass, leader, taken, stop } = setUp(2);
  await pass(5_000);
  taken();
  const late = start("late");
  const follower = nodes.find((node) => node !== leader())!;
  follower.restart("lost");
  await pass(2_000);
  for (const { election } of [late, follower]) {
    assert.deepEqual(election.role(), {
      kind: "follower",
      isConfirmed: true,
      leader: { node: leader()!.name, address: `${leader()!.name}:12091`, certificate: "" },
    });
  }
  assert.deepEqual(taken(), []);
  stop();
});

Deno.test("one node reads the Lease of a dead leader before its end, and takes it with one write", async () => {
  const { clock, nodes, pass, kill, leader, living, taken, stop } = setUp(20);
  await pass(62_000);
  taken();
  kill(leader()!);
  const killedMs = clock.monotonic();
  while (leader() === undefined) await pass(STEP_MS);
  assert.ok(clock.monotonic() - killedMs <= TIMING.leaseMs + 1_500, "soon after the end of the Lease");
  await pass(3_000);
  const { name } = leader()!;
  assert.deepEqual(taken(), [`${name} read`, `${name} take`]);
  assert.deepEqual(living().map(({ election }) => election.role().kind).filter((kind) => kind === "leader").length, 1);
  assert.deepEqual(nodes.filter(({ standBys }) => standBys > 0).map((node) => node.name), [name]);
  stop();
});

Deno.test("if the node whose turn it is dies as well, another one takes over", async () => {
  const { nodes, pass, kill, leader, taken, stop } = setUp(5);
  await pass(62_000);
  taken();
  kill(leader()!);
  let next: ElectionNode | undefined;
  while (next === undefined) {
    await pass(STEP_MS);
    next = nodes.find(({ standBys }) => standBys > 0);
  }
  kill(next);
  await pass(25_000);
  assert.ok(leader());
  stop();
});

Deno.test("a leader that serves on but cannot renew its Lease is replaced by a node that reaches the API server", async () => {
  const { nodes, pass, leader, living, stop } = setUp(3);
  await pass(5_000);
  const former = nodes.find((node) => node === leader())!;
  former.line.isCut = true;
  // It closes its connections once, and accepts new ones.
  while (former.election.role().kind === "leader" && former.election.holds()) await pass(STEP_MS);
  for (const { election } of living()) election.lost();
  await pass(40_000);
  assert.ok(leader() && leader() !== former);
  stop();
});

Deno.test("a leader without its Lease tells a node that knows nobody where it is, but not as its leader", async () => {
  const { nodes, start, pass, leader, stop } = setUp(2);
  await pass(5_000);
  const { name } = leader()!;
  for (const { line } of nodes) line.isCut = true;
  await pass(60_000);
  const late = start("late");
  late.line.isCut = true;
  await pass(3_000);
  const role = late.election.role();
  assert.deepEqual(role.kind === "follower" && [role.leader.node, role.isConfirmed], [name, false]);
  stop();
});

Deno.test("a former leader that restarts follows its successor at once, or leads again without an API server", async () => {
  const { nodes, pass, leader, stop } = setUp(2);
  await pass(5_000);
  const former = nodes.find((node) => node === leader())!;
  former.stop();
  while (leader() === former || leader() === undefined) {
    for (const { election } of nodes) election.lost();
    await pass(STEP_MS);
  }
  former.restart();
  await pass(5_000);
  assert.deepEqual(former.roles, ["follower"]);
  const successor = leader()!;
  for (const { line } of nodes) line.isCut = true;
  for (const node of nodes) node.restart();
  await pass(2_000);
  assert.deepEqual([successor.roles, former.roles], [["leader"], ["follower"]]);
  stop();
});

Deno.test("while the API server is away, nobody is elected", async () => {
  const { nodes, pass, kill, leader, living, lines, stop } = setUp(4);
  await pass(5_000);
  const version = lines.current()?.version;
  for (const { line } of nodes) line.isCut = true;
  kill(leader()!);
  await pass(300_000);
  assert.equal(lines.current()?.version, version);
  assert.ok(living().every(({ election }) => election.role().kind === "follower"));
  stop();
});

Deno.test("after a power failure of the site one node reads the Lease for all that do not hold it", async () => {
  const { nodes, pass, leader, isFollowed, taken, stop } = setUp(10);
  await pass(62_000);
  taken();
  const holder = leader()!.name;
  for (const node of nodes) node.restart("lost");
  await pass(8_000);
  assert.ok(isFollowed());
  assert.equal(leader()!.name, holder);
  const used = new Set(taken().map((request) => request.split(" ")[0]));
  assert.ok(used.size <= 2, `the line was used by ${[...used]}`);
  stop();
});
