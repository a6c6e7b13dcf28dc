import { joinHostPort } from "../../platform/mod.ts";
import {
  ENDPOINT,
  ENDPOINT_INFO,
  type EndpointMessage,
  isSecondPath,
  listIps,
  NODE_INFO,
  type NodeMessage,
  OP_ITEM,
  PROTOCOLS,
  SERVICE,
  SERVICE_INFO,
  type ServiceMessage,
  SETS,
} from "./messages.ts";

/** The names of KPNG's sets. */
type SetName = "services" | "endpoints" | "nodes";

/** A readable operation of a stream. */
export interface DescribedOperation {
  readonly op: "set" | "delete" | "sync" | "reset";
  readonly set?: SetName;
  readonly path?: string;
  readonly value?: object;
  readonly text?: string;
}

const NAMES: Readonly<Record<number, SetName>> = {
  [SETS.ServicesSet]: "services",
  [SETS.GlobalServiceInfos]: "services",
  [SETS.EndpointsSet]: "endpoints",
  [SETS.GlobalEndpointInfos]: "endpoints",
  [SETS.GlobalNodeInfos]: "nodes",
};

/** Describes an `OpItem`; undefined for the redundant second path of an endpoint. */
export function describeOperation(bytes: Uint8Array<ArrayBuffer>): DescribedOperation | undefined {
  const operation = OP_ITEM.decode(bytes);
  if (operation.reset !== undefined) return { op: "reset" };
  if (operation.sync !== undefined) return { op: "sync" };
  const { set: number = 0, path = "" } = operation.set?.ref ?? operation.delete ?? {};
  const set = NAMES[number];
  if (set === undefined || (number === SETS.GlobalEndpointInfos && isSecondPath(path))) return undefined;
  if (operation.set === undefined) return { op: "delete", set, path };
  return { op: "set", set, path, ...describeValue(number, operation.set.bytes ?? new Uint8Array()) };
}

function describeValue(set: number, bytes: Uint8Array<ArrayBuffer>): { value: object; text: string } {
  switch (set) {
    case SETS.ServicesSet:
    case SETS.GlobalServiceInfos: {
      const value = set === SETS.ServicesSet ? SERVICE.decode(bytes) : SERVICE_INFO.decode(bytes).service ?? {};
      return { value, text: serviceText(value) };
    }
    case SETS.EndpointsSet: {
      const value = ENDPOINT.decode(bytes);
      return { value, text: [...endpointTexts(value), ...scopeTexts(value)].join(" ") };
    }
    case SETS.GlobalEndpointInfos: {
      const { hash: _, ...value } = ENDPOINT_INFO.decode(bytes);
      const { podName, conditions, topology } = value;
      const words = endpointTexts(value.endpoint ?? {});
      if (podName) words.push(`pod ${podName}`);
      if (topology?.node) words.push(`on ${topology.node}`);
      if (conditions?.ready !== true) words.push("not ready");
      return { value, text: words.join(" ") };
    }
    default: {
      const { node = {} } = NODE_INFO.decode(bytes);
      return { value: node, text: nodeText(node) };
    }
  }
}

function serviceText({ type = "", ips = {}, ports = [] }: ServiceMessage): string {
  const addresses = [...listIps(ips.clusterIPs), ...listIps(ips.externalIPs), ...listIps(ips.loadBalancerIPs)];
  const portTexts = ports.map(({ port = 0, protocol = 0, nodePort = 0 }) =>
    `${port}${nodePort === 0 ? "" : `:${nodePort}`}/${(PROTOCOLS[protocol] ?? "?").toUpperCase()}`
  );
  return [type, addresses.join() || "headless", portTexts.join()].filter((word) => word !== "").join(" ");
}

function endpointTexts({ ips, portOverrides = [] }: EndpointMessage): string[] {
  const addresses = listIps(ips);
  const [first] = portOverrides;
  if (portOverrides.length === 1 && first?.port) return [addresses.map((ip) => joinHostPort(ip, first.port!)).join()];
  const ports = portOverrides.map(({ name, port }) => `${name}:${port}`);
  return [addresses.join(), ...ports.length === 0 ? [] : [ports.join()]];
}

function scopeTexts({ local, scopes }: EndpointMessage): string[] {
  const words = local ? ["on this node"] : [];
  if (scopes?.internal && !scopes.external) words.push("for internal traffic");
  if (scopes?.external && !scopes.internal) words.push("for external traffic");
  return words;
}

function nodeText({ labels = {}, topology }: NodeMessage): string {
  const zone = topology?.zone ?? labels["topology.kubernetes.io/zone"];
  return zone ? `zone ${zone}` : "";
}

/** The whole state of a node after a round, as JSON: the values are KPNG's messages of package localv1, sorted by path. */
interface StateDocument {
  readonly node: string;
  readonly services: readonly {
    /** `namespace/name`. */
    readonly path: string;
    readonly service: object;
    readonly endpoints: readonly { readonly path: string; readonly endpoint: object }[];
  }[];
}

/** Accumulates the operations of a node's local stream: the returned function returns the document at the end of each round. */
export function createDocumentedState(node: string): (operation: DescribedOperation) => StateDocument | undefined {
  const services = new Map<string, object>();
  const endpoints = new Map<string, Map<string, object>>();

  const put = ({ set, path = "", value }: DescribedOperation) => {
    if (set === "services") {
      if (value === undefined) services.delete(path);
      else services.set(path, value);
    } else if (set === "endpoints") {
      const owner = path.split("/", 2).join("/");
      const of = endpoints.get(owner) ?? new Map<string, object>();
      if (value === undefined) of.delete(path);
      else of.set(path, value);
      if (of.size > 0) endpoints.set(owner, of);
      else endpoints.delete(owner);
    }
  };

  const endpointsOf = (path: string) =>
    sorted(endpoints.get(path) ?? new Map<string, object>()).map(([path, endpoint]) => ({ path, endpoint }));

  return (operation) => {
    switch (operation.op) {
      case "reset":
        services.clear();
        endpoints.clear();
        return undefined;
      case "set":
      case "delete":
        put(operation);
        return undefined;
      case "sync":
        return {
          node,
          services: sorted(services).map(([path, service]) => ({ path, service, endpoints: endpointsOf(path) })),
        };
    }
  };
}

function sorted(entries: ReadonlyMap<string, object>): readonly (readonly [string, object])[] {
  return [...entries].sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
}
