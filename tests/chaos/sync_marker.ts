import { FAMILIES } from "../../platform/address.ts";
import { service, SERVING, slice } from "./cluster.ts";
import type { ChaosLab } from "./lab.ts";
import { TIMEOUT_FACTOR, waitFor } from "./wait.ts";

const ADDRESSES = { IPv4: "10.96.0.2", IPv6: "fd00:10:96::2" } as const;

/** A dual-stack service whose endpoint moves: once connections reach the new pod, all earlier changes are in effect. */
export interface SyncMarker {
  /** Moves the endpoint and resolves with the milliseconds until both families reach the new pod. */
  move(withinMs?: number): Promise<number>;
  /**
   * Waits until the sync of everything sent so far has finished. The marker may move before its sync ends, but the next
   * sync starts only afterwards, so it moves twice. Always ends on the same pod, for comparisons of the kernel's state.
   */
  settle(withinMs?: number): Promise<void>;
}

/** Adds the marker service to the cluster. */
export function createSyncMarker(lab: ChaosLab): SyncMarker {
  lab.api.apply(service("sync-marker", Object.values(ADDRESSES)));
  let moves = 0;
  const move = (withinMs = 30_000) => {
    const pod = SERVING[++moves % SERVING.length]!;
    lab.api.apply(...FAMILIES.map((family) => slice("sync-marker", family, [pod])));
    return waitFor(`the sync marker answers from ${pod}`, withinMs, async () => {
      for (const family of FAMILIES) {
        const target = {
          protocol: "tcp",
          address: ADDRESSES[family],
          port: 80,
          timeoutMs: 300 * TIMEOUT_FACTOR,
        } as const;
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
