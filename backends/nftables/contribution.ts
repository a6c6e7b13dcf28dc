import type { FamilySettings, Protocol, ServicePort, Verdict } from "../../core/model/mod.ts";
import { prefixContains, splitHostPort } from "../../platform/mod.ts";
import { affinityChainNames, affinityChains, type ClientSet, clientSets, type OwnChain } from "./affinity.ts";
import { type PickChain, pickChainName } from "./pick_chains.ts";
import { prefixText } from "./statements.ts";
import type { Dialect, SetName, SharedSetName } from "./table.ts";

/** An element of a set, or of a map with its value. */
export interface Element {
  readonly set: SetName;
  readonly key: string;
  /** What the key leads to; empty in a set. */
  readonly value: string;
}

/** An element that other service ports may want as well. */
export interface SharedElement {
  readonly set: SharedSetName;
  readonly key: string;
}

/** Everything in the table that is there because of one service port. */
export interface Contribution {
  readonly elements: readonly Element[];
  readonly sharedElements: readonly SharedElement[];
  /** The shared chains that it leads to, by name. */
  readonly pickChains: readonly string[];
  readonly ownChains: readonly OwnChain[];
  readonly clientSets: readonly ClientSet[];
}

/** What a service port that is not there contributes. */
export const NOTHING: Contribution = {
  elements: [],
  sharedElements: [],
  pickChains: [],
  ownChains: [],
  clientSets: [],
};

/**
 * What a service port contributes to the table.
 *
 * Each frontend has endpoints under a key of its own, although those of one service port are often the same: a packet
 * that has arrived is looked up with what it has in its header, in one step. To lead several frontends to one list
 * would take a chain per service port, to say which list that is, and each change of such a chain would make the
 * kernel look through all the others. So a change of an endpoint costs as many elements as the service port has frontends
 * (one, but for node ports and load balancers), and no rule.
 */
export function contributionOf(port: ServicePort, settings: FamilySettings, dialect: Dialect): Contribution {
  const elements: Element[] = [];
  const pickChains = new Set<string>();
  const withAffinity = port.affinitySeconds > 0;
  const own = withAffinity ? affinityChainNames(port) : undefined;

  const lead = (set: SetName, frontend: Frontend, ownChain: string | undefined, chain: PickChain) => {
    const name = ownChain ?? pickChainName(chain);
    if (ownChain === undefined) pickChains.add(name);
    elements.push({ set, key: frontendElement(frontend), value: `goto ${name}` });
  };
  const list = (set: SetName, { address, port: number }: Frontend, endpoints: readonly string[]) => {
    if (withAffinity) return;
    endpoints.forEach((endpoint, i) => {
      elements.push({ set, key: `${address} . ${number} . ${i}`, value: endpointElement(endpoint) });
    });
  };
  const refuse = (frontend: Frontend, verdict: Verdict) => {
    if (verdict !== "reject" && verdict !== "drop") return;
    elements.push({ set: verdict === "reject" ? "refused" : "dropped", key: frontendElement(frontend), value: "" });
  };

  const addClusterIP = () => {
    const frontend: Frontend = { address: port.clusterIP, protocol: port.protocol, port: port.port, nodePort: false };
    refuse(frontend, port.internal);
    if (port.internal !== "cluster" && port.internal !== "local") return;
    const endpoints = port.internal === "cluster" ? port.clusterEndpoints : port.localEndpoints;
    if (endpoints.length === 0) return;
    const { protocol } = port;
    lead("services", frontend, own?.[port.internal], {
      kind: "pick",
      protocol,
      endpoints: endpoints.length,
      nodePort: false,
    });
    list(`${protocol}-endpoints`, frontend, endpoints);
  };

  const addExternal = (frontend: Frontend) => {
    const { protocol, nodePort } = frontend;
    const { external, clusterEndpoints, localEndpoints } = port;
    refuse(frontend, external);
    if (external === "cluster") {
      if (clusterEndpoints.length === 0) return;
      lead("services", frontend, own?.external, {
        kind: "external",
        protocol,
        endpoints: clusterEndpoints.length,
        nodePort,
      });
      list(`${protocol}-endpoints`, frontend, clusterEndpoints);
    } else if (external === "local" || (external === "drop" && clusterEndpoints.length > 0)) {
      lead("services", frontend, own?.external, {
        kind: "external-local",
        protocol,
        endpoints: localEndpoints.length,
        nodePort,
      });
      list(`${protocol}-endpoints`, frontend, localEndpoints);
      if (withAffinity || clusterEndpoints.length === 0) return;
      lead("shortcuts", frontend, undefined, {
        kind: "shortcut",
        protocol,
        endpoints: clusterEndpoints.length,
        nodePort,
      });
      list(`${protocol}-shortcut-endpoints`, frontend, clusterEndpoints);
    }
  };

  addClusterIP();
  for (const address of new Set([...port.externalIPs, ...port.loadBalancerIPs])) {
    addExternal({ address, protocol: port.protocol, port: port.port, nodePort: false });
  }
  if (port.nodePort !== 0) {
    addExternal({ address: dialect.anyAddress, protocol: port.protocol, port: port.nodePort, nodePort: true });
  }
  elements.push(...firewallElements(port, settings));
  return {
    elements,
    sharedElements: sharedElements(port),
    pickChains: [...pickChains],
    ownChains: withAffinity ? affinityChains(port, settings, dialect) : [],
    clientSets: withAffinity ? clientSets(port, dialect) : [],
  };
}

