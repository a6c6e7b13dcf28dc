import assert from "node:assert/strict";
import fc from "fast-check";
import { createKeptSource, type KeptSourceOptions } from "../../../../sources/kept/kept_source.ts";
import type { PodReport, PodWatch } from "../../../../core/objects/mod.ts";
import type { RevisedCounts } from "../../../../sources/kept/pods.ts";
import { packObjects, unpackObjects } from "../../../../sources/kept/payload.ts";
import type { KeptState, StateFile } from "../../../../sources/kept/state_file.ts";
import { type ClusterObject, KINDS, refOf, type SourceSink } from "../../../../core/objects/mod.ts";
import type { Problem } from "../../../../core/problems/mod.ts";
import { createTracking } from "../../../../core/tracking/mod.ts";
import { silentLogger, systemClock } from "../../../../platform/mod.ts";
import { setImmediate } from "node:timers";
import { createFakeClock, promisesSettled } from "../../../fakes/clock.ts";
import { endpoint, endpointSlice, node, service } from "../../../fakes/cluster_objects.ts";
import { runs } from "../../../property/runs.ts";

const ORIGIN = { node: "here", source: "kube", proxyName: "" };
const WEB = service("default/web");
const WEB_1 = endpointSlice("default/web-1", [endpoint("10.244.0.1")]);
const HERE = node("here", { zone: "a", addresses: ["10.1.0.1"] });
const KEPT_MS = 1_600_000_000_000;

