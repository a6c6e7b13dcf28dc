import assert from "node:assert/strict";
import { type ServicePort, type ServicePortKey, servicePortKey } from "../../../../core/model/mod.ts";
import { createConntrackCleaner, createUnansweredCleaner } from "../../../../backends/host/conntrack.ts";
import type { Runner, ToolResult } from "../../../../backends/tools/runner.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { createConntrackTool } from "../../../fakes/iptables/conntrack_tool.ts";
import { fakeServicePort } from "../../../fakes/service_port.ts";

const DNS = fakeServicePort("default/dns", { protocol: "udp", port: 53 });
const OTHER = fakeServicePort("default/other", { protocol: "udp", port: 53, clusterIP: "10.96.0.20" });

/** A service port with these pods as endpoints. */
const withPods = (pods: readonly string[], port = DNS) => (
  { ...port, clusterEndpoints: pods.map((pod) => `${pod}:5353`) }
);

/** The line of a deletion of the flows to a cluster IP that one pod answers. */
const deletionOf = (pod: string, { clusterIP } = DNS) =>
  `-D -f ipv4 -p udp -d ${clusterIP} --dport 53 -r ${pod} --reply-port-src 5353`;

/** The event that a run of conntrack waits for, and how it then ends: as the tool does by default. */
type Gate = Promise<ToolResult | undefined>;

/** The cleaners of some service ports on a fake conntrack table. */
function createLab() {
  const tool = createConntrackTool(), clock = createFakeClock();
  const calls: string[] = [], gates: Gate[] = [];
  const runner: Runner = {
    async run({ args, stdin, onLine, signal }) {
      const input = [...stdin ?? []].join("");
      calls.push(input === "" ? args.join(" ") : input.trimEnd());
      const aborted = new Promise<never>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
      const result = await Promise.race([gates.shift(), aborted]) ?? tool.run(args, input);
      for (const line of result.stdout.split("\n").slice(0, -1)) onLine?.(line);
      return { ...result, stdout: "" };
    },
  };
  const options = { family: "IPv4", runner, logger: silentLogger, clock } as const;
  const cleaner = createConntrackCleaner(options), unanswered = createUnansweredCleaner(options);
  const ports = new Map<ServicePortKey, ServicePort>();
  const known = { servicePort: (key: ServicePortKey) => ports.get(key), servicePorts: () => ports.values() };
  let earlier = new Set<string>();
  const rules = {
    problems: () => [],
    takeCounts: () => ({}),
    takeEarlierUdpFrontends() {
      const taken = earlier;
      earlier = new Set();
      return taken;
    },
  };
  let nextPort = 41_001;
  const lab = {
    clock,
    unanswered,
    known,
    /** Holds up the next run of conntrack that no other gate holds up. */
    hold(): PromiseWithResolvers<ToolResult | undefined> {
      const gate = Promise.withResolvers<ToolResult | undefined>();
      gates.push(gate.promise);
      return gate;
    },
    /** The calls of conntrack since the last call; of a batch, its lines. */
    takeCalls: () => calls.splice(0),
    /** Adds a flow to a cluster IP that a pod answers. */
    flow(pod: string, { clusterIP } = DNS): void {
      const client = { source: "10.9.9.9", sourcePort: nextPort++ };
      tool.entries.push({
        ...client,
        destination: clusterIP!,
        destinationPort: 53,
        answeredBy: { address: pod, port: 5353 },
      });
    },
    /** The pods that answer the remaining flows. */
    left: () => tool.entries.map(({ answeredBy }) => answeredBy?.address),
    /** Sets service ports, or deletes one; nothing is in effect yet. */
    change(set: readonly ServicePort[], deleted?: ServicePort): void {
      const keyOf = ({ name, protocol }: ServicePort) => servicePortKey(name, protocol);
      const keys = deleted ? [keyOf(deleted)] : [];
      const delta = { base: 1, revision: 2, settings: undefined, set, deleted: keys };
      cleaner.noteDelta(known, delta);
      unanswered.noteDelta(known, delta);
      for (const key of keys) ports.delete(key);
      for (const port of set) ports.set(keyOf(port), port);
    },
    /** Frontends that the kernel served before the first sync. */
    serveEarlier: (...frontends: readonly string[]) => void (earlier = new Set(frontends)),
    /** Ends a sync, and lets conntrack run as far as it can. */
    async sync() {
      const { problems: [problem], counts, againAfterMs } = cleaner.afterSync(rules, known);
      await promisesSettled();
      return { problem: problem?.message, deleted: counts.conntrack_deleted, againAfterMs };
    },
    /** Ends a sync when the next pass may begin. */
    async syncLater() {
      clock.advance(1_000);
      return await lab.sync();
    },
  };
  return lab;
}