interface Frontend {
  readonly address: string;
  readonly protocol: Protocol;
  readonly port: number;
  readonly nodePort: boolean;
}

function frontendElement({ address, protocol, port }: Frontend): string {
  return `${address} . ${protocol} . ${port}`;
}

function endpointElement(endpoint: string): string {
  const { address, port } = splitHostPort(endpoint);
  return `${address} . ${port}`;
}

/**
 * What service ports share. An endpoint that reaches itself through a service must be masqueraded, or it would drop
 * what comes from its own address; kube-proxy has a rule for each endpoint, here only those of this node have an element
 * (nft 1.0.6 cannot compare a packet's two addresses, and an element per endpoint anywhere would be as many again). The
 * packet of an endpoint elsewhere meets the rules of its own node: it has no service's address any more when it leaves
 * there. It comes here as it was sent only where its node has no proxy and routes service addresses to this one; then it
 * is masqueraded as all traffic is that is not of this node's pods, unless detectLocalMode takes the whole cluster's
 * pods for local: of that traffic alone, the share that falls on its own sender fails.
 */
function sharedElements(port: ServicePort): SharedElement[] {
  const addresses = new Set(port.endpointsOnThisNode.map((endpoint) => splitHostPort(endpoint).address));
  return [
    { set: "cluster-ips", key: port.clusterIP },
    ...[...addresses].map((address) => ({ set: "hairpins", key: `${address} . ${address}` }) as const),
  ];
}

/**
 * Who may use the load balancer addresses. Others are dropped, even without endpoints, where those who may are refused
 * (as in kube-proxy's nftables mode). Where the node itself may, so may traffic that it sends to the address as if
 * from that address (kube-proxy's rule for load balancers whose address is configured on the node).
 */
function firewallElements(port: ServicePort, { nodeIP }: FamilySettings): Element[] {
  const { sourceRanges, loadBalancerIPs } = port;
  if (sourceRanges.length === 0) return [];
  if (sourceRanges.some((range) => range.endsWith("/0"))) return [];
  const nodeMayEnter = sourceRanges.some((range) => prefixContains(range, nodeIP));
  return loadBalancerIPs.filter((address) => !port.externalIPs.includes(address)).flatMap((address): Element[] => {
    const frontend = frontendElement({ address, protocol: port.protocol, port: port.port, nodePort: false });
    const self = loadBalancerIPs.map((own) => `${own}/${own.includes(":") ? 128 : 32}`);
    return [
      { set: "firewalled", key: frontend, value: "" },
      ...disjoint(nodeMayEnter ? [...sourceRanges, ...self] : sourceRanges).map((range) => ({
        set: "source-ranges" as const,
        key: `${frontend} . ${prefixText(range)}`,
        value: "",
      })),
    ];
  });
}

/** The kernel takes no element that overlaps with another: of prefixes within each other, the widest stay. */
function disjoint(prefixes: readonly string[]): string[] {
  const unique = [...new Set(prefixes)];
  const length = (prefix: string) => Number(prefix.slice(prefix.indexOf("/") + 1));
  return unique.filter((inner) =>
    !unique.some((outer) => length(outer) < length(inner) && prefixContains(outer, inner.slice(0, inner.indexOf("/"))))
  );
}
