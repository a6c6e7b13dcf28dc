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

/** A port that an endpoint has for the port of that name of its service; of every protocol where none is told. */
export interface PortOverride {
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol | undefined;
}

/** An endpoint as it came over the wire, checked. */
export interface ReceivedEndpoint {
  readonly service: ServiceKey;
  /** Where it came from: an EndpointSlice, or whatever KPNG calls SourceName. */
  readonly source: string;
  /** The EndpointSlice that it is of, where a Sluice said so: then `overrides` are all of its ports. */
  readonly slice: string | undefined;
  readonly overrides: readonly PortOverride[];
  /** One for each of its addresses. */
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

const portLists = createInterner<readonly EndpointPort[]>(5_000);
/** The hash in a slice's name, by what is hashed: thousands of slices have a few lists of ports. */
const portHashes = createInterner<string>(5_000);

/**
 * The slices of a service that its endpoints make up: as they were where they came from EndpointSlices, and otherwise one
 * for each source, family and list of ports. Those that say the same as in `before` are the same objects.
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
 * Which port of the endpoint each port of its service means, as KPNG's PortMapping has it: one told for the name of the
 * service's port, or for that of its target; otherwise the target's number. A port that means none is not served.
 */
function portsOf(service: Service | undefined, overrides: readonly PortOverride[]): readonly EndpointPort[] {
  const ports = (service?.ports ?? []).flatMap(({ name, protocol, target }): EndpointPort[] => {
    const told = overrides.find((one) => one.name === name) ??
      overrides.find((one) => target?.name && one.name === target.name);
    const port = told?.port ?? target?.port ?? 0;
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
  const hash = portHashes.get(hashed, () => contentHash(new TextEncoder().encode(hashed)).text.slice(0, 8));
  return `${source}.${hash}`;
}

function textOfPorts(ports: readonly EndpointPort[]): string {
  return ports.map(({ name, protocol, port }) => `${name}/${protocol}/${port}`).join();
}