/** A lab whose service ports have these pods, and have been cleaned. */
async function labWith(...set: readonly ServicePort[]) {
  const lab = createLab();
  lab.change(set);
  await lab.sync();
  await lab.syncLater();
  lab.takeCalls();
  return lab;
}

const POD = "10.1.0.1", POD_2 = "10.1.0.2", POD_3 = "10.1.0.3";

Deno.test("the flows to one lost endpoint are deleted in one pass, which the next sync reports", async () => {
  const { change, flow, sync, syncLater, left, takeCalls } = await labWith(withPods([POD, POD_2]));
  for (const pod of [POD, POD, POD_2]) flow(pod);
  change([withPods([POD_2, POD_3])]);
  assert.deepEqual(await sync(), { problem: undefined, deleted: undefined, againAfterMs: 1_000 });
  assert.deepEqual([left(), takeCalls()], [[POD_2], [deletionOf(POD)]]);
  assert.deepEqual(await syncLater(), { problem: undefined, deleted: 2, againAfterMs: undefined });
  assert.deepEqual(await syncLater(), { problem: undefined, deleted: undefined, againAfterMs: undefined });
});

Deno.test("what makes no flow stale starts no conntrack", async () => {
  const { change, sync, takeCalls } = await labWith(withPods([POD]), withPods([], OTHER));
  change([withPods([POD, POD_2])]);
  change([{ ...withPods([], OTHER), affinitySeconds: 60 }]);
  change([fakeServicePort("default/new", { protocol: "udp", port: 99, clusterEndpoints: [] })]);
  change([], fakeServicePort("default/web", { protocol: "tcp" }));
  assert.equal((await sync()).againAfterMs, undefined);
  assert.deepEqual(takeCalls(), []);
});

Deno.test("the losses of several services within a second share one pass over their flows", async () => {
  const lab = await labWith(withPods([POD, POD_2]), withPods([POD, POD_2, POD_3], OTHER));
  for (const pod of [POD, POD_2]) for (const port of [DNS, OTHER]) lab.flow(pod, port);
  lab.change([withPods([POD_2])]);
  await lab.sync();
  lab.clock.advance(400);
  lab.change([withPods([POD_3], OTHER)]);
  assert.equal((await lab.sync()).againAfterMs, 600);
  lab.change([withPods([POD_3])]);
  lab.clock.advance(300);
  await lab.sync();
  assert.deepEqual(lab.takeCalls(), [deletionOf(POD)]);
  lab.clock.advance(300);
  await lab.sync();
  assert.deepEqual(lab.left(), []);
  const [listing, deletions] = lab.takeCalls();
  assert.equal(listing, "-L -p udp -f ipv4 --dst-nat");
  assert.deepEqual(deletions!.split("\n").sort(), [
    deletionOf(POD_2),
    deletionOf(POD, OTHER),
    deletionOf(POD_2, OTHER),
  ]);
});

Deno.test("only flows that can be concerned are listed", async () => {
  const lab = await labWith(withPods([]), { ...withPods([POD, POD_2], OTHER), nodePort: 30053 });
  const listing = async (...set: ServicePort[]) => {
    lab.change(set);
    await lab.syncLater();
    return lab.takeCalls()[0];
  };
  assert.equal(await listing(withPods([POD])), `-L -p udp -f ipv4 -d ${DNS.clusterIP} --dport 53`);
  const other = { ...withPods([POD_2], OTHER), nodePort: 30053 };
  assert.equal(await listing(other), `-L -p udp -f ipv4 -r ${POD} --reply-port-src 5353 --dst-nat`);
  assert.equal(await listing({ ...other, nodePort: 30054 }), "-L -p udp -f ipv4");
});

