import assert from "node:assert/strict";
import { type ClusterObject, KINDS } from "../../../../core/objects/cluster_object.ts";
import type { Position, StoreAnswers, Subscription } from "../../../../kpng/server/answers.ts";
import { lazyChunks } from "../../../../kpng/server/snapshots.ts";
import type { Limits } from "../../../../kpng/server/context.ts";
import type { ClosureReason } from "../../../../kpng/server/metrics.ts";
import { type Serving, type ServingOptions, startServing } from "../../../../kpng/server/mod.ts";
import { createStore, type Store } from "../../../../kpng/store/mod.ts";
import { RESET } from "../../../../kpng/views/operations.ts";
import type { TlsFiles } from "../../../../kpng/address/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { spawnServingWorker } from "../../../../workers/serving.ts";
import { reservePort } from "../../../fakes/sockets.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/clock.ts";
import { endpoint, endpointSlice, service } from "../../../fakes/cluster_objects.ts";
import { sayProblems } from "../../../fakes/problems.ts";
import { passingDuring } from "../../../fakes/wait.ts";

/** Tests of the server also pass with workers: `SERVE_WORKERS=2 deno test tests/unit/kpng/server`. */
const WORKERS = Number(Deno.env.get("SERVE_WORKERS") ?? 0);

/** One thread: at a limit, a worker closes only connections of its own, and refuses a new one if all of these have calls. */
export const ONE_THREAD: ServingOptions["workers"] = { count: 0, spawn: spawnServingWorker };

/** A server with some of its metrics. */
export interface CountedServing extends Serving {
  watchers(): number;
  connections(): number;
  /** The connections that the server has closed for that reason. */
  closed(reason: ClosureReason): number;
}

/** A store and its server on loopback. */
export interface Served {
  readonly store: Store;
  readonly serving: CountedServing;
  readonly port: number;
}

/** A synced store with these objects, whose clock stands still. */
export function filledStore(objects: readonly ClusterObject[]): { clock: FakeClock; store: Store } {
  const clock = createFakeClock();
  const store = createStore({ clock, onProblems: () => {} });
  for (const object of objects) store.set(object);
  for (const kind of KINDS) store.synced(kind);
  clock.advance(10);
  return { clock, store };
}

/** Runs a test against a server whose synced store has these objects. */
export async function withServer(
  objects: readonly ClusterObject[],
  test: (served: Served) => Promise<void>,
  options: {
    readonly limits?: Partial<Limits>;
    readonly tls?: TlsFiles;
    readonly port?: number;
    readonly onLag?: (lagMs: number) => void;
    readonly workers?: ServingOptions["workers"];
    /** The clock of the server's limits; with one, there are no workers. */
    readonly clock?: FakeClock;
  } = {},
): Promise<void> {
  const onProblems = sayProblems((where, message) => assert.fail(`${where}: ${message}`));
  const store = createStore({ clock: systemClock, onProblems });
  // Later, it would be a change that the watchers have received already.
  const announced = objects.length === 0 ? undefined : new Promise<void>((resolve) => {
    const unsubscribe = store.subscribe(() => (unsubscribe(), resolve()));
  });
  for (const object of objects) store.set(object);
  for (const kind of KINDS) store.synced(kind);
  await announced;
  const serving = await startServing({
    // Workers bind the port one after another, after a probe: the kernel must not give it to somebody else in between.
    address: { kind: "tcp", host: "127.0.0.1", port: options.port ?? reservePort() },
    tls: options.tls,
    store,
    clock: options.clock ?? systemClock,
    logger: silentLogger,
    limits: options.limits,
    onLag: options.onLag,
    workers: options.workers ?? { count: options.clock ? 0 : WORKERS, spawn: spawnServingWorker },
  });
  try {
    assert.ok(serving.address.kind === "tcp");
    const counted: CountedServing = {
      ...serving,
      watchers: () => serving.count("watchers global") + serving.count("watchers local"),
      connections: () => serving.count("connections"),
      closed: (reason) => serving.count(`closed: ${reason}`),
    };
    await test({ store, serving: counted, port: serving.address.port });
  } finally {
    await (options.clock === undefined ? serving.close() : passingDuring(options.clock, serving.close()));
  }
}

/** The operations for a watcher: the changes, or everything after a `Reset`. */
export function answerOf(
  answers: StoreAnswers,
  position: Position | undefined,
  subscription: Subscription,
): ReturnType<StoreAnswers["snapshot"]> {
  const changes = position && answers.changes(position, subscription);
  if (changes !== undefined) return changes;
  const { parts, ...answer } = answers.snapshot(subscription);
  return { ...answer, parts: [lazyChunks([RESET]), ...parts] };
}

/** Services with one endpoint each, at distinct addresses. */
export function manyServices(count: number): ClusterObject[] {
  return Array.from({ length: count }, (_, i) => [
    service(`default/s${i}`, { clusterIPs: [`10.${1 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`] }),
    endpointSlice(`default/s${i}-1`, [endpoint(`10.128.${(i >> 8) & 255}.${i & 255}`)]),
  ]).flat();
}
