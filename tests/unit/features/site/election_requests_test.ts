/** One node of a site, and an API server that answers its requests in turn: what it sends when, and what it reports. */
import assert from "node:assert/strict";
import { ApiError, type ApiErrorKind } from "../../../../core/objects/mod.ts";
import { createElection } from "../../../../features/site/election.ts";
import type { Leader, LeaseRecord, LeaseWrite, Role } from "../../../../features/site/lease.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { settleElections, TIMING } from "../../../fakes/election_node.ts";
import { createLogger } from "../../../../platform/log.ts";

const FREE: LeaseRecord = {
  ...{ node: "", address: "", certificate: "", proof: "", durationMs: 0, transitions: 0, term: "", renewedMs: 0 },
  version: "1",
};
const OWN: Leader = { node: "n1", address: "n1:12091", certificate: "pem", proof: "n1" };
const OTHER: Leader = { node: "n0", address: "n0:12091", certificate: "pem", proof: "n0" };

/** Starts node n1 of n0 to n2. Every number that it draws is 0. */
function startNode(options: { readonly held?: LeaseRecord; readonly remembered?: Leader } = {}) {
  const clock = createFakeClock(), stop = new AbortController(), logged: string[] = [];
  const logger = createLogger({ level: "info", format: "text", clock, write: (line) => logged.push(line.slice(25)) });
  let remembered = options.remembered, version = 1;
  const requests: string[] = [], roles: Role[] = [], standBysMs: number[] = [];
  const problems: { current: readonly string[]; details: readonly string[] } = { current: [], details: [] };
  const server = {
    failure: undefined as ApiErrorKind | Error | undefined,
    failWrites: false,
    lease: options.held ?? FREE,
    /** The duration that somebody gives the Lease at its next renewal. */
    durationMs: 0,
    /** Whether the holder of the Lease, another node, renews it before each read. */
    isRenewed: false,
    self: OWN,
  };
  const answer = <T>(request: string, act: () => T): Promise<T> => {
    requests.push(`${clock.monotonic()} ${request}`);
    if (server.failWrites && request === "take") return Promise.reject(new ApiError("timeout", "it is late"));
    const { failure } = server;
    if (failure === undefined) return Promise.resolve(act());
    return Promise.reject(failure instanceof Error ? failure : new ApiError(failure, `it is ${failure}`));
  };
  const put = (write: LeaseWrite & Pick<LeaseRecord, "term" | "renewedMs">) =>
    server.lease = { ...write, version: String(++version) };
  const renewed = (durationMs = server.lease.durationMs) =>
    put({ ...server.lease, durationMs, renewedMs: clock.monotonic() });
  const election = createElection({
    node: "n1",
    lease: {
      read: () => answer("read", () => server.isRenewed ? renewed() : server.lease),
      members: () => answer("members", () => ["n0", "n1", "n2"]),
      take: (_, write) => answer("take", () => put({ ...write, term: "1", renewedMs: clock.monotonic() })),
      renew: () =>
        answer("renew", () => {
          const durationMs = server.durationMs || undefined;
          server.durationMs = 0;
          return renewed(durationMs);
        }),
    },
    memory: { leader: () => remembered, remember: (leader) => void (remembered = leader) },
    self: () => Promise.resolve(server.self),
    isProven: ({ node, proof }) => Promise.resolve(node === proof),
    timing: TIMING,
    onRole: (role) => roles.push(role),
    onStandBy: () => standBysMs.push(clock.monotonic()),
    onMembers() {},
    onProblems(_, list) {
      problems.current = list.map(({ code }) => code);
      problems.details = list.map(({ subject, detail }) => `${subject}: ${detail}`);
    },
    clock,
    logger,
    random: () => 0,
  });
  void election.run(stop.signal);
  /** Passes time in small steps; returns the requests since the last call, each with its time. */
  const pass = async (ms: number): Promise<string[]> => {
    for (let left = ms; left > 0; left -= 100) {
      await settleElections();
      clock.advance(100);
    }
    await settleElections();
    return requests.splice(0);
  };
  return { clock, election, pass, roles, standBysMs, problems, server, logged, stop: () => stop.abort() };
}

/** The Lease as another node holds it. */
function heldBy(leader: Leader, changes: Partial<LeaseRecord> = {}): LeaseRecord {
  return { ...FREE, ...leader, durationMs: TIMING.leaseMs, transitions: 3, term: "before", ...changes };
}

/** The requests without their times. */
const kinds = (requests: readonly string[]) => requests.map((request) => request.split(" ")[1]);

Deno.test("a leader takes the Lease once and then renews it, on time", async () => {
  const node = startNode();
  // Without a holder, it may be the turn of another node, which gets some time.
  assert.deepEqual(await node.pass(4_000), ["0 members", "0 read", "2000 read", "2000 take"]);
  assert.deepEqual(await node.pass(8_000), ["6000 renew", "10000 renew"]);
  assert.deepEqual(node.roles, [{ kind: "leader", isConfirmed: true }]);
  assert.equal(node.election.transitions(), 0, "a Lease that was never held has no term");
  node.stop();
});

