import assert from "node:assert/strict";
import type { SyncReport } from "../../../../core/model/mod.ts";
import type { PathExamination, PathFinding } from "../../../../features/canary/path_findings.ts";
import type { NodeFamily } from "../../../../features/contract.ts";
import type { InternalService } from "../../../../core/planning/mod.ts";
import type { Problem } from "../../../../core/problems/mod.ts";
import { createCanary } from "../../../../features/canary/canary.ts";
import { tryCanary } from "../../../../features/canary/probe.ts";
import { type Family, joinHostPort } from "../../../../platform/mod.ts";
import { sleep } from "../../../../platform/clock.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { featureNode } from "../../../fakes/feature_node.ts";

const NODE = "192.0.2.10";

/** How the kernel treats a connection to the canary. */
type Treatment = "delivered" | "dropped" | "refused" | "answered by another" | `without route: ${string}`;

/** A canary whose network and worker a test controls; it changes them in `t`. */
type Harness = ReturnType<typeof createHarness>;

async function setUp(test: (t: Harness) => Promise<void>, at: Partial<Surroundings> = {}): Promise<void> {
  const randomUUID = crypto.randomUUID;
  const harness = createHarness({ family: "IPv4", range: "169.254.238.0/28", ...at });
  try {
    await test(harness);
  } finally {
    harness.stop();
    crypto.randomUUID = randomUUID;
  }
}

/** Where a canary is placed. */
interface Surroundings {
  readonly family: Family;
  /** The range of its addresses. */
  readonly range: string;
}

