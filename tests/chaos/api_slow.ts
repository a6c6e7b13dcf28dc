/** The API server's bytes come a few at a time, and one list stops coming in its middle. */
import assert from "node:assert/strict";
import { systemClock } from "../../platform/clock.ts";
import type { FakeApiServer } from "../fakes/api_server.ts";
import { startFront } from "./front.ts";
import { API_LINK, withLab } from "./lab.ts";
import type { Figures, Scenario } from "./scenario.ts";
import { serve } from "./serving.ts";

/** In nftables mode: what the API says is planned in the same way in every mode. */
export const apiSlow: readonly Scenario[] = [{ name: "api: its bytes trickle, a list stops in its middle", run: slow }];

const TRICKLED_MS = 20_000;
/** After 30 s the list is asked for again. */
const REPEATED_MS = 33_000;

const START_OF_LIST = '{"kind":"ServiceList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"sv';

function slow(): Promise<Figures> {
  return withLab(async (lab) => {
    const front = startFront(API_LINK.server, lab.api.url);
    try {
      const serving = await serve(lab, { cluster: { server: front.url } });
      front.trickle(true);
      serving.change();
      const eventsMs = await serving.inEffect(TRICKLED_MS);

      const startedMs = systemClock.monotonic();
      const stopped = stopOneList(lab.api);
      lab.api.expire();
      lab.api.dropWatches();
      await stopped;
      serving.change();
      // What does not wait for that list.
      const listsMs = await serving.slicesInEffect(TRICKLED_MS);
      front.trickle(false);
      await serving.inEffect(REPEATED_MS);
      const allMs = systemClock.monotonic() - startedMs;
      assert.ok(serving.sluice.log().includes("list services at"), "nobody noticed the list that stopped");
      const figures = await serving.end();
      return {
        "events trickle: in effect after ms": Math.round(eventsMs),
        "lists trickle, Services' stops: slices in effect after ms": Math.round(listsMs),
        "and everything after ms": Math.round(allMs),
        ...figures,
      };
    } finally {
      front.close();
    }
  });
}

/** The next list of Services stops in its middle and is not ended. Resolves when it has been asked for. */
function stopOneList(api: FakeApiServer): Promise<void> {
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
