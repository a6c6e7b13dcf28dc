import {
  type FailureReason,
  type Frontend,
  type FrontendKind,
  frontendsOf,
  relayPortsOf,
  type ServicePort,
  type ServicePortKey,
} from "../../core/model/mod.ts";
import { hostPrefix } from "../../platform/mod.ts";
import { BASE, comment, destinationPort, type ServiceChainNames, serviceChainNames } from "../xtables/mod.ts";
import { type DispatchEntry, frontendPlace } from "./dispatch.ts";

/** The dispatch trees, by the rules that they hold. */
export type TreeName = keyof typeof TREES;

const IN_SERVICES = { chain: BASE.services, prefix: "KUBE-SVC-TO-", ports: false };
const IN_NODE_PORTS = { chain: BASE.nodePorts, prefix: "KUBE-SVC-NP-", ports: true };

/** The table and entry chain of each tree, the prefix of its other chains, and whether its places are ports alone. */
export const TREES = {
  services: { table: "nat", ...IN_SERVICES },
  nodePorts: { table: "nat", ...IN_NODE_PORTS },
  refusedInternally: { table: "filter", ...IN_SERVICES },
  refusedExternally: { table: "filter", chain: BASE.externalServices, prefix: "KUBE-EXT-TO-", ports: false },
  refusedNodePorts: { table: "filter", chain: BASE.externalNodePorts, prefix: "KUBE-EXT-NP-", ports: true },
  firewall: { table: "filter", chain: BASE.proxyFirewall, prefix: "KUBE-FW-TO-", ports: false },
  ownPorts: { table: "filter", ...IN_NODE_PORTS },
} as const;

/** The comments of the rules that refuse packets, after the service port's name, as in kube-proxy. */
export const REFUSAL_COMMENTS = {
  "no-endpoints": "has no endpoints",
  "traffic-policy": "has no local endpoints",
  "source-range": "traffic not accepted by",
} as const satisfies Readonly<Partial<Record<FailureReason, string>>>;

/** A rule of a dispatch tree. */
export interface FrontendRule extends DispatchEntry {
  readonly tree: TreeName;
  /** Renders the rule, without `-A CHAIN `. */
  rule(): string;
}

/** The rules that dispatch packets to a service port's chains or refuse them, as kube-proxy's do. */
export function frontendRules(
  port: ServicePort,
  owner: ServicePortKey,
  names = serviceChainNames(port),
): FrontendRule[] {
  const rules: FrontendRule[] = [];
  for (const frontend of frontendsOf(port)) {
    const { address, verdict, sources, destinations = ANY_DESTINATION } = frontend;
    const { label, served, refused } = KINDS[frontend.kind];
    const place = frontendPlace(address, port.protocol, frontend.port);
    const add = (tree: TreeName, reason: string, target: string) => {
      for (const within of destinations) {
        const to = within ?? (address === "" ? undefined : hostPrefix(address));
        const rule = () => match(port, to, frontend.port, reason) + target;
        rules.push(within === undefined ? { tree, place, owner, rule } : { tree, place, owner, within, rule });
      }
    };
    const chain = entryChain(frontend, names);
    if (chain !== undefined) {
      add(served, label, `-j ${chain}`);
      if (sources !== undefined) add("firewall", `${REFUSAL_COMMENTS["source-range"]} ${names.firewall}`, "-j DROP");
    }
    if (verdict === "reject") add(refused, REFUSAL_COMMENTS["no-endpoints"], rejection(port));
    if (verdict === "drop") add(refused, REFUSAL_COMMENTS["traffic-policy"], "-j DROP");
  }
  if (port.healthCheckNodePort !== 0) rules.push(healthCheckRule(port, owner));
  for (const relayPort of relayPortsOf(port)) rules.push(relayRule(port, owner, relayPort));
  return rules;
}

/** The one rule of a frontend that is not limited to some destinations. */
const ANY_DESTINATION: readonly (string | undefined)[] = [undefined];

/** For each kind of frontend: its label in comments, and the trees that serve and refuse it. */
const KINDS: Readonly<
  Record<FrontendKind, { readonly label: string; readonly served: TreeName; readonly refused: TreeName }>
> = {
  clusterIP: { label: "cluster IP", served: "services", refused: "refusedInternally" },
  externalIP: { label: "external IP", served: "services", refused: "refusedExternally" },
  loadBalancerIP: { label: "loadbalancer IP", served: "services", refused: "refusedExternally" },
  nodePort: { label: "node port", served: "nodePorts", refused: "refusedNodePorts" },
};

/** The chain that packets to a frontend enter; undefined where all of them are refused. */
function entryChain({ kind, verdict, sources }: Frontend, names: ServiceChainNames): string | undefined {
  if (kind === "clusterIP") return verdict === "cluster" || verdict === "local" ? names[verdict] : undefined;
  if (verdict === "reject") return undefined;
  return sources === undefined ? names.external : names.firewall;
}

/** The match of packets to a port, within a prefix unless that is undefined. */
function match({ name, protocol }: ServicePort, prefix: string | undefined, port: number, reason: string): string {
  const toPort = destinationPort(protocol, comment(`${name} ${reason}`), port);
  return prefix === undefined ? toPort : `-d ${prefix} ${toPort}`;
}

/** REJECT as iptables-save prints it; the kernel adds the family's kind of `port unreachable`. */
function rejection(port: ServicePort): string {
  return `-j REJECT --reject-with ${port.clusterIP.includes(":") ? "icmp6" : "icmp"}-port-unreachable`;
}

/** Accepts health checks of a load balancer even where the host's own rules would not. */
function healthCheckRule({ name, healthCheckNodePort }: ServicePort, owner: ServicePortKey): FrontendRule {
  const about = comment(`${name} health check node port`);
  return {
    tree: "ownPorts",
    place: frontendPlace("", "tcp", healthCheckNodePort),
    owner,
    rule: () => `${destinationPort("tcp", about, healthCheckNodePort)}-j ACCEPT`,
  };
}

/** Accepts only packets that the rules sent to a port of the relay: others have passed no source ranges. */
function relayRule({ name, protocol }: ServicePort, owner: ServicePortKey, relayPort: number): FrontendRule {
  return {
    tree: "ownPorts",
    place: frontendPlace("", protocol, relayPort),
    owner,
    rule: () => `${destinationPort(protocol, comment(`${name} relay`), relayPort)}-j ${BASE.relayed}`,
  };
}
