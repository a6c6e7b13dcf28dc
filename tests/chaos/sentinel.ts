import { FAMILIES } from "../../platform/address.ts";
import { service, SERVING, slice } from "./cluster.ts";
import type { ChaosLab } from "./lab.ts";
import { PATIENCE, until } from "./until.ts";

const ADDRESSES = { IPv4: "10.96.0.2", IPv6: "fd00:10:96::2" } as const;

/** A service of both families whose endpoint moves: once it has moved, all that was sent before is in effect. */
export interface Sentinel {
  /** Moves it and resolves, with the milliseconds that took, when that is in effect in both families. */
  move(withinMs?: number): Promise<number>;
  /**
   * Everything sent so far is in effect as a whole. A sync puts the sentinel's move into effect before it has ended, and
   * the next one starts when it has: two moves. It ends where it was after the first time.
   */
  settle(withinMs?: number): Promise<void>;
}

/** Puts the sentinel into the cluster. */
export function createSentinel(lab: ChaosLab): Sentinel {
  lab.api.apply(service("sentinel", Object.values(ADDRESSES)));
  let moves = 0;
  const move = (withinMs = 30_000) => {
    const pod = SERVING[++moves % SERVING.length]!;
    lab.api.apply(...FAMILIES.map((family) => slice("sentinel", family, [pod])));
    return until(`the sentinel's move to ${pod} in effect`, withinMs, async () => {
      for (const family of FAMILIES) {
        const target = { protocol: "tcp", address: ADDRESSES[family], port: 80, timeoutMs: 300 * PATIENCE } as const;
        const outcome = await lab.connect("pod-1", target);
        if (outcome.kind !== "answered" || outcome.by !== pod) return false;
      }
      return true;
    });
  };
  return {
    move,
    async settle(withinMs) {
      if (moves % 2 === 1) await move(withinMs);
      await move(withinMs);
      await move(withinMs);
    },
  };
}