Deno.test("an endpoint that comes back before the pass keeps its flows, and no conntrack is started for it", async () => {
  const lab = await labWith(withPods([POD, POD_2]), withPods([POD, POD_2], OTHER));
  lab.change([withPods([POD], OTHER)]);
  await lab.sync();
  lab.takeCalls();
  lab.flow(POD);
  lab.change([withPods([POD_2])]);
  await lab.sync();
  lab.change([withPods([POD, POD_2])]);
  await lab.syncLater();
  assert.deepEqual([lab.left(), lab.takeCalls()], [[POD], []]);
});

Deno.test("a sync does not wait for a pass; what changes meanwhile is for the next one", async () => {
  const lab = await labWith(withPods([POD, POD_2, POD_3]));
  for (const pod of [POD, POD_2, POD_3]) lab.flow(pod);
  const gate = lab.hold();
  lab.change([withPods([POD_2, POD_3])]);
  assert.equal((await lab.sync()).againAfterMs, 1_000);
  lab.change([withPods([POD_3])]);
  assert.deepEqual(await lab.syncLater(), { problem: undefined, deleted: undefined, againAfterMs: 1_000 });
  assert.deepEqual(lab.takeCalls(), [deletionOf(POD)]);
  gate.resolve(undefined);
  await promisesSettled();
  assert.equal((await lab.sync()).deleted, 1);
  assert.deepEqual([lab.takeCalls(), lab.left()], [[deletionOf(POD_2)], [POD_3]]);
});

Deno.test("an endpoint that comes back while flows are listed keeps them", async () => {
  const lab = await labWith(withPods([POD, POD_2, POD_3]));
  for (const pod of [POD, POD_2]) lab.flow(pod);
  const listing = lab.hold();
  lab.change([withPods([POD_3])]);
  await lab.sync();
  lab.change([withPods([POD_2, POD_3])]);
  listing.resolve(undefined);
  await promisesSettled();
  assert.deepEqual(lab.left(), [POD_2]);
});

Deno.test("an endpoint that comes back stops the deletion of its flows, and of no others", async () => {
  const lab = await labWith(withPods([POD, POD_2, POD_3]), withPods([POD], OTHER));
  for (const pod of [POD, POD_2]) lab.flow(pod);
  const deletion = (lab.hold().resolve(undefined), lab.hold());
  lab.change([withPods([POD_3])]);
  await lab.sync();
  lab.change([withPods([POD, POD_2], OTHER), withPods([POD_3, "10.1.0.4"])]);
  await lab.sync();
  lab.change([withPods([POD_2, POD_3])]);
  await lab.sync();
  deletion.resolve(undefined);
  await promisesSettled();
  assert.deepEqual(lab.left(), [POD_2]);
  assert.equal((await lab.syncLater()).problem, undefined);
  assert.deepEqual(lab.left(), [POD_2]);
});

Deno.test("the flows of a namespace with very many are deleted in turns with those of others, for a limited time", async () => {
  const many = Array.from({ length: 300 }, (_, i) => `10.2.${i >> 8}.${i & 255}`);
  const tenant = fakeServicePort("tenant/many", { protocol: "udp", port: 53, clusterIP: "10.96.0.30" });
  const lab = await labWith(withPods([...many, POD_3], tenant), withPods([POD, POD_3]));
  for (const pod of many) lab.flow(pod, tenant);
  lab.flow(POD);
  lab.change([withPods([POD_3], tenant), withPods([POD_3])]);
  lab.takeCalls();
  // Each run of conntrack takes longer than a short time.
  const gates = Array.from({ length: 4 }, () => lab.hold());
  await lab.sync();
  for (const gate of gates) {
    lab.clock.advance(2_000);
    gate.resolve(undefined);
    await promisesSettled();
  }
  const portions = lab.takeCalls().slice(1).map((call) => call.split("\n"));
  assert.ok(portions[0]!.includes(deletionOf(POD)), "another namespace's flow is in the first portion");
  assert.deepEqual(portions.map((portion) => portion.length), [4, 4, 4], "then the time is over");
  for (let pass = 0; lab.left().length > 0; pass++) {
    assert.ok(pass < 20, "the next passes delete the rest");
    lab.clock.advance(1_000);
    await lab.syncLater();
  }
});

