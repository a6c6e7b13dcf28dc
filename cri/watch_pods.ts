import { openConnection } from "../kpng/client/mod.ts";
import { type Clock, createBackoff, errorText, sameData, sleep } from "../platform/mod.ts";
import type { PodReport } from "./live_pod.ts";
import { createPodReader } from "./pods.ts";

/** The rest between two looks at the pods: they start one after another. */
const REST_MS = 1_000;

/** The waits after failures: a runtime that starts with the node is there soon. */
const BACKOFF = { firstMs: 100, longestMs: 2_000 };

/** Watches the pods of the runtime at a socket, until the process ends. `onReport` is called with each report that differs. */
export async function watchPods(path: string, clock: Clock, onReport: (report: PodReport) => void): Promise<never> {
  const backoff = createBackoff(BACKOFF);
  let last: PodReport | undefined;
  const report = (next: PodReport) => {
    if (!sameData(last, next)) onReport(next);
    last = next;
  };
  for (;;) {
    const { promise: ended, reject } = Promise.withResolvers<never>();
    ended.catch(() => {});
    try {
      const connection = await openConnection({
        address: { kind: "unix", path },
        tls: undefined,
        clock,
        onEnd: reject,
      });
      try {
        const reader = createPodReader(connection, clock);
        for (;;) {
          report({ pods: await Promise.race([reader.read(), ended]) });
          backoff.reset();
          await Promise.race([sleep(clock, REST_MS), ended]);
        }
      } finally {
        connection.close();
      }
    } catch (error) {
      report({ problem: errorText(error) });
    }
    await sleep(clock, backoff.nextMs());
  }
}
