/**
 * What objects say that load balancing does not need. It is only read, and kept, for those who hand the state on to
 * others (`sluice serve`, `sluice export`): on a node it would be memory for nothing.
 */
import { isWholeNumber } from "./problems.ts";
import { type RawObject, rawObject, textOf } from "./raw.ts";

/** What a Service says besides. */
export interface ServiceDetails {
  readonly labels: Readonly<Record<string, string>>;
  /** Empty for what the API said: they can be larger than all the rest. */
  readonly annotations: Readonly<Record<string, string>>;
  /** KPNG's `MapIP`. */
  readonly mapIP: boolean;
}

/** Which port of its pods a service's port asks for. */
export interface PortTarget {
  /** 0 where it is told by name. */
  readonly port: number;
  readonly name: string;
}

/** What an EndpointSlice's origin was where it was no EndpointSlice. */
export interface SliceOrigin {
  /** KPNG's `SourceName`, which several slices can share. */
  readonly source: string;
}

/** What an endpoint says besides. */
export interface EndpointDetails {
  readonly podName: string;
  readonly hostname: string;
}

/** What a Node says besides. */
export interface NodeDetails {
  readonly labels: Readonly<Record<string, string>>;
  /** Empty for what the API said. */
  readonly annotations: Readonly<Record<string, string>>;
}

const NO_TEXTS: Readonly<Record<string, string>> = Object.freeze({});

/** The details in the metadata of a Service. */
export function readServiceDetails(labels: RawObject): ServiceDetails {
  return { labels: textsOf(labels), annotations: NO_TEXTS, mapIP: false };
}

/** The details in a port of a Service. Without a targetPort, the API says, the port itself is meant. */
export function readPortTarget(raw: RawObject): PortTarget {
  const { targetPort, port } = raw;
  if (typeof targetPort === "string" && targetPort !== "") return { port: 0, name: targetPort };
  const number = isWholeNumber(targetPort, 1, 65535) ? targetPort : port;
  return { port: isWholeNumber(number, 1, 65535) ? number : 0, name: "" };
}

/** The details of an endpoint; undefined where it says nothing. */
export function readEndpointDetails(raw: RawObject): EndpointDetails | undefined {
  const { kind, name } = rawObject(raw.targetRef);
  const podName = kind === "Pod" ? textOf(name) : "";
  const hostname = textOf(raw.hostname);
  return podName === "" && hostname === "" ? undefined : { podName, hostname };
}

/** The details in the metadata of a Node. */
export function readNodeDetails(labels: RawObject): NodeDetails {
  return { labels: textsOf(labels), annotations: NO_TEXTS };
}

function textsOf(raw: RawObject): Readonly<Record<string, string>> {
  const entries = Object.entries(raw).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  return entries.length === 0 ? NO_TEXTS : Object.fromEntries(entries);
}
