import type { ProxyMode } from "../../core/model/mod.ts";
import type { FakeApiServer } from "../fakes/api_server.ts";
import { change, cluster, service, slice } from "./cluster.ts";
import { takeSnapshot } from "./kernel.ts";
import type { ChaosLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import type { Counts } from "./scenario.ts";
import { type ChaosSluice, type SluiceOptions, startSluice } from "./sluice.ts";
import { createSyncMarker } from "./sync_marker.ts";
import { waitFor } from "./wait.ts";

const SERVICES = 100;
const ADDED = { name: "added", address: "10.96.0.4" } as const;
/** Planning from the API does not depend on the mode. */
const MODE: ProxyMode = "nftables";

/** A Sluice in sync with an API server, with traffic through all services, while the API server or the link to it fails. */
export interface Serving {
  readonly sluice: ChaosSluice;
  /** Changes a large part of the cluster. */
  change(): void;
  /** Resolves with the milliseconds until every change is in effect; throws after `withinMs`. */
  inEffect(withinMs: number): Promise<number>;
  /** Like `inEffect`, but for EndpointSlices only. */
  slicesInEffect(withinMs: number): Promise<number>;
  /** Throws with the differences if the kernel's rules changed since everything was last in effect. */
  assertRulesUnchanged(message: string): Promise<void>;
  /** Continues with another API server, which holds the initial cluster. */
  useServer(api: FakeApiServer): void;
  /** Restores the initial cluster, checks that the kernel holds the rules of the first start, and stops Sluice. */
  end(): Promise<Counts>;
}

/** Loads the initial cluster into a server. */
export function fill(api: FakeApiServer): void {
  api.apply(...cluster(SERVICES));
  applyEcho({ api });
}

/** Starts Sluice with 100 services. */
export async function serve(lab: ChaosLab, options: Omit<SluiceOptions, "mode"> = {}): Promise<Serving> {
  let current = lab;
  fill(lab.api);
  let marker = createSyncMarker(lab);
  const sluice = await startSluice(lab, { mode: MODE, ...options });
  await marker.settle();
  const first = await takeSnapshot(lab, MODE);
  const traffic = startTraffic(lab, SERVICES);
  let before = first;
  let round = 0;
  return {
    sluice,
    change: () => change(current, SERVICES, round++),
    async inEffect(withinMs) {
      const both = [marker.move(withinMs), addAndDeleteService(current, withinMs)];
      // Wait for both even if one fails: the lab is torn down afterwards.
      await Promise.allSettled(both);
      const tookMs = await Promise.all(both);
      await marker.settle();
      before = await takeSnapshot(lab, MODE);
      return Math.max(...tookMs);
    },
    slicesInEffect: (withinMs) => marker.move(withinMs),
    assertRulesUnchanged: (message) => before.assertUnchanged(message),
    useServer(api) {
      current = { ...lab, api };
      marker = createSyncMarker(current);
    },
    async end() {
      fill(current.api);
      await marker.settle();
      const counts = await traffic.end();
      await first.waitUntilRestored(10_000);
      await sluice.end("SIGTERM");
      return counts;
    },
  };
}

/**
 * Adds a service, deletes it once it is served and waits until it is gone: then all earlier changes of Services are in
 * effect. Resolves with the milliseconds until it was served.
 */
async function addAndDeleteService(lab: ChaosLab, withinMs: number): Promise<number> {
  const { name, address } = ADDED;
  const isServed = async () => {
    const target = { protocol: "tcp", address, port: 80, timeoutMs: 300 } as const;
    return (await lab.connect("pod-1", target)).kind === "answered";
  };
  lab.api.apply(service(name, [address]), slice(name, "IPv4", ["pod-2"]));
  const tookMs = await waitFor("the new service to be served", withinMs, isServed);
  lab.api.remove(service(name, [address]), slice(name, "IPv4", []));
  await waitFor("the deleted service to be gone", withinMs, async () => !await isServed());
  return tookMs;
}
