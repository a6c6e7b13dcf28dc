/**
 * KPNG's messages (packages `localv1` and `globalv1`), with its field names in camel case. Fields from 1001 on are Sluice's own:
 * KPNG programs skip them, and they are only sent on request (see `WATCH_REQUEST`).
 */
import { familyOf } from "../../platform/mod.ts";
import {
  bool,
  bytes,
  double,
  int32,
  message,
  nested,
  several,
  text,
  textMap,
  texts,
  type TypeOf,
  uint64,
} from "../codec/mod.ts";

export const IP_SET = message({ v4: texts(1), v6: texts(2) });

export const IP_FILTER = message({ targetIPs: nested(1, IP_SET), sourceRanges: texts(2) });

/** KPNG's enum `Protocol`. */
export const PROTOCOL_NUMBERS = { UnknownProtocol: 0, TCP: 1, UDP: 2, SCTP: 3 } as const;

/** The protocols by KPNG's numbers, from 1. */
export const PROTOCOLS = [undefined, "tcp", "udp", "sctp"] as const;

export const PORT_MAPPING = message({
  name: text(1),
  protocol: int32(2, PROTOCOL_NUMBERS),
  port: int32(3),
  nodePort: int32(4),
  targetPort: int32(5),
  targetPortName: text(6),
});

export const SERVICE_IPS = message({
  clusterIPs: nested(1, IP_SET),
  externalIPs: nested(2, IP_SET),
  headless: bool(3),
  loadBalancerIPs: nested(4, IP_SET),
});

export const CLIENT_IP_AFFINITY = message({ timeoutSeconds: int32(1) });

export const SERVICE = message({
  namespace: text(1),
  name: text(2),
  type: text(3),
  ips: nested(4, SERVICE_IPS),
  mapIP: bool(5),
  ports: several(6, PORT_MAPPING),
  externalTrafficToLocal: bool(7),
  labels: textMap(8),
  annotations: textMap(9),
  ipFilters: several(10, IP_FILTER),
  clientIP: nested(11, CLIENT_IP_AFFINITY),
  internalTrafficToLocal: bool(12),
  healthCheckNodePort: int32(13),
  /** Sluice's own: when it was created, in seconds since 1970. */
  createdSeconds: double(1001),
  /** Sluice's own: a hash of its selector, so that nodes of a site notice another one. */
  selector: double(1002),
});

/** Overrides the endpoint's port for the service port with this name; `protocol` is Sluice's own. */
export const PORT_NAME = message({ name: text(1), port: int32(2), protocol: int32(1001, PROTOCOL_NUMBERS) });

export const ENDPOINT_SCOPES = message({ internal: bool(1), external: bool(2) });

/** The data of an endpoint beyond KPNG's messages, so that nothing is lost between two Sluices. */
export const ENDPOINT_DETAILS = message({
  notReady: bool(1),
  notServing: bool(2),
  terminating: bool(3),
  node: text(4),
  zone: text(5),
  zoneHints: texts(6),
  nodeHints: texts(7),
  /** The name of its EndpointSlice; all of the slice's endpoints carry all of its ports. */
  slice: text(8),
  /** When the slice's change was triggered, in milliseconds since 1970. */
  triggerTimeMs: double(9),
  /** Its pod in the namespace of the service; sent by the leader of a site whose nodes ask their container runtimes. */
  podName: text(10),
  podUid: text(11),
});

export const ENDPOINT = message({
  hostname: text(1),
  ips: nested(2, IP_SET),
  local: bool(3),
  portOverrides: several(4, PORT_NAME),
  scopes: nested(5, ENDPOINT_SCOPES),
  details: nested(1001, ENDPOINT_DETAILS),
});

export const TOPOLOGY_INFO = message({ node: text(1), zone: text(2) });

export const SERVICE_INFO = message({ hash: uint64(1), service: nested(2, SERVICE) });

export const ENDPOINT_CONDITIONS = message({ ready: bool(1) });

export const TOPOLOGY_HINTS = message({ zones: texts(1) });