Deno.test("a leader reads the members of its site once a minute", async () => {
  const node = startNode();
  await node.pass(59_000);
  assert.deepEqual((await node.pass(60_000)).filter((request) => request.endsWith("members")), ["62000 members"]);
  node.stop();
});

for (
  const [what, changes] of [
    ["address", { address: "n1:9" }],
    ["certificate", { certificate: "new" }],
  ] as const
) {
  Deno.test(`a leader whose ${what} has changed takes the Lease again, in the same count of leaders`, async () => {
    const node = startNode();
    await node.pass(4_000);
    node.server.self = { ...OWN, ...changes };
    assert.deepEqual(await node.pass(8_000), ["6000 take", "10000 renew"]);
    assert.equal(node.election.transitions(), 0);
    node.stop();
  });
}

Deno.test("a process takes the Lease that an earlier one of its node holds before it renews it", async () => {
  const node = startNode({ held: heldBy(OWN), remembered: OWN });
  assert.deepEqual(kinds(await node.pass(6_000)), ["members", "read", "take", "renew"]);
  assert.equal(node.election.transitions(), 3);
  node.stop();
});

Deno.test("a leader takes a Lease of another duration again", async () => {
  const node = startNode();
  await node.pass(4_000);
  node.server.durationMs = 60_000;
  assert.deepEqual(await node.pass(8_000), ["6000 renew", "10000 take"]);
  node.stop();
});

Deno.test("a leader without the API server keeps the Lease until its end, and says before that it is not confirmed", async () => {
  const node = startNode();
  await node.pass(4_000);
  node.server.failure = "unreachable";
  // Renewed at 2 s, for 10 s.
  await node.pass(4_400);
  assert.deepEqual(node.roles.at(-1), { kind: "leader", isConfirmed: true });
  await node.pass(2_000);
  assert.deepEqual(node.roles.at(-1), { kind: "leader", isConfirmed: false });
  assert.ok(node.election.holds(), "nobody else can have it");
  assert.deepEqual(
    new Set(kinds(await node.pass(2_000))),
    new Set(["renew"]),
    "it may still hold the Lease that it knows",
  );
  assert.ok(!node.election.holds());
  node.server.failure = undefined;
  await node.pass(5_000);
  assert.deepEqual(node.roles.at(-1), { kind: "leader", isConfirmed: true });
  node.stop();
});

Deno.test("a failure is logged once, and again after a success", async () => {
  const node = startNode();
  await node.pass(4_000);
  const warnings = () => node.logged.splice(0).filter((line) => line.startsWith("WARN"));
  for (let time = 0; time < 2; time++) {
    node.server.failure = "unreachable";
    await node.pass(20_000);
    assert.deepEqual(warnings().map((line) => line.replace(/^\S+ +/, "")), [
      'cannot write the Lease of the site error="it is unreachable"\n',
    ]);
    node.server.failure = undefined;
    await node.pass(20_000);
  }
  assert.deepEqual(warnings(), []);
  node.stop();
});

Deno.test("a leader that the API server refuses has a problem, one that it does not reach has none of its own", async () => {
  const node = startNode();
  await node.pass(4_000);
  node.server.failure = "unreachable";
  await node.pass(4_000);
  assert.deepEqual(node.problems.current, []);
  node.server.failure = "forbidden";
  await node.pass(10_000);
  assert.deepEqual(node.problems.current, ["site-lease-refused"]);
  assert.deepEqual(node.problems.details, [
    "the Lease of the site: cannot write the Lease of the site: it is forbidden",
  ]);
  assert.equal(node.roles.at(-1)!.kind, "leader");
  node.server.failure = undefined;
  await node.pass(10_000);
  assert.deepEqual(node.problems.current, []);
  node.stop();
});

Deno.test("an answer and a fault of the node's own certificates are refusals of the Lease, a silent server is none", async () => {
  const subject = "the Lease of the site: cannot read the Lease of the site";
  for (const failure of ["unauthorized", "forbidden", "not-found", new Error("no such key")] as const) {
    const node = startNode();
    node.server.failure = failure;
    await node.pass(4_000);
    assert.deepEqual(node.problems.current, ["site-lease-refused"]);
    assert.deepEqual(node.problems.details, [
      `${subject}: ${failure instanceof Error ? failure.message : `it is ${failure}`}`,
    ]);
    assert.deepEqual(node.roles, [{ kind: "alone" }]);
    node.stop();
  }
  for (const failure of ["unreachable", "timeout"] as const) {
    const node = startNode({ remembered: OTHER });
    node.server.failure = failure;
    await node.pass(4_000);
    assert.deepEqual(node.problems.current, []);
    assert.deepEqual(node.roles, [{ kind: "follower", leader: OTHER, isConfirmed: false }]);
    node.stop();
  }
});