/** Lets streams finish, which need several turns of the event loop. */
async function settle(): Promise<void> {
  for (let i = 0; i < 30; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** A state file in memory. */
interface FakeFile extends StateFile {
  /** The state of the last write. */
  state: KeptState | undefined;
  /** The error of every write. */
  error: string | undefined;
}

function createFakeFile(state?: KeptState): FakeFile {
  return {
    path: "state",
    state,
    error: undefined,
    read() {
      return Promise.resolve({ state: this.state, ignored: [] });
    },
    write(_origin, state) {
      if (this.error !== undefined) return Promise.reject(new Error(this.error));
      this.state = state;
      return Promise.resolve();
    },
  };
}

/** A file with these objects as the kept state. */
async function keep(objects: readonly ClusterObject[]): Promise<FakeFile> {
  const { payload } = await packObjects(objects, systemClock);
  return createFakeFile({ payload, atMs: KEPT_MS });
}

/** A tracked proxy that starts with this storage, and the source's side of it. */
function start(file: StateFile, options: Partial<KeptSourceOptions> = {}) {
  const { kinds = KINDS } = options;
  const clock = createFakeClock(undefined, promisesSettled);
  const problems: Problem[] = [];
  const tracking = createTracking({
    kinds,
    nodeName: "here",
    bindAddress: "",
    clock,
    onChange: () => {},
    onProblems: (_scope, list) => problems.splice(0, problems.length, ...list),
  });
  const served: (number | undefined)[] = [];
  const revised: RevisedCounts[] = [];
  const sinks = Promise.withResolvers<SourceSink>();
  const ended = new AbortController();
  const running = createKeptSource({
    source: {
      run(sink, signal) {
        sinks.resolve(sink);
        return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    },
    file,
    origin: ORIGIN,
    ...options,
    kinds,
    objects: tracking.objects,
    onServing(atMs, counts) {
      served.push(atMs);
      if (counts !== undefined) revised.push(counts);
    },
    clock,
    logger: silentLogger,
  }).run(tracking, ended.signal);
  const pass = async (ms: number) => {
    const stepMs = Math.min(ms, 1000);
    for (let passedMs = 0; passedMs < ms; passedMs += stepMs) {
      await clock.advanceSettled(stepMs);
      await settle();
    }
  };
  const stop = async () => {
    ended.abort();
    await running;
  };
  return { clock, tracking, problems, served, revised, source: sinks.promise, pass, stop };
}

function textOf(objects: Iterable<ClusterObject>): string[] {
  return Array.from(objects, (object) => JSON.stringify(object)).sort();
}

async function stored({ state }: FakeFile): Promise<string[] | undefined> {
  return state && textOf(await unpackObjects(state.payload, systemClock));
}

Deno.test("the kept state is served when the source has been silent for the delay", async () => {
  const run = start(await keep([WEB, WEB_1, HERE]));
  await run.pass(500);
  assert.equal(run.tracking.ready(), false);
  await run.pass(1000);
  assert.equal(run.tracking.ready(), true);
  assert.deepEqual(textOf(run.tracking.objects()), textOf([WEB, WEB_1, HERE]));
  assert.deepEqual(run.served, [KEPT_MS]);
  await run.stop();
});

Deno.test("without a delay, it is served at once", async () => {
  const run = start(await keep([WEB]), { delayMs: 0 });
  await settle();
  assert.equal(run.tracking.ready(), true);
  await run.stop();
});

Deno.test("with an empty kernel, it is served at once, unless a delay is given", async () => {
  const isServed = async (options: Partial<KeptSourceOptions>) => {
    const run = start(await keep([WEB]), options);
    await settle();
    const isReady = run.tracking.ready();
    await run.stop();
    return isReady;
  };
  assert.equal(await isServed({ isKernelEmpty: Promise.resolve(true) }), true);
  assert.equal(await isServed({ isKernelEmpty: Promise.resolve(false) }), false);
  assert.equal(await isServed({ isKernelEmpty: Promise.resolve(true), delayMs: 1000 }), false);
});

Deno.test("it is served as soon as the source has failed", async () => {
  const failure = Promise.withResolvers<void>();
  const run = start(await keep([WEB]), { failed: failure.promise, delayMs: 60_000 });
  await settle();
  assert.equal(run.tracking.ready(), false);
  failure.resolve();
  await settle();
  assert.equal(run.tracking.ready(), true);
  await run.stop();
});

Deno.test("a source that syncs in time never sees the kept state", async () => {
  const file = await keep([WEB, WEB_1]);
  const { read } = file;
  let reads = 0;
  file.read = (origin) => {
    reads++;
    return read.call(file, origin);
  };
  const run = start(file);
  const source = await run.source;
  source.set(HERE);
  for (const kind of KINDS) source.synced(kind);
  await run.pass(3000);
  assert.deepEqual(textOf(run.tracking.objects()), textOf([HERE]));
  assert.deepEqual([run.served, reads], [[], 0]);
  await run.stop();
});

Deno.test("a kept state that is read when the source has synced is not served", async () => {
  const file = await keep([WEB]), reading = Promise.withResolvers<void>();
  const { read } = file;
  file.read = (origin) => reading.promise.then(() => read.call(file, origin));
  const run = start(file, { delayMs: 0 });
  for (const kind of KINDS) (await run.source).synced(kind);
  reading.resolve();
  await settle();
  assert.deepEqual([run.served, textOf(run.tracking.objects())], [[], []]);
  await run.stop();
});

Deno.test("nothing is served once the source has ended", async () => {
  const run = start(await keep([WEB]), { source: { run: () => Promise.resolve() } });
  await run.pass(2_000);
  assert.deepEqual(run.served, []);
  await run.stop();
});

Deno.test("a late source replaces the kept state by the difference only", async () => {
  const gone = service("default/gone");
  const run = start(await keep([WEB, WEB_1, gone, HERE]));
  await run.pass(1500);
  run.tracking.take();
  const source = await run.source;
  source.set(WEB);
  source.set(service("default/new"));
  source.synced("Service");
  source.set({ ...WEB_1, triggerTimeMs: 5 });
  source.synced("EndpointSlice");
  assert.deepEqual(run.served, [KEPT_MS]);
  source.set(HERE);
  source.synced("Node");
  source.synced("ServiceCIDR");
  assert.deepEqual(run.served, [KEPT_MS, undefined]);
  const changes = run.tracking.take();
  assert.deepEqual([...changes.services].sort(), ["default/gone", "default/new"]);
  assert.equal(changes.endpoints.IPv4.services.size, 0);
  assert.equal(changes.node, undefined);
  await run.stop();
});

Deno.test("kinds that the source has synced are its own, and so are objects that it has set in others", async () => {
  const other = endpointSlice("default/web-1", [endpoint("10.244.0.9")]);
  const run = start(await keep([WEB, WEB_1, endpointSlice("default/web-2", []), HERE]));
  const source = await run.source;
  source.synced("Service");
  source.set(other);
  await run.pass(1500);
  assert.deepEqual(textOf(run.tracking.objects()), textOf([other, endpointSlice("default/web-2", []), HERE]));
  source.synced("EndpointSlice");
  assert.deepEqual(textOf(run.tracking.objects()), textOf([other, HERE]));
  await run.stop();
});

Deno.test("nothing is written before the source has synced, nor while the kept state is served", async () => {
  const file = await keep([WEB]);
  const before = file.state;
  const run = start(file);
  await run.pass(60_000);
  (await run.source).set(HERE);
  await run.pass(60_000);
  await run.stop();
  assert.equal(file.state, before);
});

Deno.test("the state of the source is written, at most once in 10 s, and what is left at the stop", async () => {
  const file = createFakeFile();
  const run = start(file);
  const source = await run.source;
  source.set(WEB);
  for (const kind of KINDS) source.synced(kind);
  await run.pass(2000);
  assert.deepEqual(await stored(file), textOf([WEB]));
  source.set(WEB_1);
  await run.pass(7000);
  assert.deepEqual(await stored(file), textOf([WEB]), "not yet");
  await run.pass(4000);
  assert.deepEqual(await stored(file), textOf([WEB, WEB_1]));
  source.delete(refOf(WEB_1));
  await run.stop();
  assert.deepEqual(await stored(file), textOf([WEB]));
});

Deno.test("a full disk is a problem until a write succeeds", async () => {
  const file = createFakeFile();
  const run = start(file);
  file.error = "No space left on device";
  const source = await run.source;
  source.set(WEB);
  for (const kind of KINDS) source.synced(kind);
  await run.pass(2000);
  assert.deepEqual(run.problems.map(({ code, detail }) => [code, detail]), [
    ["state-not-kept", "No space left on device"],
  ]);
  file.error = undefined;
  await run.pass(20_000);
  assert.deepEqual(run.problems, []);
  assert.deepEqual(await stored(file), textOf([WEB]));
  await run.stop();
});

Deno.test("a source without kept state waits as it always did", async () => {
  const run = start(createFakeFile());
  await run.pass(5000);
  assert.equal(run.tracking.ready(), false);
  assert.deepEqual(run.served, []);
  await run.stop();
});

const HERE_POD = { namespace: "default", name: "web", uid: "u1" };
const LOCAL = endpointSlice("default/web-1", [
  { ...endpoint("10.1.0.1", { nodeName: "here" }), pod: HERE_POD },
  endpoint("10.2.0.1"),
]);

/** A watch of pods whose reports a test makes. */
function createFakeWatch() {
  const listeners = new Set<(report: PodReport) => void>();
  let isEnded = false;
  const watch: PodWatch = {
    endpoint: "unix:///cri.sock",
    follow(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    end() {
      isEnded = true;
    },
    isEnded: () => isEnded,
  };
  const report = (report: PodReport) => listeners.forEach((listener) => listener(report));
  const runs = (...addresses: readonly string[]) =>
    report({ pods: [{ ...HERE_POD, isStatic: false, usesHostNetwork: false, addresses }] });
  return { watch, report, runs, listeners };
}

/** The addresses in the tracked slices. */
function addresses(run: ReturnType<typeof start>): readonly string[] {
  return Array.from(run.tracking.objects()).flatMap((object) =>
    object.kind === "EndpointSlice" ? object.endpoints.map(({ address }) => address) : []
  );
}

Deno.test("kept endpoints follow the pods of this node until the source has synced", async () => {
  const pods = createFakeWatch();
  const run = start(await keep([WEB, LOCAL]), { pods: pods.watch });
  await settle();
  pods.runs("10.1.0.7");
  await run.pass(1500);
  assert.deepEqual(addresses(run), ["10.1.0.7", "10.2.0.1"]);
  pods.report({ pods: [] });
  assert.deepEqual(addresses(run), ["10.2.0.1"]);
  pods.runs("10.1.0.8");
  assert.deepEqual(addresses(run), ["10.1.0.8", "10.2.0.1"]);
  assert.deepEqual(run.revised, [
    { replaced: 1, leftOut: 0 },
    { replaced: 0, leftOut: 1 },
    { replaced: 1, leftOut: 0 },
  ]);
  const source = await run.source;
  source.set(LOCAL);
  pods.runs("10.1.0.9");
  assert.deepEqual(addresses(run), ["10.1.0.1", "10.2.0.1"], "the source knows better");
  for (const kind of KINDS) source.synced(kind);
  assert.deepEqual([pods.watch.isEnded(), pods.listeners.size], [true, 0]);
  await run.stop();
});

Deno.test("a kept slice that the source has deleted does not come back with its pod", async () => {
  const pods = createFakeWatch();
  const run = start(await keep([WEB, LOCAL]), { pods: pods.watch });
  await settle();
  pods.runs("10.1.0.7");
  await run.pass(1500);
  (await run.source).delete(refOf(LOCAL));
  pods.runs("10.1.0.8");
  assert.deepEqual(addresses(run), []);
  await run.stop();
});

Deno.test("the kept state waits a quarter of a second for the runtime, and then follows it later", async () => {
  const pods = createFakeWatch();
  const run = start(await keep([WEB, LOCAL]), { pods: pods.watch, delayMs: 0 });
  await settle();
  assert.equal(run.tracking.ready(), false);
  await run.pass(250);
  assert.deepEqual(addresses(run), ["10.1.0.1", "10.2.0.1"]);
  pods.runs("10.1.0.7");
  assert.deepEqual(addresses(run), ["10.1.0.7", "10.2.0.1"]);
  await run.stop();
  assert.equal(pods.watch.isEnded(), false, "a run with a new configuration goes on with it");
});

Deno.test("a runtime that cannot be reached is a problem while the kept state is served, which stays as it is", async () => {
  const pods = createFakeWatch();
  const run = start(await keep([WEB, LOCAL]), { pods: pods.watch });
  await settle();
  pods.report({ problem: "connect ENOENT" });
  assert.deepEqual(run.problems, []);
  await run.pass(1500);
  const found = run.problems.map(({ code, subject, detail }) => [code, subject, detail]);
  assert.deepEqual(found, [["runtime-unreachable", "unix:///cri.sock", "connect ENOENT"]]);
  assert.deepEqual(addresses(run), ["10.1.0.1", "10.2.0.1"]);
  pods.runs("10.1.0.7");
  assert.deepEqual(run.problems, []);
  pods.report({ problem: "the connection was closed" });
  assert.deepEqual(addresses(run), ["10.1.0.7", "10.2.0.1"], "what is known stays");
  for (const kind of KINDS) (await run.source).synced(kind);
  assert.deepEqual(run.problems, []);
  await run.stop();
});

const names = ["default/a", "default/b", "default/c"];
const anyObject: fc.Arbitrary<ClusterObject> = fc.oneof(
  fc.record({ name: fc.constantFrom(...names), affinitySeconds: fc.integer({ min: 0, max: 2 }) })
    .map(({ name, affinitySeconds }) => service(name, { affinitySeconds })),
  fc.record({ name: fc.constantFrom(...names), address: fc.integer({ min: 1, max: 3 }) })
    .map(({ name, address }) => endpointSlice(`${name}-1`, [endpoint(`10.0.0.${address}`)])),
  fc.constantFrom("a", "b").map((zone) => node("here", { zone })),
  fc.constantFrom("10.96.0.0/16", "10.97.0.0/16").map((cidr): ClusterObject => (
    { kind: "ServiceCIDR", name: "kubernetes", cidrs: [cidr] }
  )),
);
const cluster = fc.uniqueArray(anyObject, { selector: (object) => object.kind + object.name, maxLength: 8 });

Deno.test("whenever the source speaks, the kept state and the difference are the source's state", async () => {
  await fc.assert(
    fc.asyncProperty(
      cluster,
      cluster,
      fc.nat({ max: 12 }),
      fc.shuffledSubarray([...KINDS], { minLength: 4 }),
      async (kept, real, spoken, order) => {
        const run = start(await keep(kept));
        const source = await run.source;
        const words = order.flatMap((kind) => [
          ...real.filter((object) => object.kind === kind).map((object) => () => source.set(object)),
          () => source.synced(kind),
        ]);
        // What the source sets before the kept state is served is not set again: a kind is listed once.
        const before = words.slice(0, spoken);
        before.forEach((speak) => speak());
        await run.pass(1500);
        words.slice(spoken).forEach((speak) => speak());
        assert.deepEqual(textOf(run.tracking.objects()), textOf(real));
        await run.stop();
      },
    ),
    runs(30),
  );
});
