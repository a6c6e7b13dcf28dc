import type { FamilyDelta } from "./delta.ts";
import { type ServicePort, type ServicePortKey, servicePortKey } from "./service_port.ts";

/**
 * The ports of the relay that carries the connections of a service port (userspace mode), one for each list of endpoints that
 * some verdict uses.
 */
export interface RelayPorts {
  /** The port whose connections go to `clusterEndpoints`. */
  readonly cluster?: number;
  /** The port whose connections go to `localEndpoints`. */
  readonly local?: number;
}

/** The address and the ports at which the relay of a family listens. */
export interface RelayPlaces {
  /** See `FamilySettings.relayAddress`. */
  readonly address: string | undefined;
  /** Without the service ports that the relay does not carry. */
  readonly ports: ReadonlyMap<ServicePortKey, RelayPorts>;
}

/** The ports of the relay for a service port. */
export function relayPortsOf({ relay }: Pick<ServicePort, "relay">): number[] {
  return [relay?.cluster, relay?.local].filter((port) => port !== undefined);
}

/** The delta as the rules need it: with the relay's address and ports. */
export function withRelayPlaces(delta: FamilyDelta, { address, ports }: RelayPlaces): FamilyDelta {
  const { settings } = delta;
  return {
    ...delta,
    settings: settings && { ...settings, relayAddress: address },
    set: delta.set.map((port) => {
      const relay = ports.get(servicePortKey(port.name, port.protocol));
      return relay === undefined ? port : { ...port, relay };
    }),
  };
}
