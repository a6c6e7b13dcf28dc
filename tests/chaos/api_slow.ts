/** The API server responds very slowly, and one list stalls halfway. */
import assert from "node:assert/strict";
import { systemClock } from "../../platform/clock.ts";
import type { FakeApiServer } from "../fakes/api_server.ts";
import { API_LINK, withLab } from "./lab.ts";
import { startLoadBalancer } from "./load_balancer.ts";
import type { Counts, Scenario } from "./scenario.ts";
import { serve } from "./serving.ts";

/** In nftables mode only, because planning from the API does not depend on the mode. */
export const apiSlow: readonly Scenario[] = [{ name: "api: its responses trickle, a list stalls halfway", run: slow }];

const THROTTLED_LIMIT_MS = 20_000;
/** The list is requested again after 30 s. */
const RELIST_LIMIT_MS = 33_000;

const START_OF_LIST = '{"kind":"ServiceList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"sv';

function slow(): Promise<Counts> {
  return withLab(async (lab) => {
    const loadBalancer = startLoadBalancer(API_LINK.server, lab.api.url);
    try {
      const serving = await serve(lab, { cluster: { server: loadBalancer.url } });
      loadBalancer.throttle(true);
      serving.change();
      const eventsMs = await serving.inEffect(THROTTLED_LIMIT_MS);

      const startedMs = systemClock.monotonic();
      const stalled = stallOneList(lab.api);
      lab.api.expire();
      lab.api.dropWatches();
      await stalled;
      serving.change();
      // Slices do not wait for the stalled list of Services.
      const listsMs = await serving.slicesInEffect(THROTTLED_LIMIT_MS);
      loadBalancer.throttle(false);
      await serving.inEffect(RELIST_LIMIT_MS);
      const allMs = systemClock.monotonic() - startedMs;
      assert.ok(serving.sluice.log().includes("list services at"), "the log does not mention the stalled list");
      const counts = await serving.end();
      return {
        "slow events: in effect after ms": Math.round(eventsMs),
        "slow lists, that of Services stalled: slices in effect after ms": Math.round(listsMs),
        "everything in effect after ms": Math.round(allMs),
        ...counts,
      };
    } finally {
      loadBalancer.close();
    }
  });
}

/** Stalls the next list of Services halfway. Resolves when it has been requested. */
function stallOneList(api: FakeApiServer): Promise<void> {
  return new Promise((resolve) => {
    api.fault(({ verb, path }) => {
      if (verb !== "list" || !path.endsWith("/services")) return undefined;
      api.fault(undefined);
      resolve();
      const start = new TextEncoder().encode(START_OF_LIST);
      return new Response(new ReadableStream({ start: (controller) => controller.enqueue(start) }));
    });
  });
}
