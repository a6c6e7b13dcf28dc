/**
 * Assembles Kubernetes objects from KPNG's operations.
 *
 * In: operations of a server, or entries of a state file. Out: objects, to a `SourceSink`. May touch: nothing.
 */
import { canonicalAddress, familyOf } from "../../platform/mod.ts";
import {
  internString,
  internStrings,
  isLabel,
  isObjectName,
  isWholeNumber,
  type PodRef,
  quote,
  type SliceEndpoint,
  type SourceSink,
} from "../../core/objects/mod.ts";
import { serviceKey } from "../../core/tracking/mod.ts";
import type { PortOverride, ReceivedEndpoint } from "./assemble_slices.ts";
import {
  ENDPOINT,
  ENDPOINT_INFO,
  type EndpointInfoMessage,
  type EndpointMessage,
  isSecondPath,
  listIps,
  NODE_INFO,
  OP_ITEM,
  PROTOCOLS,
  SERVICE,
  SERVICE_CIDR,
  SERVICE_INFO,
  SETS,
  splitLocalPath,
} from "../messages/mod.ts";
import { createAssembler, type EntryKind } from "./assembler.ts";
export { createAssembler } from "./assembler.ts";

/** Receives the global or local state from a server of KPNG's protocol, across reconnects. */
interface Receiver {
  /** A new call to a server begins: it sends its whole state, even if it does not say so with `Reset`. */
  restart(): void;
  /** Applies one `OpItem`. Returns whether it ends the round. Throws WireError for invalid bytes. */
  receive(bytes: Uint8Array<ArrayBuffer>): boolean;
}

const ENTRY_KINDS: Readonly<Record<number, EntryKind>> = {
  [SETS.ServicesSet]: "Service",
  [SETS.GlobalServiceInfos]: "Service",
  [SETS.EndpointsSet]: "endpoint",
  [SETS.GlobalEndpointInfos]: "endpoint",
  [SETS.GlobalNodeInfos]: "Node",
  [SETS.ServiceCIDRs]: "ServiceCIDR",
};

/** A receiver without state. */
export function createReceiver({ sink, nodeName, inFull }: {
  readonly sink: SourceSink;
  readonly nodeName: string;
  /** Whether to keep details, to pass them on. */
  readonly inFull: boolean;
}): Receiver {
  const assembler = createAssembler(sink, inFull);

  const set = (set: number, path: string, bytes: Uint8Array<ArrayBuffer>) => {
    const sentences: string[] = [];
    const reading = { inFull, problem: (sentence: string) => sentences.push(sentence) };
    const setEndpoint = (endpoint: ReceivedEndpoint | undefined) =>
      assembler.setEndpoint(path, endpoint, { subject: `endpoint ${path}`, sentences });
    switch (set) {
      case SETS.ServicesSet:
        return assembler.setService(path, SERVICE.decode(bytes));
      case SETS.GlobalServiceInfos:
        return assembler.setService(path, SERVICE_INFO.decode(bytes).service ?? {});
      case SETS.EndpointsSet:
        return setEndpoint(readLocalEndpoint(path, ENDPOINT.decode(bytes), nodeName, reading));
      case SETS.GlobalEndpointInfos:
        if (isSecondPath(path)) return;
        return setEndpoint(readGlobalEndpoint(ENDPOINT_INFO.decode(bytes), reading));
      case SETS.GlobalNodeInfos:
        return assembler.setNode(path, NODE_INFO.decode(bytes).node ?? {});
      case SETS.ServiceCIDRs:
        return assembler.setServiceCIDR(path, SERVICE_CIDR.decode(bytes));
    }
  };

  return {
    restart: assembler.reset,
    receive(bytes) {
      const operation = OP_ITEM.decode(bytes);
      if (operation.reset !== undefined) assembler.reset();
      if (operation.set?.ref !== undefined) {
        const { ref, bytes: content = new Uint8Array() } = operation.set;
        set(ref.set ?? 0, ref.path ?? "", content);
      }
      const kind = ENTRY_KINDS[operation.delete?.set ?? 0];
      if (kind !== undefined) assembler.delete(kind, operation.delete?.path ?? "");
      if (operation.sync === undefined) return false;
      assembler.sync();
      return true;
    },
  };
}

interface EndpointReading {
  /** Whether to keep details. */
  readonly inFull: boolean;
  /** Receives each problem as a sentence. */
  readonly problem: (what: string) => void;
}

