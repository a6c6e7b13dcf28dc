/** Measures a stage: time and memory for all services, and time for one change. */
import { sleep, systemClock } from "../../platform/clock.ts";
import type { PreparedStage, Stage } from "./stage.ts";

/** The cost of a stage at one size. */
export interface Measurement {
  readonly stage: string;
  readonly services: number;
  /** Microseconds for all services. */
  readonly timeUs: number;
  /** Heap bytes retained for all services, in addition to the stage's input. */
  readonly bytes: number;
  /** Microseconds for one change. */
  readonly changeUs: number;
}

/** Warm-up for the JIT compiler before the first measurement. */
const WARM_UP_MS = 400;
const WARM_UP_SERVICES = 1_000;

/** `fill` is repeated for this time, and at least this often; its mean includes garbage collection. */
const FILL_MS = 1_000;
const MIN_FILLS = 3;

const CHANGES = 2_001;

/** Coprime to all sizes, so that changes are spread over the whole cluster. */
const STRIDE = 7_919;

/** Measures a stage at each size. */
export async function measure(stage: Stage, sizes: readonly number[]): Promise<Measurement[]> {
  await warmUp(stage);
  const measurements: Measurement[] = [];
  for (const services of sizes) measurements.push(await measureAt(stage, services));
  return measurements;
}

// Each step that holds a state is a separate function: a suspended frame would keep its last state alive.

async function measureAt(stage: Stage, services: number): Promise<Measurement> {
  const prepared = stage.prepare(services);
  // The first fill may change the input, e.g. flatten strings; this memory does not belong to the stage.
  await discardFill(prepared);
  const before = await heapInUse();
  const { timeUs, state } = await timeOfFill(prepared);
  const bytes = await heapInUse() - before;
  const changeUs = await timeOfChange(prepared, state, services, CHANGES);
  return { stage: stage.name, services, timeUs, bytes, changeUs };
}

async function warmUp(stage: Stage): Promise<void> {
  const prepared = stage.prepare(WARM_UP_SERVICES);
  const endMs = systemClock.monotonic() + WARM_UP_MS;
  while (systemClock.monotonic() < endMs) {
    await timeOfChange(prepared, await prepared.fill(), WARM_UP_SERVICES, 100);
  }
}

async function discardFill(prepared: PreparedStage): Promise<void> {
  await prepared.fill();
}

async function timeOfFill(prepared: PreparedStage): Promise<{ timeUs: number; state: unknown }> {
  const startedMs = systemClock.monotonic();
  let state: unknown, fills = 0, elapsedMs = 0;
  while (fills < MIN_FILLS || elapsedMs < FILL_MS) {
    state = undefined;
    state = await prepared.fill();
    fills++;
    elapsedMs = systemClock.monotonic() - startedMs;
  }
  return { timeUs: elapsedMs * 1000 / fills, state };
}

/** The median, so that an occasional garbage collection does not count. */
async function timeOfChange(
  prepared: PreparedStage,
  state: unknown,
  services: number,
  changes: number,
): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < changes; i++) {
    const apply = prepared.change(state, (i * STRIDE) % services, 1 + Math.floor(i / services));
    const startedMs = systemClock.monotonic();
    await apply();
    times.push((systemClock.monotonic() - startedMs) * 1000);
  }
  return times.sort((a, b) => a - b)[changes >> 1]!;
}

async function heapInUse(): Promise<number> {
  const { gc } = globalThis as { gc?: () => void };
  if (gc === undefined) throw new Error("memory cannot be measured without --v8-flags=--expose-gc");
  // A turn of the event loop settles pending promises, and objects finalized by one collection are freed by the next.
  for (let i = 0; i < 3; i++) {
    await sleep(systemClock, 0);
    gc();
  }
  return Deno.memoryUsage().heapUsed;
}

/** The exponent `e` of a cost that grows as `services ^ e`: 0 if it does not depend on the size, 1 if it is proportional. */
export function growthExponent(
  from: Measurement,
  to: Measurement,
  cost: (measurement: Measurement) => number,
): number {
  return Math.log(cost(to) / cost(from)) / Math.log(to.services / from.services);
}
