import type { ProxyMode } from "../../core/model/mod.ts";
import type { FakeApiServer } from "../fakes/api_server.ts";
import { rememberState } from "./as_fresh.ts";
import { change, cluster } from "./cluster.ts";
import type { ChaosLab } from "./lab.ts";
import { applyEcho, startTraffic } from "./probes.ts";
import type { Figures } from "./scenario.ts";
import { passService } from "./passing_service.ts";
import { createSentinel } from "./sentinel.ts";
import { type ChaosSluice, type SluiceOptions, startSluice } from "./sluice.ts";

const SERVICES = 100;
/** What the API says is planned in the same way in every mode. */
const MODE: ProxyMode = "nftables";

/** A Sluice in sync with an API server, and traffic through all services, while the server or the way to it is spoiled. */
export interface Serving {
  readonly sluice: ChaosSluice;
  /** Changes a good part of the cluster. */
  change(): void;
  /** Resolves, with the milliseconds that took, once every change is in effect; throws where that is late. */
  inEffect(withinMs: number): Promise<number>;
  /** The same of slices alone. */
  slicesInEffect(withinMs: number): Promise<number>;
  /** Whether the kernel holds what it held when everything was last in effect. */
  holdsStill(): Promise<boolean>;
  /** Another server has the cluster from now on; as it was at first. */
  isMovedTo(api: FakeApiServer): void;
  /** Brings everything back to where it began, and ends: the kernel then holds what it held after the first start. */
  end(): Promise<Figures>;
}

/** Puts the cluster into a server; what `Serving` knows of it. */
export function fill(api: FakeApiServer): void {
  api.apply(...cluster(SERVICES));
  applyEcho({ api });
}

/** Starts it, with 100 services. */
export async function serve(lab: ChaosLab, options: Omit<SluiceOptions, "mode"> = {}): Promise<Serving> {
  let current = lab;
  fill(lab.api);
  let sentinel = createSentinel(lab);
  const sluice = await startSluice(lab, { mode: MODE, ...options });
  await sentinel.settle();
  const first = await rememberState(lab, MODE);
  const traffic = startTraffic(lab, SERVICES);
  let before = first;
  let round = 0;
  return {
    sluice,
    change: () => change(current, SERVICES, round++),
    async inEffect(withinMs) {
      const both = [sentinel.move(withinMs), passService(current, withinMs)];
      // Nothing goes on in a lab that is taken down.
      await Promise.allSettled(both);
      const tookMs = await Promise.all(both);
      await sentinel.settle();
      before = await rememberState(lab, MODE);
      return Math.max(...tookMs);
    },
    slicesInEffect: (withinMs) => sentinel.move(withinMs),
    holdsStill: () => before.holds(),
    isMovedTo(api) {
      current = { ...lab, api };
      sentinel = createSentinel(current);
    },
    async end() {
      fill(current.api);
      await sentinel.settle();
      const figures = await traffic.end();
      await first.isBack(10_000);
      await sluice.end("SIGTERM");
      return figures;
    },
  };
}