function createHarness({ family, range }: Surroundings) {
  const clock = createFakeClock(undefined, promisesSettled);
  const end = new AbortController();
  const plans: (InternalService | undefined)[] = [];
  /** The states reported, and how often it was `waiting`. */
  const states: string[] = [], waits: string[] = [];
  const problems: Problem[][] = [];
  let onEffect = () => {};
  let answer = "";
  const t = {
    clock,
    plans,
    states,
    waits,
    problems,
    treatment: "delivered" as Treatment,
    findings: [] as readonly PathFinding[],
    comparisons: 0,
    /** The number of responders that were closed. */
    closed: 0,
    /** Whether the worker takes long to examine the kernel. */
    isSlow: false,
    /** The time that the worker takes to list the chains of other programs. */
    listingMs: 0,
    examinations: [] as string[],
    own: [NODE],
    /** The addresses from which clients connect to the responder, and those that it has answered. */
    clients: [] as string[],
    answered: [] as string[],
    inEffect: () => onEffect(),
  };
  const listen = (hostname: string) => ({
    addr: { transport: "tcp", hostname, port: 4711 },
    accept() {
      const client = t.clients.shift();
      if (client === undefined) return Promise.reject(new Deno.errors.BadResource());
      const write = (bytes: Uint8Array) => {
        t.answered.push(client);
        return Promise.resolve(bytes.length);
      };
      return Promise.resolve({ remoteAddr: { hostname: client }, write, close() {} });
    },
    close: () => void t.closed++,
  } as unknown as Deno.TcpListener);
  const served = {
    family,
    serveInternal(plan: InternalService | undefined, effect: () => void) {
      plans.push(plan);
      onEffect = effect;
    },
    compare: () => void t.comparisons++,
    async call(_call: unknown, what: PathExamination) {
      t.examinations.push(what);
      if (t.isSlow) return await new Promise(() => {});
      if (t.listingMs > 0 && what === "everything") await sleep(clock, t.listingMs);
      const isSeen = ({ cause }: PathFinding) => what === "everything" || cause !== "foreign-chain";
      return t.findings.filter((finding) => isSeen(finding) && (what === "everything" || finding.certain));
    },
  } as unknown as NodeFamily;
  const canary = createCanary({
    served,
    node: featureNode({
      tracking: undefined as never,
      ownAddresses: () => t.own,
      reportProblems: (_scope, list) => void problems.push([...list]),
      clock,
      signal: end.signal,
    }),
    range,
    options: { intervalMs: 2000, timeoutMs: 1000 },
    onChange({ state, cause }) {
      if (state !== "waiting") states.push(cause === undefined ? state : `${state} ${cause}`);
      else waits.push(state);
    },
    network: { listen, connect },
  });
  function connect({ signal }: { readonly signal: AbortSignal }) {
    const rejection = new Promise<never>((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
    if (t.treatment === "refused") return Promise.reject(new Deno.errors.ConnectionRefused("refused"));
    if (t.treatment.startsWith("without route: ")) {
      return Promise.reject(Object.assign(new Error("no route"), { code: t.treatment.slice(15) }));
    }
    if (t.treatment === "dropped") return rejection;
    const bytes = new TextEncoder().encode(t.treatment === "delivered" ? answer : "220 smtp");
    let sent = 0;
    return Promise.resolve({
      read(into: Uint8Array) {
        const piece = bytes.subarray(sent, sent + into.length);
        into.set(piece);
        sent += piece.length;
        return Promise.resolve(piece.length === 0 ? null : piece.length);
      },
      close() {},
    });
  }
  const randomUUID = crypto.randomUUID;
  crypto.randomUUID = () => {
    const nonce = randomUUID.call(crypto);
    answer = nonce;
    return nonce;
  };
  const place = async () => {
    canary.place(NODE);
    onEffect();
    await clock.advanceSettled(0);
  };
  return { ...t, t, canary, place, status: () => canary.status()!, stop: () => end.abort() };
}

const REPORT: SyncReport = {
  ...{ family: "IPv4", revision: 1, ok: true, full: true, endedAtMs: 0, durationMs: 1, problems: [], counts: {} },
};

Deno.test("a canary is served at the first free address of its range, and tried once its rules are in effect", () =>
  setUp(async ({ canary, clock, plans, t, inEffect, status, waits }) => {
    t.own.push("169.254.238.1");
    canary.place(NODE);
    await clock.advanceSettled(10_000);
    assert.deepEqual(plans, [{ address: "169.254.238.2", target: `${NODE}:4711` }]);
    assert.deepEqual([status().state, status().tries], ["waiting", 0]);
    assert.equal(waits.length, 1, "nothing is known about its packets yet");
    inEffect();
    await clock.advanceSettled(0);
    assert.deepEqual([status().state, status().address, status().tries], ["answering", "169.254.238.2:10260", 1]);
    await clock.advanceSettled(6000);
    assert.equal(status().tries, 4);
  }));

Deno.test("dropped packets turn it red within 5 s of the drop, whenever that begins", async () => {
  for (const phaseMs of [1, 500, 1500, 1999]) {
    await setUp(async ({ clock, place, t, status }) => {
      await place();
      await clock.advanceSettled(phaseMs);
      t.treatment = "dropped";
      await clock.advanceSettled(4999 - 1000);
      assert.equal(status().state, "failing", `${phaseMs} ms after an answer`);
    });
  }
});

Deno.test("one failed try does not turn it red", () =>
  setUp(async ({ clock, place, t, states, status, problems }) => {
    await place();
    t.treatment = "dropped";
    await clock.advanceSettled(2500);
    t.treatment = "delivered";
    await clock.advanceSettled(10_000);
    assert.deepEqual(states, ["answering"]);
    assert.deepEqual(problems.flat(), []);
    assert.deepEqual(status().failures, { unknown: 1 });
  }));

Deno.test("red at once, it compares with the kernel, names what that repaired, and is tried again at once", () =>
  setUp(async ({ canary, clock, place, t, states, status, problems }) => {
    await place();
    t.treatment = "refused";
    await clock.advanceSettled(3001);
    assert.deepEqual(states.slice(1), ["failing unknown"]);
    assert.equal(t.comparisons, 1);
    t.treatment = "delivered";
    canary.reported({ ...REPORT, counts: { drift_repaired: 3 } });
    await clock.advanceSettled(0);
    assert.deepEqual(states.slice(1), ["failing unknown", "failing rules-changed", "answering"]);
    assert.match(problems.flat()[0]!.detail, /does not answer \(refused\): 3 changes of services' rules by other/);
    assert.deepEqual(problems.at(-1), []);
    assert.deepEqual(status().failures, { "rules-changed": 2 });
  }));

Deno.test("a comparison that has repaired the rules before the second try names the cause as well", () =>
  setUp(async ({ canary, clock, place, t, states }) => {
    await place();
    t.treatment = "dropped";
    await clock.advanceSettled(3500);
    canary.reported({ ...REPORT, counts: { drift_repaired: 17 } });
    await clock.advanceSettled(600);
    canary.reported(REPORT);
    await clock.advanceSettled(0);
    assert.equal(states.at(-1), "failing rules-changed");
  }));

Deno.test("a comparison that takes long names the cause late", () =>
  setUp(async ({ canary, clock, place, t, states }) => {
    await place();
    t.treatment = "dropped";
    await clock.advanceSettled(6000);
    assert.deepEqual(states.slice(1), ["failing unknown", "failing unknown"]);
    canary.reported({ ...REPORT, counts: { drift_repaired: 1 } });
    assert.equal(states.at(-1), "failing rules-changed");
  }));

Deno.test("a comparison that has repaired nothing leaves a certain cause, and one after an answer no cause", () =>
  setUp(async ({ canary, clock, place, t, states }) => {
    await place();
    t.treatment = "dropped";
    await clock.advanceSettled(6000);
    t.treatment = "delivered";
    t.findings = [OFF];
    await clock.advanceSettled(3000);
    assert.equal(states.at(-1), "failing forwarding-off");
    canary.reported(REPORT);
    assert.equal(states.at(-1), "failing forwarding-off");
    t.findings = [];
    await clock.advanceSettled(12_000);
    assert.equal(states.at(-1), "answering");
    canary.reported({ ...REPORT, counts: { drift_repaired: 1 } });
    assert.equal(states.at(-1), "answering");
  }));

/** Packets are refused, and comparisons take `durationMs` and change nothing; resolves with their number in 20 s of failure. */
async function comparisonsIn20s(
  { canary, clock, place, t }: Harness,
  durationMs: number,
  findings: readonly PathFinding[],
): Promise<number> {
  await place();
  t.treatment = "refused";
  t.findings = findings;
  await clock.advanceSettled(3001);
  const before = t.comparisons;
  let reported = 0;
  for (let ms = 0; ms < 20_000; ms += 100) {
    if (t.comparisons > reported) {
      await clock.advanceSettled(durationMs);
      ms += durationMs;
      reported++;
      canary.reported({ ...REPORT, durationMs });
    }
    await clock.advanceSettled(100);
  }
  return t.comparisons - before;
}

Deno.test("comparisons are repeated while packets do not flow, whatever is suspected, unless the cause is certain", async () => {
  for (const [findings, expected] of [[[], 10], [[FOREIGN], 10], [[OFF], 0]] as const) {
    await setUp(async (t) => {
      const repeated = await comparisonsIn20s(t, 0, findings);
      assert.ok(Math.abs(repeated - expected) <= 1, `${repeated} comparisons in 20 s`);
    });
  }
});

Deno.test("repeated comparisons take a tenth of the time, and never overlap", async () => {
  await setUp(async (t) => {
    assert.equal(await comparisonsIn20s(t, 600, []), 2);
  });
  await setUp(async ({ clock, place, t }) => {
    await place();
    t.treatment = "refused";
    await clock.advanceSettled(60_000);
    assert.equal(t.comparisons, 1);
  });
});

Deno.test("comparisons are repeated on a node that is too slow to examine everything in time", () =>
  setUp(async (t) => {
    t.t.isSlow = true;
    const repeated = await comparisonsIn20s(t, 0, []);
    assert.ok(repeated >= 5, `${repeated} comparisons in 20 s`);
  }));

const FOREIGN: PathFinding = { cause: "foreign-chain", detail: "chain x drops", certain: false };
const FULL: PathFinding = { cause: "table-full", detail: "the table is full", certain: false };
const BLOCKED: PathFinding = { cause: "foreign-chain", detail: "chain x drops all", certain: true };
const OFF: PathFinding = { cause: "forwarding-off", detail: "ip_forward is 0", certain: true };

Deno.test("the likeliest finding becomes the cause, and every finding of it a detail", () =>
  setUp(async ({ canary, clock, place, t, problems, status }) => {
    await place();
    t.treatment = "dropped";
    t.findings = [FOREIGN, { ...FOREIGN, detail: "chain y drops" }];
    await clock.advanceSettled(4001);
    canary.reported(REPORT);
    await clock.advanceSettled(0);
    assert.equal(status().cause, "foreign-chain");
    assert.match(problems.flat().at(-1)!.detail, /; suspected: chain x drops; chain y drops$/);
    t.findings = [FULL, FOREIGN];
    await clock.advanceSettled(20_000);
    assert.equal(status().cause, "table-full");
    assert.match(problems.flat().at(-1)!.detail, /; the table is full$/);
  }));

Deno.test("a certain finding turns it red although it answers, until it has answered for 5 s without the finding", () =>
  setUp(async ({ clock, place, t, status, problems }) => {
    await place();
    t.findings = [OFF];
    await clock.advanceSettled(2000);
    assert.deepEqual([status().state, status().cause], ["failing", "forwarding-off"]);
    assert.equal(problems.flat().at(-1)!.detail, "ip_forward is 0");
    t.findings = [FOREIGN];
    await clock.advanceSettled(6000);
    assert.deepEqual([status().state, status().cause], ["failing", "forwarding-off"]);
    await clock.advanceSettled(2000);
    assert.equal(status().state, "answering");
    assert.deepEqual(problems.at(-1), []);
  }));

Deno.test("a chain that certainly drops keeps it red between the listings, and while the worker does not answer", () =>
  setUp(async ({ clock, place, t, states, status }) => {
    await place();
    t.findings = [BLOCKED];
    await clock.advanceSettled(60_000);
    assert.deepEqual(states, ["answering", "failing foreign-chain"]);
    t.isSlow = true;
    t.findings = [];
    await clock.advanceSettled(60_000);
    assert.equal(status().state, "failing", "nothing says that the chain is gone");
    t.isSlow = false;
    await clock.advanceSettled(8000);
    assert.deepEqual(states, ["answering", "failing foreign-chain", "answering"]);
  }));

Deno.test("a certain cause outlasts single answers of a canary that fails as well", () =>
  setUp(async ({ clock, place, t, states }) => {
    await place();
    t.findings = [BLOCKED];
    for (let i = 0; i < 10; i++) {
      t.treatment = "dropped";
      await clock.advanceSettled(4000);
      t.findings = [];
      t.treatment = "delivered";
      await clock.advanceSettled(4000);
    }
    assert.deepEqual(states.filter((state) => state === "answering").length, 1);
  }));

Deno.test("a try takes no account of the time in which this process stood still", async () => {
  const clock = createFakeClock(undefined, promisesSettled), stillMs = 3000;
  const stopped: typeof clock = {
    ...clock,
    schedule: (delayMs, callback) => clock.schedule(Math.max(delayMs, stillMs - clock.monotonic()), callback),
  };
  for (const [answersAfterMs, expected] of [[stillMs + 50, "answered"], [Infinity, "failed"]] as const) {
    const outcome = tryCanary("192.0.2.1:1", "", 1000, stopped, ({ signal }) =>
      new Promise((resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        if (answersAfterMs < Infinity) {
          clock.schedule(answersAfterMs, () => resolve({ read: () => Promise.resolve(null), close() {} }));
        }
      }));
    await clock.advanceSettled(stillMs + 1000);
    assert.equal((await outcome).kind, expected);
  }
});

Deno.test("an answer says how long it took", async () => {
  const clock = createFakeClock(undefined, promisesSettled);
  clock.advance(5_000);
  const outcome = tryCanary("192.0.2.1:1", "", 1000, clock, () =>
    new Promise((resolve) => {
      clock.schedule(30, () => resolve({ read: () => Promise.resolve(null), close() {} }));
    }));
  await clock.advanceSettled(30);
  assert.deepEqual(await outcome, { kind: "answered", durationMs: 30 });
});

Deno.test("another program's answer is no answer", () =>
  setUp(async ({ clock, place, t, status }) => {
    await place();
    t.treatment = "answered by another";
    await clock.advanceSettled(4000);
    assert.deepEqual([status().state, status().cause], ["failing", "foreign-answer"]);
  }));

Deno.test("without a route it is unusable and not red, unless it has answered before", () =>
  setUp(async ({ clock, place, t, status, problems }) => {
    t.treatment = "without route: ENETUNREACH";
    await place();
    await clock.advanceSettled(10_000);
    assert.equal(status().state, "unusable");
    assert.deepEqual(problems.flat().map(({ code }) => code), ["canary-unusable"]);
    t.treatment = "delivered";
    await clock.advanceSettled(2000);
    assert.equal(status().state, "answering");
    assert.deepEqual(problems.at(-1), []);
    t.treatment = "without route: ENETUNREACH";
    await clock.advanceSettled(5000);
    assert.deepEqual([status().state, status().cause], ["failing", "no-route"]);
  }));

Deno.test("a host without an address of the family has an unusable canary, which no rule serves, until it has one", () =>
  setUp(async ({ canary, clock, t, plans, problems, inEffect, status }) => {
    t.own.length = 0;
    canary.place(NODE);
    await clock.advanceSettled(0);
    assert.equal(plans.length, 0);
    assert.equal(status().state, "unusable");
    t.own.push("192.0.2.11");
    await clock.advanceSettled(5000);
    assert.deepEqual(plans, [{ address: "169.254.238.1", target: "192.0.2.11:4711" }]);
    inEffect();
    await clock.advanceSettled(0);
    assert.equal(status().state, "answering");
    assert.deepEqual(problems.at(-1), []);
  }));

const RESPONDERS: readonly (readonly [string, Family, string, readonly string[], string])[] = [
  ["the node's", "IPv4", NODE, ["192.0.2.9", NODE], NODE],
  ["another one of the host if it has not the node's", "IPv4", NODE, ["192.0.2.9", "192.0.2.8"], "192.0.2.9"],
  ["none of the loopback interface", "IPv4", NODE, ["127.0.0.1", "192.0.2.9"], "192.0.2.9"],
  ["none of the other family", "IPv4", NODE, ["2001:db8::1", "192.0.2.9"], "192.0.2.9"],
  ["no link-local one", "IPv6", "2001:db8::2", ["::1", "fe80::1", "2001:db8::1"], "2001:db8::1"],
];

for (const [name, family, nodeIP, own, expected] of RESPONDERS) {
  Deno.test(`the responder's address in ${family}: ${name}`, () =>
    setUp(({ canary, t, plans }) => {
      t.own.splice(0, Infinity, ...own);
      canary.place(nodeIP);
      assert.deepEqual(plans.map((plan) => plan!.target), [joinHostPort(expected, 4711)]);
      return Promise.resolve();
    }, family === "IPv4" ? {} : { family, range: "fd00:5:1::/64" }));
}

Deno.test("the responder answers this host and the canary's own address, and nobody else", () =>
  setUp(async ({ place, t }) => {
    t.clients.push("169.254.238.1", "198.51.100.1", NODE, "169.254.238.2");
    await place();
    assert.deepEqual(t.answered, ["169.254.238.1", NODE]);
  }));

Deno.test("of a large range, the first 64 addresses are tried", async () => {
  for (const taken of [63, 64]) {
    await setUp(({ canary, t, plans, status }) => {
      t.own.push(...Array.from({ length: taken }, (_, i) => `169.254.238.${i + 1}`));
      canary.place(NODE);
      assert.deepEqual(plans.map((plan) => plan!.address), taken === 63 ? ["169.254.238.64"] : []);
      if (taken === 64) assert.equal(status().state, "unusable");
      return Promise.resolve();
    }, { range: "169.254.238.0/24" });
  }
});

Deno.test("a canary that cannot be placed is not tried again once its family has no services", () =>
  setUp(async ({ canary, clock, t, plans }) => {
    t.own.length = 0;
    canary.place(NODE);
    canary.place(undefined);
    t.own.push(NODE);
    await clock.advanceSettled(10_000);
    assert.deepEqual(plans, [undefined]);
  }));

Deno.test("each failure is compared with the kernel at once, however long or recent an earlier comparison was", () =>
  setUp(async ({ canary, clock, place, t }) => {
    await place();
    canary.reported({ ...REPORT, durationMs: 60_000 });
    for (const comparisons of [1, 2]) {
      t.treatment = "refused";
      await clock.advanceSettled(4000);
      assert.equal(t.comparisons, comparisons);
      t.treatment = "delivered";
      await clock.advanceSettled(4000);
    }
  }));

Deno.test("what a comparison repaired before the last answer is not the cause", () =>
  setUp(async ({ canary, clock, place, t, states }) => {
    await place();
    canary.reported({ ...REPORT, counts: { drift_repaired: 3 } });
    await clock.advanceSettled(4000);
    t.treatment = "refused";
    await clock.advanceSettled(4000);
    canary.reported(REPORT);
    await clock.advanceSettled(0);
    assert.deepEqual(states.filter((state) => state.includes("rules-changed")), []);
    assert.ok(states.at(-1)!.startsWith("failing"));
  }));

Deno.test("a family without services has no canary", () =>
  setUp(async ({ canary, clock, place, plans, t }) => {
    await place();
    canary.place(undefined);
    assert.deepEqual(plans.at(-1), undefined);
    assert.deepEqual([canary.status(), t.closed], [undefined, 1]);
    const before = t.examinations.length;
    await clock.advanceSettled(60_000);
    assert.equal(t.examinations.length, before);
  }));

Deno.test("the chains of other programs are listed every few seconds, the settings at every try", () =>
  setUp(async ({ clock, place, t }) => {
    await place();
    await clock.advanceSettled(8000);
    assert.deepEqual(t.examinations, ["everything", "settings", "everything", "settings", "everything"]);
  }));

Deno.test("slow listings of the chains take a twentieth of the time, and pause for 10 s at most", async () => {
  for (const [listingMs, pauseMs] of [[300, 6000], [800, 10_000]] as const) {
    await setUp(async ({ clock, place, t }) => {
      t.listingMs = listingMs;
      await place();
      await clock.advanceSettled(pauseMs - 1000);
      assert.equal(t.examinations.lastIndexOf("everything"), 0, `${listingMs} ms`);
      await clock.advanceSettled(1000);
      assert.equal(t.examinations.lastIndexOf("everything"), pauseMs / 2000, `${listingMs} ms`);
    });
  }
});

Deno.test("nothing runs or is reported after its end", () =>
  setUp(async ({ clock, place, stop, t, problems }) => {
    await place();
    t.treatment = "refused";
    await clock.advanceSettled(4000);
    const before = problems.length;
    stop();
    await clock.advanceSettled(0);
    assert.deepEqual(clock.pending(), []);
    assert.equal(problems.length, before);
  }));

Deno.test("a canary that the routes of this node exclude is unusable", async () => {
  // No address to send from, and routes of the types blackhole and prohibit.
  for (const code of ["EADDRNOTAVAIL", "EINVAL", "EACCES"]) {
    await setUp(async ({ place, status, states, t }) => {
      t.treatment = `without route: ${code}`;
      await place();
      assert.deepEqual(states, ["unusable"]);
      assert.equal(status().state, "unusable");
    });
  }
});

Deno.test("a canary moves with the addresses of this host, without a failure", () =>
  setUp(async ({ clock, place, plans, states, inEffect, t }) => {
    await place();
    const moves: readonly (readonly [own: string[], plan: InternalService])[] = [
      [["192.0.2.11"], { address: "169.254.238.1", target: "192.0.2.11:4711" }],
      [["192.0.2.11", "169.254.238.1"], { address: "169.254.238.2", target: "192.0.2.11:4711" }],
    ];
    for (const [own, plan] of moves) {
      t.own.splice(0, t.own.length, ...own);
      t.treatment = "refused";
      await clock.advanceSettled(2000);
      assert.deepEqual(plans.at(-1), plan);
      t.treatment = "delivered";
      inEffect();
      await clock.advanceSettled(2000);
    }
    assert.deepEqual(states, ["answering", "answering", "answering"]);
  }));
