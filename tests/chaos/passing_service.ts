import { service, slice } from "./cluster.ts";
import type { ChaosLab } from "./lab.ts";
import { until } from "./until.ts";

const PASSING = { name: "passing", address: "10.96.0.4" } as const;

/**
 * A service comes, and goes when it is served: then all that was sent of Services before is in effect. Resolves, with the
 * milliseconds until it was served, when it is served no more.
 */
export async function passService(lab: ChaosLab, withinMs: number): Promise<number> {
  const { name, address } = PASSING;
  const isServed = async () => {
    const target = { protocol: "tcp", address, port: 80, timeoutMs: 300 } as const;
    return (await lab.connect("pod-1", target)).kind === "answered";
  };
  lab.api.apply(service(name, [address]), slice(name, "IPv4", ["pod-2"]));
  const tookMs = await until("a new service is served", withinMs, isServed);
  lab.api.remove(service(name, [address]), slice(name, "IPv4", []));
  await until("a service that is gone is not served any more", withinMs, async () => !await isServed());
  return tookMs;
}
