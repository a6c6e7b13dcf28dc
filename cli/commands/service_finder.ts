/** Finds services for commands that watch the kernel. */
import type { Answers } from "../../answers/mod.ts";
import { type FamilyDelta, frontendsOf, type Protocol, type ServicePortName } from "../../core/model/mod.ts";
import { indexFrontends } from "../../backends/traffic/mod.ts";
import { type Clock, FAMILIES, type Family, familyOf } from "../../platform/mod.ts";

/** Finds the service port of a frontend in the state of the running proxy. */
export interface ServiceFinder {
  find(address: string, protocol: Protocol, port: number): ServicePortName | undefined;
  /** The frontends of a family, each `address . protocol . port` as in a set of nft, and the node ports. */
  frontends(family: Family): Frontends;
}

/** Frontends of services, for rules of nft. */
export interface Frontends {
  readonly addresses: readonly string[];
  /** `protocol . port`. */
  readonly nodePorts: readonly string[];
}

/** The least time between two readings of the state. */
const REFRESH_MS = 2_000;

/** Reads the state, and reads it again in the background when a frontend is unknown. */
export async function createServiceFinder(answers: Pick<Answers, "state">, clock: Clock): Promise<ServiceFinder> {
  const read = () => Promise.all(FAMILIES.map((family) => answers.state(family)));
  let states: readonly FamilyDelta[];
  let indexes: ReturnType<typeof indexFrontends>[];
  let readAtMs = 0, isReading = false;
  const use = (read: readonly FamilyDelta[]) => {
    states = read;
    indexes = states.map(({ set }) => indexFrontends(set));
    readAtMs = clock.monotonic();
  };
  use(await read());
  return {
    find(address, protocol, port) {
      const family = familyOf(address);
      const key = indexes[FAMILIES.indexOf(family)]!.find(address, protocol, port);
      if (key !== undefined) return key.slice(0, key.lastIndexOf("|"));
      if (!isReading && clock.monotonic() - readAtMs > REFRESH_MS) {
        isReading = true;
        read().then(use).catch(() => {}).finally(() => isReading = false);
      }
      return undefined;
    },
    frontends(family) {
      const addresses = new Set<string>(), nodePorts = new Set<string>();
      for (const servicePort of states[FAMILIES.indexOf(family)]!.set) {
        for (const { kind, address, port } of frontendsOf(servicePort)) {
          if (kind === "nodePort") nodePorts.add(`${servicePort.protocol} . ${port}`);
          else addresses.add(`${address} . ${servicePort.protocol} . ${port}`);
        }
      }
      return { addresses: [...addresses], nodePorts: [...nodePorts] };
    },
  };
}