Deno.test("a node that is refused takes no part, and says so once", async () => {
  const node = startNode();
  node.server.failure = "forbidden";
  await node.pass(120_000);
  assert.deepEqual(node.roles, [{ kind: "alone" }]);
  assert.equal(node.logged.filter((line) => line.includes("this node takes no part in its site")).length, 1);
  node.stop();
});

Deno.test("the first retry comes soon, later ones more rarely, and after a success soon again", async () => {
  const node = startNode();
  const retriesMs = async () => {
    node.server.failure = "unreachable";
    const sentMs = (await node.pass(60_000)).map((request) => Number(request.split(" ")[0]));
    node.server.failure = undefined;
    await node.pass(60_000);
    return sentMs.slice(1).map((ms, i) => ms - sentMs[i]!);
  };
  const asNewcomer = await retriesMs();
  assert.ok(asNewcomer[0]! < asNewcomer.at(-1)!, asNewcomer.join());
  const asLeader = await retriesMs();
  assert.ok(asLeader[0]! < asLeader.at(-1)! && asLeader.at(-1)! < asNewcomer.at(-1)!, asLeader.join());
  assert.deepEqual((await retriesMs()).slice(0, 4), asLeader.slice(0, 4));
  node.stop();
});

Deno.test("the successor of a lost leader prepares before the end of its Lease, and takes it then", async () => {
  const node = startNode({ held: heldBy(OTHER) });
  await node.pass(1_000);
  assert.deepEqual(node.roles, [{ kind: "follower", leader: OTHER, isConfirmed: true }]);
  node.election.followed();
  node.election.lost();
  const requests = await node.pass(12_000);
  const [takeMs] = requests.flatMap((request) => request.endsWith("take") ? [Number(request.split(" ")[0])] : []);
  assert.equal(node.standBysMs.length, 1);
  const earlierMs = takeMs! - node.standBysMs[0]!;
  assert.ok(Math.abs(earlierMs - TIMING.leaseMs / 3) <= 100, `${earlierMs} ms before`);
  assert.equal(node.election.transitions(), 4);
  node.stop();
});

Deno.test("an answer of a leader that was not lost changes nothing", async () => {
  const node = startNode({ held: heldBy(OTHER) });
  await node.pass(1_000);
  for (let answer = 0; answer < 5; answer++) {
    node.election.followed();
    assert.deepEqual(await node.pass(1_000), []);
  }
  node.stop();
});

for (const [holder, held] of [["nobody", FREE], ["another node", heldBy(OTHER, { durationMs: 1_000 })]] as const) {
  Deno.test(`a node that cannot take a Lease of ${holder} reads it before each of ever rarer tries, and warns once`, async () => {
    const node = startNode({ held });
    await node.pass(500);
    node.election.followed();
    node.election.lost();
    node.server.failWrites = true;
    const requests = (await node.pass(120_000)).map((request) => request.split(" "));
    const takes = requests.flatMap(([ms, kind], i) => kind === "take" ? [{ atMs: Number(ms), i }] : []);
    assert.ok(takes.length > 2);
    for (const { i } of takes) assert.equal(requests[i - 1]![1], "read");
    const pausesMs = takes.slice(1).map(({ atMs }, i) => atMs - takes[i]!.atMs);
    assert.ok(pausesMs[0]! < 5_000 && pausesMs.at(-1)! >= 15_000, pausesMs.join());
    assert.equal(node.logged.filter((line) => line.startsWith("WARN")).length, 1);
    node.stop();
  });
}

Deno.test("a follower that cannot reach a living leader reads the Lease when it would have ended, then ever later", async () => {
  const node = startNode({ held: heldBy({ ...OTHER, node: "n2", proof: "n2" }) });
  node.server.isRenewed = true;
  await node.pass(1_000);
  node.election.followed();
  node.election.lost();
  const reads = (await node.pass(120_000)).filter((request) => request.endsWith("read")).map(parseFloat);
  const pausesMs = reads.slice(1).map((ms, i) => ms - reads[i]!);
  // The Lease lasts 10 s, and a second is for its successor.
  assert.deepEqual(pausesMs, [11_000, 11_000, 21_000, 31_000]);
  node.stop();
});

Deno.test("in each election, a node waits for the one whose turn it is", async () => {
  const node = startNode();
  const takesMs = async (ms: number) =>
    (await node.pass(ms)).filter((request) => request.endsWith("take")).map(parseFloat);
  // n0 takes the Lease while n1 waits for that.
  assert.deepEqual(await takesMs(1_000), []);
  node.server.lease = heldBy(OTHER, { version: "taken" });
  assert.deepEqual(await takesMs(3_000), []);
  node.server.lease = heldBy({ ...OTHER, node: "n2", proof: "n2" }, { version: "next" });
  node.election.lost();
  assert.deepEqual(await takesMs(20_000), [], "the new holder is followed");
  node.election.followed();
  const lostMs = node.clock.monotonic();
  node.election.lost();
  const [takeMs] = await takesMs(60_000);
  assert.equal(takeMs! - lostMs, 13_500, "the Lease, the time to see it taken, and the wait for n0");
  node.stop();
});