Deno.test("a removal that is fast takes more flows at once, so that thousands need few runs", async () => {
  const many = Array.from({ length: 300 }, (_, i) => `10.2.${i >> 8}.${i & 255}`);
  const lab = await labWith(withPods([...many, POD]));
  for (const pod of many) lab.flow(pod);
  lab.change([withPods([POD])]);
  lab.takeCalls();
  await lab.sync();
  const portions = lab.takeCalls().slice(1).map((call) => call.split("\n").length);
  assert.deepEqual([portions, lab.left()], [[4, 8, 16, 32, 64, 128, 48], []]);
});

Deno.test("at the start, flows to frontends of no service end; a node port is served at any address of the node", async () => {
  const lab = createLab();
  const nodePort = { ...withPods([POD]), nodePort: 53 };
  const at = (clusterIP: string) => ({ ...DNS, clusterIP });
  for (const address of ["192.168.1.1", "10.96.0.99"]) lab.flow(POD_2, at(address));
  lab.flow(POD, at("192.168.1.1"));
  lab.serveEarlier("192.168.1.1:53", "10.96.0.99:53");
  lab.change([nodePort]);
  await lab.sync();
  await lab.syncLater();
  assert.deepEqual(lab.left(), [POD]);
});

const failed = (message: string): ToolResult => (
  { exitCode: 1, stdout: "", stderr: `conntrack v1.4 (conntrack-tools): ${message}\n` }
);

Deno.test("a failure is a problem from the next sync on, is repeated by the one after, and ends with a success", async () => {
  const { change, flow, sync, syncLater, hold, left, takeCalls } = await labWith(withPods([POD, POD_2]));
  flow(POD);
  hold().resolve(failed("Operation failed: Cannot allocate memory"));
  change([withPods([POD_2])]);
  assert.equal((await sync()).problem, undefined);
  takeCalls();
  const failure = await syncLater();
  assert.match(failure.problem!, /^cannot remove stale UDP flows, retrying with the next sync: .*allocate memory/);
  assert.deepEqual([failure.againAfterMs, takeCalls()], [undefined, []], "the sync loop decides when to retry");
  const retry = await sync();
  assert.deepEqual([retry.problem, retry.againAfterMs], [failure.problem, 1_000]);
  assert.deepEqual([left(), takeCalls()], [[], [deletionOf(POD)]]);
  assert.deepEqual(await syncLater(), { problem: undefined, deleted: 1, againAfterMs: undefined });
});

/** Has a pass fail after these changes, and returns the pods whose flows remain after the next one. */
async function leftAfterFailure(
  lab: Awaited<ReturnType<typeof labWith>>,
  changes: () => void,
): Promise<readonly (string | undefined)[]> {
  const gate = lab.hold();
  await lab.sync();
  changes();
  gate.resolve(failed("killed"));
  await promisesSettled();
  for (let syncs = 0; syncs < 3; syncs++) await lab.syncLater();
  return lab.left();
}

Deno.test("a change between a noted one and the pass counts, although it makes no flow stale", async () => {
  const lab = await labWith(withPods([POD, POD_2]));
  for (const pod of [POD, POD_2, POD_3]) lab.flow(pod);
  lab.change([withPods([POD_2])]);
  lab.change([withPods([POD_2, POD_3])]);
  assert.deepEqual(await leftAfterFailure(lab, () => {}), [POD_2, POD_3]);
});

Deno.test("the flows of a deleted service are deleted after a pass that failed", async () => {
  const lab = await labWith(withPods([POD]));
  lab.flow(POD);
  lab.change([], DNS);
  assert.deepEqual(await leftAfterFailure(lab, () => {}), []);
});

