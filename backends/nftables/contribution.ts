import {
  type FamilySettings,
  type Frontend,
  frontendsOf,
  isPolicyLocal,
  type ServicePort,
} from "../../core/model/mod.ts";
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
  const { protocol, clusterEndpoints, localEndpoints } = port;
  const elements: Element[] = [];
  const pickChains = new Set<string>();
  const withAffinity = port.affinitySeconds > 0;
  const own = withAffinity ? affinityChainNames(port) : undefined;

  /** Sends packets to a frontend to the chain that picks an endpoint: the service port's own, or a shared one. */
  const dispatch = (set: SetName, frontend: Frontend, ownChain: string | undefined, chain: PickChain) => {
    const name = ownChain ?? pickChainName(chain);
    if (ownChain === undefined) pickChains.add(name);
    elements.push({ set, key: keyOf(frontend), value: `goto ${name}` });
  };
  const list = (set: SetName, frontend: Frontend, endpoints: readonly string[]) => {
    if (withAffinity) return;
    const address = addressOf(frontend);
    endpoints.forEach((endpoint, i) => {
      elements.push({ set, key: `${address} . ${frontend.port} . ${i}`, value: endpointElement(endpoint) });
    });
  };
  const addressOf = ({ kind, address }: Frontend) => kind === "nodePort" ? dialect.anyAddress : address;
  const keyOf = (frontend: Frontend) => `${addressOf(frontend)} . ${protocol} . ${frontend.port}`;

  const refuse = (frontend: Frontend) => {
    const { verdict } = frontend;
    if (verdict !== "reject" && verdict !== "drop") return;
    elements.push({ set: verdict === "reject" ? "refused" : "dropped", key: keyOf(frontend), value: "" });
  };

  const addClusterIP = (frontend: Frontend) => {
    const { verdict } = frontend;
    if (verdict !== "cluster" && verdict !== "local") return;
    const endpoints = verdict === "cluster" ? clusterEndpoints : localEndpoints;
    if (endpoints.length === 0) return;
    dispatch("services", frontend, own?.[verdict], {
      kind: "pick",
      protocol,
      endpoints: endpoints.length,
      nodePort: false,
    });
    list(`${protocol}-endpoints`, frontend, endpoints);
  };

  const addExternal = (frontend: Frontend) => {
    const { verdict, ownVerdict } = frontend;
    const nodePort = frontend.kind === "nodePort";
    const endpoints = verdict === "cluster" ? clusterEndpoints : localEndpoints;
    if (ownVerdict !== "cluster" || verdict !== "local" && clusterEndpoints.length === 0) return;
    dispatch("services", frontend, own?.external, {
      kind: isPolicyLocal(verdict) ? "external-local" : "external",
      protocol,
      endpoints: endpoints.length,
      nodePort,
    });
    list(`${protocol}-endpoints`, frontend, endpoints);
    if (ownVerdict === verdict || withAffinity || clusterEndpoints.length === 0) return;
    dispatch("shortcuts", frontend, undefined, {
      kind: "shortcut",
      protocol,
      endpoints: clusterEndpoints.length,
      nodePort,
    });
    list(`${protocol}-shortcut-endpoints`, frontend, clusterEndpoints);
  };

  // Other sources are dropped even where there are no endpoints, and admitted ones refused (as in kube-proxy's nftables mode).
  const admit = (frontend: Frontend) => {
    if (frontend.sources === undefined) return;
    const key = keyOf(frontend);
    elements.push({ set: "firewalled", key, value: "" });
    for (const range of disjoint(frontend.sources)) {
      elements.push({ set: "source-ranges", key: `${key} . ${prefixText(range)}`, value: "" });
    }
  };

  for (const frontend of frontendsOf(port)) {
    refuse(frontend);
    if (frontend.kind === "clusterIP") addClusterIP(frontend);
    else addExternal(frontend);
    admit(frontend);
  }
  return {
    elements,
    sharedElements: sharedElements(port),
    pickChains: [...pickChains],
    ownChains: withAffinity ? affinityChains(port, settings, dialect) : [],
    clientSets: withAffinity ? clientSets(port, dialect) : [],
  };
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

/** The kernel takes no element that overlaps with another: of prefixes within each other, the widest stay. */
function disjoint(prefixes: readonly string[]): string[] {
  const unique = [...new Set(prefixes)];
  const length = (prefix: string) => Number(prefix.slice(prefix.indexOf("/") + 1));
  return unique.filter((inner) =>
    !unique.some((outer) => length(outer) < length(inner) && prefixContains(outer, inner.slice(0, inner.indexOf("/"))))
  );
}
