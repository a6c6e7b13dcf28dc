import * as shape from "../../platform/shapes/mod.ts";
import { FAMILY_SETTINGS } from "./family_settings.ts";
import {
  type RelayPorts,
  SERVICE_PORT,
  SERVICE_PORT_KEY,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
} from "./service_port.ts";

/** The changes of a family since the revision `base`, or a full snapshot. */
export const FAMILY_DELTA = shape.record({
  /** The revision after this delta. */
  revision: shape.COUNT,
  /** The revision that this delta changes; undefined for a full snapshot, which replaces everything. */
  base: shape.orUndefined(shape.COUNT),
  /** Undefined if unchanged; always present in a full snapshot. */
  settings: shape.orUndefined(FAMILY_SETTINGS),
  set: shape.list(SERVICE_PORT),
  deleted: shape.list(SERVICE_PORT_KEY),
  /**
   * The part of a full snapshot that is sent in two batches. The `head` has the service ports that must take effect first and
   * leaves all others in the kernel unchanged; the `rest` follows.
   */
  part: shape.optional(shape.oneOf("head", "rest")),
});

/** See `FAMILY_DELTA`. */
export interface FamilyDelta extends shape.TypeOf<typeof FAMILY_DELTA> {}

/** Whether the receiver has the full state of the family after this delta. */
export function completesState({ base, part }: FamilyDelta): boolean {
  return part === undefined ? base === undefined : part === "rest";
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

/** A range of ports, both ends included. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}
