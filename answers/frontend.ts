import { isLoopback, joinHostPort, prefixContains } from "../platform/mod.ts";
import {
  type FamilySettings,
  type Frontend,
  type FrontendKind,
  frontendsOf,
  isFrontendAt,
  nodePortOf,
  type Protocol,
  type ServicePort,
} from "../core/model/mod.ts";
import { OWN_ANNOTATIONS } from "../core/objects/mod.ts";
import type { PlannedPort } from "../core/planning/mod.ts";
import type { Question } from "./question.ts";

/** The frontend at a destination, and the service port that owns it. */
export interface FrontendHit {
  readonly frontend: Frontend;
  readonly owner: PlannedPort;
  /** The service port as it is in effect. */
  readonly port: ServicePort;
}

/** A service port whose node port an address of this node does not serve. */
interface UnservedPort {
  readonly owner: PlannedPort;
  readonly frontend: Frontend;
}

/** Facts about the destination of a question. */
export interface Destination {
  readonly address: string;
  readonly hit: FrontendHit | undefined;
  /** The service port with this node port, if the address belongs to this node but does not serve it. */
  readonly unserved: UnservedPort | undefined;
  /** Service ports that want this frontend but lost it to another. */
  readonly losers: readonly PlannedPort[];
  /** Whether the address is the cluster IP of a service, on any port. */
  readonly isClusterIP: boolean;
  /** Whether it is an address of a service and not of this node: virtual servers bind those to the node. */
  readonly isBound: boolean;
  readonly isThisNode: boolean;
  /** Further notes for the reader, one sentence each. */
  readonly remarks: readonly string[];
}

const MOST_PORTS = 8;

/**
 * Finds a destination by a scan of all service ports, so that no index stays in memory for questions.
 * @param nodeAddresses the node's own ones of both families, without loopback addresses
 */
export function findDestination(
  question: Question,
  ports: readonly PlannedPort[],
  settings: FamilySettings,
  nodeAddresses: readonly string[],
): Destination {
  const { address } = question;
  const isThisNode = isLoopback(address) || nodeAddresses.includes(address);
  const isSelected = isThisNode && isNodePortAddress(address, settings);
  const losers: PlannedPort[] = [];
  const remarks: string[] = [];
  let isClusterIP = false, isBound = false;
  let hit: FrontendHit | undefined;
  let unserved: UnservedPort | undefined;
  for (const owner of ports) {
    const { planned, wanted } = owner;
    const frontends = planned ? frontendsOf(planned) : [];
    const there = frontends.filter((frontend) => frontend.address === address);
    isClusterIP ||= there.some(({ kind }) => kind === "clusterIP");
    isBound ||= !isThisNode && there.length > 0;
    const frontend = findFrontend(frontends, question, isSelected);
    if (planned && frontend) {
      // As in the rules, an address has precedence over a node port.
      if (hit === undefined || hit.frontend.kind === "nodePort") hit = { frontend, owner, port: planned };
    } else if (wanted !== planned && findFrontend(frontendsOf(wanted), question, isSelected)) {
      losers.push(owner);
    }
    if (!isThisNode || planned === undefined) continue;
    const nodePort = frontends.find(({ kind }) => kind === "nodePort");
    const isAsked = nodePort?.port === question.port && nodePort.protocol === question.protocol;
    if (isAsked && !(isSelected && isFrontendAt(nodePort, address))) {
      unserved = { owner, frontend: nodePort };
      remarks.push(unservedRemark(planned.name, nodePort, address, isSelected, settings));
    }
    if (planned.healthCheckNodePort === question.port && question.protocol === "tcp") {
      remarks.push(
        `${question.port} is the health check node port of ${planned.name}, which this proxy answers itself`,
      );
    }
  }
  if (hit === undefined && losers.length === 0 && unserved === undefined) {
    remarks.push(...nearMiss(question, isThisNode, ports));
  }
  return { address, hit, unserved, losers, isClusterIP, isBound, isThisNode, remarks };
}

/** The ports that the address does have, or the service with the same node port for another protocol. */
function nearMiss(question: Question, isThisNode: boolean, ports: readonly PlannedPort[]): readonly string[] {
  const { address, port, protocol } = question;
  const planned = ports.flatMap((one) => one.planned ?? []);
  const atNode = isThisNode ? planned.findLast((one) => nodePortOf(one)?.port === port) : undefined;
  if (atNode !== undefined) {
    return [`node port ${port} is ${atNode.protocol.toUpperCase()} (${atNode.name}), not ${protocol.toUpperCase()}`];
  }
  const there = planned.flatMap((one) =>
    frontendsOf(one).filter((frontend) => frontend.address === address)
      .map((frontend) => `${frontend.port}/${frontend.protocol.toUpperCase()} (${one.name})`)
  );
  if (there.length === 0) return [];
  const shown = there.slice(0, MOST_PORTS).join(", ");
  const more = there.length > MOST_PORTS ? ` and ${there.length - MOST_PORTS} more` : "";
  return [`${address} has port ${shown}${more}, not ${port}/${protocol.toUpperCase()}`];
}

/**
 * The frontend at a destination; undefined if there is none.
 * @param isSelected whether the settings select the address for node ports
 */
function findFrontend(frontends: readonly Frontend[], question: Question, isSelected: boolean): Frontend | undefined {
  return frontends.find((frontend) =>
    frontend.port === question.port && frontend.protocol === question.protocol &&
    (isSelected || frontend.kind !== "nodePort") && isFrontendAt(frontend, question.address)
  );
}

/** Whether the settings select an address of this node for node ports. */
function isNodePortAddress(address: string, { nodePortPrefixes, localhostNodePorts }: FamilySettings): boolean {
  if (isLoopback(address) && !localhostNodePorts) return false;
  return nodePortPrefixes === undefined || nodePortPrefixes.some((prefix) => prefixContains(prefix, address));
}

function unservedRemark(
  name: string,
  { port, destinations }: Frontend,
  address: string,
  isSelected: boolean,
  { nodePortPrefixes }: FamilySettings,
): string {
  if (isSelected) {
    return `node port ${port} of ${name} is not served at ${address}: the annotation ${OWN_ANNOTATIONS.nodePortAddresses} limits it to ` +
      (destinations?.join(", ") || NO_OWN_PREFIXES);
  }
  const where = nodePortPrefixes === undefined
    ? "at the node's addresses other than loopback"
    : `at ${nodePortPrefixes.join(", ") || NO_PREFIXES}`;
  return `node port ${port} of ${name} is served ${where}, not at ${address}`;
}

/** The prefixes of node ports, as text, if there are none. */
export const NO_PREFIXES = "no address, since the node's primary one is unknown";

/** The prefixes that a service limits its node port to, as text, if there are none of the family. */
export const NO_OWN_PREFIXES = "no address of this family";

/** A frontend as text: `cluster IP 10.0.0.1:80/TCP`, `node port 30080/TCP`. */
export function frontendText({ kind, address, port, protocol }: Frontend): string {
  const at = kind === "nodePort" ? `${port}/${protocol.toUpperCase()}` : endpointText(address, port, protocol);
  return `${KIND_NAMES[kind]} ${at}`;
}

const KIND_NAMES: Readonly<Record<FrontendKind, string>> = {
  clusterIP: "cluster IP",
  loadBalancerIP: "load balancer IP",
  externalIP: "external IP",
  nodePort: "node port",
};

/** `10.0.0.1:80/TCP`. */
export function endpointText(address: string, port: number, protocol: Protocol): string {
  return `${joinHostPort(address, port)}/${protocol.toUpperCase()}`;
}