export const ENDPOINT_INFO = message({
  hash: uint64(1),
  namespace: text(2),
  sourceName: text(3),
  serviceName: text(4),
  endpoint: nested(6, ENDPOINT),
  conditions: nested(7, ENDPOINT_CONDITIONS),
  podName: text(8),
  topology: nested(9, TOPOLOGY_INFO),
  hints: nested(10, TOPOLOGY_HINTS),
});

/** `addresses`, `podCIDRs` and `leaving` are Sluice's own. */
export const NODE = message({
  name: text(1),
  labels: textMap(2),
  annotations: textMap(3),
  topology: nested(4, TOPOLOGY_INFO),
  addresses: texts(1001),
  podCIDRs: texts(1002),
  leaving: bool(1003),
});

export const NODE_INFO = message({ hash: uint64(1), node: nested(2, NODE) });

/** Sluice's own: a range from which cluster IPs are allocated. */
export const SERVICE_CIDR = message({ name: text(1), cidrs: texts(2) });

/** The sets of a reference (enum `Set`), by KPNG's names; from 1001 on they are Sluice's own. */
export const SETS = {
  UnknownSet: 0,
  ServicesSet: 1,
  EndpointsSet: 2,
  GlobalServiceInfos: 10,
  GlobalEndpointInfos: 11,
  GlobalNodeInfos: 12,
  ServiceCIDRs: 1001,
} as const;

export const REF = message({ set: int32(1, SETS), path: text(2) });

export const VALUE = message({ ref: nested(1, REF), bytes: bytes(2) });

export const EMPTY_OP = message({});

export const OP_ITEM = message({
  sync: nested(1, EMPTY_OP),
  set: nested(2, VALUE),
  delete: nested(3, REF),
  reset: nested(4, EMPTY_OP),
});

/**
 * A request for the global state; KPNG's is empty. `extended` requests Sluice's own fields; with it, `onlyNode` limits the nodes to
 * one.
 */
export const GLOBAL_WATCH_REQUEST = message({ extended: bool(1001), onlyNode: text(1002) });

/** A request of either method. */
export const WATCH_REQUEST = message({ nodeName: text(1), extended: bool(1001), onlyNode: text(1002) });

export type ServiceMessage = TypeOf<typeof SERVICE>;
export type EndpointMessage = TypeOf<typeof ENDPOINT>;
export type EndpointInfoMessage = TypeOf<typeof ENDPOINT_INFO>;
export type NodeMessage = TypeOf<typeof NODE>;
export type ServiceCIDRMessage = TypeOf<typeof SERVICE_CIDR>;
export type IPSetMessage = TypeOf<typeof IP_SET>;

/** The gRPC methods, by the scope of their answers. */
export const METHODS = { global: "/globalv1.Sets/Watch", local: "/localv1.Sets/Watch" } as const;
/** A method that no server has, so that every server answers a call immediately. */
export const PROBE_METHOD = "/sluice.Probe/Answer";

/** Addresses by family; undefined for none. */
export function ipSet(addresses: readonly string[]): IPSetMessage | undefined {
  if (addresses.length === 0) return undefined;
  return {
    v4: addresses.filter((address) => familyOf(address) === "IPv4"),
    v6: addresses.filter((address) => familyOf(address) === "IPv6"),
  };
}

/** All addresses of a set. */
export function listIps({ v4 = [], v6 = [] }: IPSetMessage = {}): readonly string[] {
  return [...v4, ...v6];
}

/** Splits the path of an entry of a local state: `namespace/service`, or longer for an endpoint. */
export function splitLocalPath(path: string): { readonly namespace: string; readonly service: string } {
  const [namespace = "", service = ""] = path.split("/", 2);
  return { namespace, service };
}

/**
 * Whether the path of an endpoint of the global state, `namespace|service|source|hash`, is KPNG's second one, without the
 * service.
 */
export function isSecondPath(path: string): boolean {
  return path.split("|", 2)[1] === "";
}
