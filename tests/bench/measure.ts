/** What a stage costs: the time and the memory of all services, and the time of one change. */
import { sleep, systemClock } from "../../platform/clock.ts";
import type { PreparedStage, Stage } from "./stage.ts";

/** The cost of a stage at one size. */
export interface Measurement {
  readonly stage: string;
  readonly services: number;
  /** Microseconds for all services. */
  readonly timeUs: number;
  /** Bytes of the heap that stay in use for all services, beyond the stage's input. */
  readonly bytes: number;
  /** Microseconds for one change. */
  readonly changeUs: number;
}

/** How long the code runs before anything is measured, so that the compiler is through with it. */
const WARM_UP_MS = 400;
const WARM_UP_SERVICES = 1_000;

/** A fill is repeated for so long, and so many times at least; the mean counts, garbage collection and all. */
const FILLING_MS = 1_000;
const LEAST_FILLS = 3;

const CHANGES = 2_001;

/** Coprime to all sizes, so that changes meet services all over the cluster. */
const STRIDE = 7_919;

/** Measures a stage at each size. */
export async function measure(stage: Stage, sizes: readonly number[]): Promise<Measurement[]> {
  await warmUp(stage);
  const measurements: Measurement[] = [];
  for (const services of sizes) measurements.push(await measureAt(stage, services));
  return measurements;
}

// Each part that holds a state is a function of its own: what an unfinished one held last stays in memory with its frame.

async function measureAt(stage: Stage, services: number): Promise<Measurement> {
  const prepared = stage.prepare(services);
  // Whatever the first one does to the input, such as making the strings flat, is not kept by the stage.
  await fillAndForget(prepared);
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

async function fillAndForget(prepared: PreparedStage): Promise<void> {
  await prepared.fill();
}

async function timeOfFill(prepared: PreparedStage): Promise<{ timeUs: number; state: unknown }> {
  const startedMs = systemClock.monotonic();
  let state: unknown, fills = 0, elapsedMs = 0;
  while (fills < LEAST_FILLS || elapsedMs < FILLING_MS) {
    state = undefined;
    state = await prepared.fill();
    fills++;
    elapsedMs = systemClock.monotonic() - startedMs;
  }
  return { timeUs: elapsedMs * 1000 / fills, state };
}

/** The median, since a collection of garbage that happens to fall into a change is not that change's. */
async function timeOfChange(
  prepared: PreparedStage,
  state: unknown,
  services: number,
  changes: number,
): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < changes; i++) {
    const takeIn = prepared.change(state, (i * STRIDE) % services, 1 + Math.floor(i / services));
    const startedMs = systemClock.monotonic();
    await takeIn();
    times.push((systemClock.monotonic() - startedMs) * 1000);
  }
  return times.sort((a, b) => a - b)[changes >> 1]!;
}

async function heapInUse(): Promise<number> {
  const { gc } = globalThis as { gc?: () => void };
  if (gc === undefined) throw new Error("memory cannot be measured without --v8-flags=--expose-gc");
  // A turn of the event loop ends the promises of the last fill, and what one collection finalizes, the next one frees.
  for (let i = 0; i < 3; i++) {
    await sleep(systemClock, 0);
    gc();
  }
  return Deno.memoryUsage().heapUsed;
}
