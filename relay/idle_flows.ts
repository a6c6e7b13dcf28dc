/** The order in which flows were last used, and the end of idle ones. */
import type { Clock } from "../platform/mod.ts";

/** Inputs of `createIdleFlows`. */
export interface IdleFlowsOptions<Flow> {
  readonly clock: Clock;
  readonly idleMs: number;
  /** For promoted flows. */
  readonly streamIdleMs: number;
  /** Called for a flow that was idle for too long; it must remove the flow. */
  readonly onIdle: (flow: Flow) => void;
}

/** Flows in the order of their last use, with a resolution of half a second. */
export interface IdleFlows<Flow> {
  add(flow: Flow): void;
  touch(flow: Flow): void;
  /** Gives a flow the longer time of streams. */
  promote(flow: Flow): void;
  remove(flow: Flow): void;
  size(): number;
  /** The flow that was used longest ago; streams come last. */
  oldest(): Flow | undefined;
}

/** Datagrams within this time do not change the order, so that a busy flow costs nothing here. */
const RESOLUTION_MS = 500;
const SWEEP_MS = 1000;

/** Creates an empty table. A timer runs while it is not empty. */
export function createIdleFlows<Flow>(options: IdleFlowsOptions<Flow>): IdleFlows<Flow> {
  const { clock, onIdle } = options;
  /** The time of the last use, in its order. */
  const flows = new Map<Flow, number>();
  const streams = new Map<Flow, number>();
  let cancelSweep: (() => void) | undefined;

  const holderOf = (flow: Flow) => streams.has(flow) ? streams : flows;
  const renew = (flow: Flow, from: Map<Flow, number>, to: Map<Flow, number>) => {
    from.delete(flow);
    to.set(flow, clock.monotonic());
  };
  const end = (held: Map<Flow, number>, idleMs: number) => {
    const latestMs = clock.monotonic() - idleMs;
    for (const [flow, usedMs] of held) {
      if (usedMs > latestMs) return;
      onIdle(flow);
    }
  };
  const sweep = () => {
    end(flows, options.idleMs);
    end(streams, options.streamIdleMs);
    cancelSweep = undefined;
    keepSweeping();
  };
  const keepSweeping = () => {
    if (flows.size + streams.size > 0) cancelSweep ??= clock.schedule(SWEEP_MS, sweep);
    else {
      cancelSweep?.();
      cancelSweep = undefined;
    }
  };

  return {
    add(flow) {
      flows.set(flow, clock.monotonic());
      keepSweeping();
    },
    touch(flow) {
      const held = holderOf(flow);
      const usedMs = held.get(flow);
      if (usedMs !== undefined && clock.monotonic() - usedMs >= RESOLUTION_MS) renew(flow, held, held);
    },
    promote(flow) {
      if (flows.has(flow)) renew(flow, flows, streams);
    },
    remove(flow) {
      flows.delete(flow);
      streams.delete(flow);
      keepSweeping();
    },
    size: () => flows.size + streams.size,
    oldest: () => first(flows) ?? first(streams),
  };
}

function first<Key>(map: ReadonlyMap<Key, unknown>): Key | undefined {
  for (const key of map.keys()) return key;
  return undefined;
}
