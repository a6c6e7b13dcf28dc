import { type Family, familyOf } from "../../platform/mod.ts";
import {
  createInterner,
  type EndpointPort,
  type EndpointSlice,
  type Service,
  type SliceEndpoint,
} from "../../core/objects/mod.ts";
import { sameSlice, type ServiceKey } from "../../core/tracking/mod.ts";
import { contentHash } from "../views/mod.ts";
import type { Protocol } from "../../core/model/mod.ts";

/** Overrides the endpoint's port for the service port with this name; for every protocol if `protocol` is undefined. */
export interface PortOverride {
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol | undefined;
}

/** A validated endpoint from the wire. */
export interface ReceivedEndpoint {
  readonly service: ServiceKey;
  /** Its source: an EndpointSlice, or KPNG's SourceName. */
  readonly source: string;
  /** Its EndpointSlice, if sent by a Sluice; `overrides` then contains all of its ports. */
  readonly slice: string | undefined;
  readonly overrides: readonly PortOverride[];
  /** One per address. */
  readonly endpoints: readonly SliceEndpoint[];
  readonly triggerTimeMs: number;
}

/** Slices by name. */
export type Slices = ReadonlyMap<string, EndpointSlice>;

interface Draft {
  readonly source: string;
  readonly family: Family;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: SliceEndpoint[];
  triggerTimeMs: number;
}

const portLists = createInterner<readonly EndpointPort[]>(300_000);
/** The hashes in slice names, cached: thousands of slices share a few port lists. */
const portHashes = createInterner<string>(300_000);

/**
 * Assembles the slices of a service from its endpoints: the original EndpointSlices if known, otherwise one per source, family
 * and port list. Slices equal to those in `before` are the same objects.
 */
export function assembleSlices(
  { namespace, name: serviceName }: { readonly namespace: string; readonly name: string },
  service: Service | undefined,
  received: Iterable<ReceivedEndpoint>,
  before: Slices,
): Slices {
  const drafts = new Map<string, Draft>();
  for (const { source, slice, overrides, endpoints, triggerTimeMs } of received) {
    const ports = slice === undefined ? portsOf(service, overrides) : exactPorts(overrides);
    for (const endpoint of endpoints) {
      const family = familyOf(endpoint.address);
      const name = slice ?? sliceName(source, family, ports);
      let draft = drafts.get(name);
      if (draft === undefined) drafts.set(name, draft = { source, family, ports, endpoints: [], triggerTimeMs: 0 });
      draft.triggerTimeMs = Math.max(draft.triggerTimeMs, triggerTimeMs);
      draft.endpoints.push(endpoint);
    }
  }
  const slices = new Map<string, EndpointSlice>();
  for (const [name, { source, endpoints, ...rest }] of drafts) {
    endpoints.sort((a, b) => a.address < b.address ? -1 : a.address > b.address ? 1 : 0);
    const origin = source === name ? undefined : { source };
    const slice: EndpointSlice = { kind: "EndpointSlice", namespace, name, serviceName, ...rest, endpoints, origin };
    const known = before.get(name);
    slices.set(name, known !== undefined && sameSlice(known, slice) ? known : slice);
  }
  return slices;
}

/**
 * The endpoint's port for each service port, as in KPNG's PortMapping: the override for the name of the service port or of its
 * target, else the target's number. A service port without one is not served.
 */
function portsOf(service: Service | undefined, overrides: readonly PortOverride[]): readonly EndpointPort[] {
  const ports = (service?.ports ?? []).flatMap(({ name, protocol, target }): EndpointPort[] => {
    const override = overrides.find((one) => one.name === name) ??
      overrides.find((one) => target?.name && one.name === target.name);
    const port = override?.port ?? target?.port ?? 0;
    return port === 0 ? [] : [{ name, protocol, port }];
  });
  return shared(ports);
}

function exactPorts(overrides: readonly PortOverride[]): readonly EndpointPort[] {
  return shared(overrides.map(({ name, port, protocol = "tcp" }) => ({ name, protocol, port })));
}

function shared(ports: readonly EndpointPort[]): readonly EndpointPort[] {
  return portLists.get(textOfPorts(ports), () => ports);
}

function sliceName(source: string, family: Family, ports: readonly EndpointPort[]): string {
  const hashed = `${family}|${textOfPorts(ports)}`;
  const hash = portHashes.get(hashed, () => contentHash(new TextEncoder().encode(hashed)).value.toString(16));
  return `${source}.${hash}`;
}

function textOfPorts(ports: readonly EndpointPort[]): string {
  return ports.map(({ name, protocol, port }) => `${name}/${protocol}/${port}`).join();
}