/** Reads an endpoint of the global state; undefined if it cannot be used. */
export function readGlobalEndpoint(info: EndpointInfoMessage, reading: EndpointReading): ReceivedEndpoint | undefined {
  const { namespace = "default", serviceName = "", endpoint = {}, conditions, topology = {}, hints, podName } = info;
  const { details = {} } = endpoint;
  return assemble(namespace, serviceName, info.sourceName || serviceName, endpoint, {
    // An endpoint without conditions is ready, as in a state file.
    ready: conditions === undefined || conditions.ready === true,
    nodeName: topology.node ?? details.node ?? "",
    zone: topology.zone ?? details.zone ?? "",
    zoneHints: hints?.zones ?? details.zoneHints,
    podName: podName ?? "",
  }, reading);
}

/**
 * Reads an endpoint of a local state; undefined if it cannot be used or no traffic uses it. Endpoints from KPNG count as ready:
 * they are only sent if this node may use them.
 */
function readLocalEndpoint(
  path: string,
  endpoint: EndpointMessage,
  nodeName: string,
  reading: EndpointReading,
): ReceivedEndpoint | undefined {
  const { details, scopes, local } = endpoint;
  const { namespace, service } = splitLocalPath(path);
  if (details === undefined && scopes !== undefined && !scopes.internal && !scopes.external) return undefined;
  return assemble(namespace, service, details?.slice ?? service, endpoint, {
    ready: details === undefined || !details.notReady,
    nodeName: details === undefined ? (local ? nodeName : "") : details.node ?? "",
    zone: details?.zone ?? "",
    zoneHints: details?.zoneHints,
    podName: "",
  }, reading);
}

interface EndpointContext extends Pick<SliceEndpoint, "ready" | "nodeName" | "zone" | "zoneHints"> {
  readonly podName: string;
}

function assemble(
  namespace: string,
  service: string,
  source: string,
  { hostname = "", ips, portOverrides = [], details }: EndpointMessage,
  context: EndpointContext,
  { inFull, problem }: EndpointReading,
): ReceivedEndpoint | undefined {
  if (!isLabel(namespace) || !isLabel(service) || !isObjectName(source)) {
    problem(`endpoint of ${quote(`${namespace}/${service} (${source})`)}: invalid name; ignored`);
    return undefined;
  }
  const { podName } = context;
  const common: Omit<SliceEndpoint, "address"> = {
    ready: context.ready,
    serving: details === undefined ? context.ready : !details.notServing,
    terminating: details?.terminating === true,
    nodeName: internString(context.nodeName),
    zone: internString(context.zone),
    zoneHints: hintsOf(context.zoneHints),
    nodeHints: hintsOf(details?.nodeHints),
    ...details?.podName !== undefined && { pod: podOf(namespace, details.podName, details.podUid ?? "") },
    ...inFull && (podName !== "" || hostname !== "") && { details: { podName, hostname } },
  };
  return {
    service: serviceKey(internString(namespace), internString(service)),
    source: internString(source),
    slice: details?.slice,
    overrides: portOverrides.flatMap((one) => readOverride(one, problem)),
    endpoints: readAddresses(listIps(ips), problem).map((address) => ({ address, ...common })),
    triggerTimeMs: details?.triggerTimeMs ?? 0,
  };
}

function podOf(namespace: string, name: string, uid: string): PodRef {
  return { namespace: internString(namespace), name: internString(name), uid: internString(uid) };
}

/** The first address of each family: all addresses of a set are the same endpoint. */
function readAddresses(texts: readonly string[], problem: EndpointReading["problem"]): readonly string[] {
  const found: string[] = [];
  for (const text of texts) {
    const address = canonicalAddress(text);
    if (address === undefined) problem(`endpoint address ${quote(text)} is not an IP address; ignored`);
    else if (!found.some((other) => familyOf(other) === familyOf(address))) found.push(address);
  }
  return found;
}

function readOverride(
  { name = "", port, protocol = 0 }: NonNullable<EndpointMessage["portOverrides"]>[number],
  problem: EndpointReading["problem"],
): PortOverride[] {
  if ((name === "" || isLabel(name)) && isWholeNumber(port, 1, 65535) && protocol < PROTOCOLS.length) {
    return [{ name: internString(name), port, protocol: PROTOCOLS[protocol] }];
  }
  problem(`endpoint port ${quote(name)} ${quote(port)} is invalid; ignored`);
  return [];
}

function hintsOf(names: readonly string[] | undefined): readonly string[] | undefined {
  return names === undefined || names.length === 0 ? undefined : internStrings(names);
}
