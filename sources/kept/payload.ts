/** Objects as compressed lines (gzip). */
import {
  type BalanceAnnotations,
  type ClusterObject,
  type EndpointPort,
  type EndpointSlice,
  internString,
  internStrings,
  type Node,
  type NodeLabels,
  type PodLabels,
  type PodRef,
  type Service,
  type ServiceCIDR,
  type ServicePortSpec,
  type SliceEndpoint,
} from "../../core/objects/mod.ts";
import { type Clock, startTurn } from "../../platform/mod.ts";

/** Compressed objects. */
export interface Packed {
  readonly payload: Uint8Array<ArrayBuffer>;
  /** How long the event loop was blocked in total, in milliseconds. */
  readonly busyMs: number;
}

/** The text compressed at once, in characters: about a millisecond of work. */
const PIECE = 32_768;
/** The maximum time without yielding, in milliseconds: a change of the cluster waits no longer than this. */
const TURN_MS = 5;

/**
 * Compresses objects, in pieces; objects that are added, changed or deleted at the same time may be missing from the result.
 */
export async function packObjects(objects: Iterable<ClusterObject>, clock: Clock): Promise<Packed> {
  const gzip = new CompressionStream("gzip");
  const packed = new Response(gzip.readable).bytes();
  const writer = gzip.writable.getWriter();
  const encoder = new TextEncoder();
  const yieldTurn = startTurn(clock, TURN_MS);
  let busyMs = 0;
  let startMs = clock.monotonic();
  let piece = "";
  const flush = async () => {
    await writer.write(encoder.encode(piece));
    piece = "";
    busyMs += clock.monotonic() - startMs;
    await yieldTurn();
    startMs = clock.monotonic();
  };
  for (const object of objects) {
    piece += lineOf(object);
    if (piece.length >= PIECE) await flush();
  }
  await flush();
  await writer.close();
  return { payload: await packed, busyMs };
}

/** Reads compressed objects, in pieces. Throws an Error if they are not of this version. */
export async function unpackObjects(payload: Uint8Array<ArrayBuffer>, clock: Clock): Promise<readonly ClusterObject[]> {
  const yieldTurn = startTurn(clock);
  const objects: ClusterObject[] = [];
  let rest = "";
  const text = new Blob([payload]).stream().pipeThrough(new DecompressionStream("gzip"))
    .pipeThrough(new TextDecoderStream());
  for await (const piece of text) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop()!;
    for (const line of lines) objects.push(objectOfLine(line));
    await yieldTurn();
  }
  if (rest !== "") throw new Error("its last line is incomplete");
  return objects;
}

/** Returns a value as a `T`; throws if it is not a `T`. */
type Read<T> = (value: unknown) => T;

/** Formats an object as a line, without the time of its change: only changes after the start of a proxy count. */
export function lineOf(object: ClusterObject): string {
  const kept = object.kind === "EndpointSlice" ? { ...object, triggerTimeMs: undefined } : object;
  return `${JSON.stringify(kept)}\n`;
}

/** Parses the line of an object. Throws an Error if it is not an object of this version. */
export function objectOfLine(line: string): ClusterObject {
  const value = JSON.parse(line);
  const read = READERS[value?.kind as ClusterObject["kind"]];
  if (read === undefined) throw new Error("an object of an unknown kind");
  return read(value);
}

const text: Read<string> = (value) => {
  if (typeof value !== "string") throw new Error("a field is not text");
  return value;
};
const shared: Read<string> = (value) => internString(text(value));
const flag: Read<boolean> = (value) => {
  if (typeof value !== "boolean") throw new Error("a field is not true or false");
  return value;
};
const whole: Read<number> = (value) => {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new Error("a field is not a whole number");
  return value as number;
};
const absent: Read<undefined> = () => undefined;

function oneOf<T extends string>(...values: readonly T[]): Read<T> {
  return (value) => {
    const found = values.find((one) => one === value);
    if (found === undefined) throw new Error(`a field is not one of ${values.join(", ")}`);
    return found;
  };
}

function list<T>(read: Read<T>): Read<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) throw new Error("a field is not a list");
    return value.map(read);
  };
}

function optional<T>(read: Read<T>): Read<T | undefined> {
  return (value) => value === undefined ? undefined : read(value);
}

/** Reads every field of `T`; leaves undefined ones out. */
function fields<T extends object>(readers: { readonly [K in keyof T]-?: Read<T[K]> }): Read<T> {
  const entries = Object.entries(readers) as [string, Read<unknown>][];
  return (value) => {
    if (typeof value !== "object" || value === null) throw new Error("a field is not an object");
    const read: Record<string, unknown> = {};
    for (const [name, readField] of entries) {
      const field = readField((value as Record<string, unknown>)[name]);
      if (field !== undefined) read[name] = field;
    }
    return read as T;
  };
}

const texts = list(text);
const names: Read<readonly string[]> = (value) => internStrings(texts(value));
const labels: Read<Readonly<Record<string, string>>> = (value) => {
  if (typeof value !== "object" || value === null) throw new Error("a field is not an object");
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [internString(key), shared(one)]));
};
const protocol = oneOf("tcp", "udp", "sctp");

const READERS: { readonly [K in ClusterObject["kind"]]: Read<Extract<ClusterObject, { kind: K }>> } = {
  Service: fields<Service>({
    kind: oneOf("Service"),
    namespace: shared,
    name: shared,
    type: oneOf("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    clusterIPs: texts,
    externalIPs: texts,
    loadBalancerIPs: texts,
    ports: list(fields<ServicePortSpec>({ name: shared, protocol, port: whole, nodePort: whole, target: absent })),
    affinitySeconds: whole,
    sourceRanges: texts,
    internalPolicyLocal: flag,
    externalPolicyLocal: flag,
    healthCheckNodePort: whole,
    ignored: flag,
    createdSeconds: optional(whole),
    isClusterDNS: (value) => value === undefined ? undefined : true,
    balancing: optional(
      fields<BalanceAnnotations>({
        balance: optional(text),
        affinityHash: optional(text),
        weights: optional(text),
      }),
    ),
    nodePortAddresses: optional(text),
    details: absent,
  }),
  EndpointSlice: fields<EndpointSlice>({
    kind: oneOf("EndpointSlice"),
    namespace: shared,
    name: text,
    serviceName: shared,
    family: oneOf("IPv4", "IPv6"),
    ports: list(fields<EndpointPort>({ name: shared, protocol, port: whole })),
    endpoints: list(fields<SliceEndpoint>({
      address: text,
      ready: flag,
      serving: flag,
      terminating: flag,
      nodeName: shared,
      zone: shared,
      zoneHints: optional(names),
      nodeHints: optional(names),
      pod: optional(fields<PodRef>({ namespace: shared, name: shared, uid: shared })),
      podName: optional(shared),
      details: absent,
    })),
    triggerTimeMs: () => 0,
    origin: absent,
  }),
  Node: fields<Node>({
    kind: oneOf("Node"),
    name: text,
    zone: shared,
    addresses: texts,
    podCIDRs: texts,
    leaving: flag,
    uid: absent,
    details: absent,
  }),
  ServiceCIDR: fields<ServiceCIDR>({ kind: oneOf("ServiceCIDR"), name: text, cidrs: texts }),
  NodeLabels: fields<NodeLabels>({ kind: oneOf("NodeLabels"), name: text, labels }),
  PodLabels: fields<PodLabels>({ kind: oneOf("PodLabels"), namespace: shared, name: text, labels }),
};