Deno.test("flows to a service that takes over a frontend while a pass fails are kept", async () => {
  const lab = await labWith(withPods([POD]));
  for (const pod of [POD, POD_2]) lab.flow(pod);
  lab.change([], DNS);
  const heir = { ...withPods([POD_2]), name: "default/heir" };
  assert.deepEqual(await leftAfterFailure(lab, () => lab.change([heir])), [POD_2]);
});

Deno.test("a service that is deleted while a pass over its flows fails loses all of them", async () => {
  const lab = await labWith(withPods([POD, POD_2]));
  for (const pod of [POD, POD_2]) lab.flow(pod);
  lab.change([withPods([POD_2])]);
  assert.deepEqual(await leftAfterFailure(lab, () => lab.change([], DNS)), []);
});

const GONE = failed("Operation failed: such conntrack doesn't exist");

Deno.test("a flow that ends while it is being deleted is no failure, and the flows after it are deleted", async () => {
  const lab = await labWith(withPods([POD, POD_2]));
  lab.flow(POD);
  lab.hold().resolve(GONE);
  lab.change([withPods([POD_2])]);
  await lab.sync();
  assert.deepEqual(lab.takeCalls(), [deletionOf(POD), deletionOf(POD)]);
  const { problem, deleted } = await lab.syncLater();
  assert.deepEqual({ problem, deleted }, { problem: undefined, deleted: 1 });
});

Deno.test("a conntrack without files of commands (1.4.6) deletes flows in one run each", async () => {
  const lab = await labWith(withPods([POD, POD_2, POD_3]));
  for (const pod of [POD, POD_2]) lab.flow(pod);
  lab.hold().resolve(undefined);
  lab.hold().resolve({ ...failed("unknown option `--load-file'"), exitCode: 2 });
  lab.change([withPods([POD_3])]);
  await lab.sync();
  assert.deepEqual(lab.takeCalls().slice(2), [deletionOf(POD), deletionOf(POD_2)]);
  assert.deepEqual([lab.left(), (await lab.syncLater()).deleted], [[], 2]);
});

Deno.test("a conntrack that fails in every run is a problem", async () => {
  const lab = await labWith(withPods([POD, POD_2]));
  for (let runs = 0; runs <= 100; runs++) lab.hold().resolve(GONE);
  lab.change([withPods([POD_2])]);
  await lab.sync();
  assert.match((await lab.syncLater()).problem!, /such conntrack doesn't exist/);
});

Deno.test("the attempts of endpoints that do not answer are deleted in at most one pass a second", async () => {
  const { change, unanswered, clock, takeCalls } = createLab();
  const without = (...out: readonly string[]) => ({ ...DNS, protocol: "tcp" as const, unreachableEndpoints: out });
  const deletion = (pod: string) => `-D -f ipv4 -p tcp --state SYN_SENT -r ${pod} --reply-port-src 80`;
  change([without(`${POD}:80`)]);
  assert.equal(unanswered.clean(), undefined);
  await promisesSettled();
  change([without(`${POD}:80`, `${POD_2}:80`)]);
  clock.advance(600);
  assert.equal(unanswered.clean(), 400);
  change([without(`${POD}:80`, `${POD_2}:80`, `${POD_3}:80`)]);
  assert.deepEqual(takeCalls(), [deletion(POD)]);
  clock.advance(400);
  assert.equal(unanswered.clean(), undefined);
  assert.deepEqual(takeCalls(), [`${deletion(POD_2)}\n${deletion(POD_3)}`]);
  assert.equal(unanswered.clean(), undefined);
});

Deno.test("flows to a frontend that a service gives up, and to an endpoint that it loses at once, are deleted", async () => {
  const { change, flow, sync, syncLater, left } = createLab();
  change([withPods(["10.1.0.1", "10.1.0.2"])]);
  await sync();
  flow("10.1.0.1");
  flow("10.1.0.2");
  change([withPods(["10.1.0.2"], { ...DNS, clusterIP: OTHER.clusterIP })]);
  await syncLater();
  await syncLater();
  assert.deepEqual(left(), ["10.1.0.2"]);
});
