import assert from "node:assert/strict";
import fc from "fast-check";
import { createFamilyChannel } from "../../core/channel/family_channel.ts";
import { type FamilySettings, type ServicePort, servicePortKey } from "../../core/model/mod.ts";
import { silentLogger } from "../../platform/log.ts";
import { createBackoff } from "../../platform/retry.ts";
import type { WorkerListener } from "../../platform/supervised_worker.ts";
import type { FamilyHandle, FromWorker, ToWorker } from "../../workers/protocol.ts";
import { superviseFamily } from "../../workers/supervise.ts";
import { startSyncLoop } from "../../workers/sync_loop.ts";
import { FAMILY_START } from "../fakes/family_start.ts";
import { createFakeBackend, type FakeBackend } from "../fakes/backend.ts";
import { createFakeClock, type FakeClock } from "../fakes/clock.ts";
import { byKey, fakeServicePort, fakeSettings } from "../fakes/service_port.ts";
import { runs } from "./runs.ts";

/** An event of a family, or the passing of time. */
type Event =
  | { readonly type: "set"; readonly ports: readonly ServicePort[] }
  | { readonly type: "delete"; readonly names: readonly string[] }
  | { readonly type: "configure"; readonly settings: FamilySettings }
  | { readonly type: "wait"; readonly ms: number }
  /** The next syncs fail. */
  | { readonly type: "fail"; readonly times: number }
  /** A tool hangs until it is released. */
  | { readonly type: "hold" | "release" }
  /** The worker dies, or loses its state. */
  | { readonly type: "die" | "forget" };

const name = fc.constantFrom("a", "b", "c", "d");
const port = fc.record({ name, port: fc.integer({ min: 1, max: 3 }) }).map(({ name, port }) =>
  fakeServicePort(name, { port })
);
const settings = fc.record({ masqueradeAll: fc.boolean() }).map((changes) => fakeSettings(changes));
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant("set" as const), ports: fc.array(port, { maxLength: 4 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constant("delete" as const), names: fc.array(name, { maxLength: 3 }) }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("configure" as const), settings }) },
  { weight: 6, arbitrary: fc.record({ type: fc.constant("wait" as const), ms: fc.constantFrom(0, 50, 2000, 40_000) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("fail" as const), times: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constantFrom("hold" as const, "release" as const) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constantFrom("die" as const, "forget" as const) }) },
);

/** A worker whose sync loop runs here; its messages are cloned and delivered in a later task, as real ones are. */
interface LocalWorker extends FamilyHandle {
  readonly backend: FakeBackend;
  die(): void;
  forget(): void;
}

function startLocalWorker(listener: WorkerListener<FromWorker>, clock: FakeClock): LocalWorker {
  const backend = createFakeBackend();
  let alive = true;
  let inFlight: number | undefined;
  const loop = startSyncLoop({
    family: "IPv4",
    backend,
    backoff: createBackoff({ firstMs: 100, longestMs: 1000 }),
    clock,
    logger: silentLogger,
    emit: (message) =>
      queueMicrotask(() => {
        if (!alive) return;
        if (message.type === "reset" || message.type === "report" && message.report.revision === inFlight) {
          inFlight = undefined;
        }
        listener.onMessage(structuredClone(message));
      }),
  });
  return {
    backend,
    die: () => listener.onFailure("killed"),
    // A sync loop has no state after a cleanup.
    forget: () => loop.cleanup(),
    post(message: ToWorker) {
      if (message.type === "sync") {
        assert.equal(inFlight, undefined, "two messages are in flight");
        inFlight = message.delta.revision;
      }
      queueMicrotask(() => {
        if (!alive) return;
        if (message.type === "sync") loop.sync(structuredClone(message.delta));
        if (message.type === "ping") listener.onMessage({ type: "pong" });
        if (message.type === "stop") listener.onMessage({ type: "stopped" });
      });
    },
    terminate() {
      alive = false;
      loop.stop();
    },
    release: () => assert.fail("no run is replaced here"),
    beginRest: () => true,
  };
}

async function play(events: readonly Event[], minSyncPeriodMs: number): Promise<void> {
  const clock = createFakeClock();
  const expected = new Map<string, ServicePort>();
  let expectedSettings = fakeSettings();
  let worker: LocalWorker | undefined;
  let release = () => {};

  const confirmed = { revision: 0, sent: 0 };
  const channel = createFamilyChannel({
    family: "IPv4",
    connect: (listener) =>
      superviseFamily({
        start: FAMILY_START,
        spawn(workerListener) {
          worker = startLocalWorker(workerListener, clock);
          return worker;
        },
        listener,
        clock,
        memory: () => () => {},
        logger: silentLogger,
      }),
    minSyncPeriodMs,
    restDelays: { firstMs: 50, laterMs: 1_000 },
    mayRest: () => true,
    clock,
    logger: silentLogger,
    onSend(revision) {
      assert.ok(revision > confirmed.sent, "a revision was not new");
      confirmed.sent = revision;
    },
    onReport(report) {
      if (report.ok) confirmed.revision = report.revision;
    },
  });
  channel.configure(expectedSettings);
  channel.start();

  const apply: { readonly [T in Event["type"]]: (event: Extract<Event, { type: T }>) => void | Promise<void> } = {
    set({ ports }) {
      for (const port of ports) expected.set(servicePortKey(port.name, port.protocol), port);
      channel.set(byKey(ports));
    },
    delete({ names }) {
      const keys = names.map((name) => servicePortKey(name, "tcp"));
      for (const key of keys) expected.delete(key);
      channel.delete(keys);
    },
    configure({ settings }) {
      expectedSettings = settings;
      channel.configure(settings);
    },
    wait: ({ ms }) => clock.advanceSettled(ms),
    fail: ({ times }) => worker?.backend.failNext(...Array.from({ length: times }, () => new Error("refused"))),
    hold() {
      release();
      release = worker?.backend.hold() ?? release;
    },
    release: () => release(),
    die: () => worker?.die(),
    forget: () => worker?.forget(),
  };
  for (const event of events) await (apply[event.type] as (event: Event) => void | Promise<void>)(event);

  release();
  // A worker detects its lost state only at the next change.
  if (events.some(({ type }) => type === "forget")) {
    expectedSettings = fakeSettings({ nodeIP: "192.168.1.99" });
    channel.configure(expectedSettings);
  }
  await clock.advanceSettled(45_000);
  assert.ok(worker);
  assert.deepEqual(worker.backend.kernel, expected);
  assert.deepEqual(worker.backend.kernelSettings(), expectedSettings);
  assert.equal(confirmed.revision, confirmed.sent);
  await channel.stop();
}

Deno.test("after any history, the kernel has the current state", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { maxLength: 30 }),
      fc.constantFrom(0, 1000),
      (events, minSyncPeriodMs) => play(events, minSyncPeriodMs),
    ),
    runs(12),
  );
});
