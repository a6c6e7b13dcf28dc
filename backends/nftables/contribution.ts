import {
  type FamilySettings,
  type Frontend,
  frontendsOf,
  isPolicyLocal,
  type ServicePort,
} from "../../core/model/mod.ts";
import { prefixContains, splitHostPort } from "../../platform/mod.ts";
import { affinityChainNames, affinityChains, type ClientSet, clientSets, type OwnChain } from "./affinity.ts";
import { type PickChain, pickChainName, type PickKind } from "./pick_chains.ts";
import { counterOwner, type ListName, type SlotList, slotList } from "./slots.ts";
import { prefixText } from "./statements.ts";
import type { Dialect, SetName, SharedSetName } from "./table.ts";

/** An element of a set, or of a map with its value. */
export interface Element {
  readonly set: SetName;
  readonly key: string;
  /** The value of the key in a map; empty in a set. */
  readonly value: string;
}

/** An element that several service ports may share. */
export interface SharedElement {
  readonly set: SharedSetName;
  readonly key: string;
}

/** Everything in the table that one service port needs. */
export interface Contribution {
  readonly elements: readonly Element[];
  readonly sharedElements: readonly SharedElement[];
  /** The names of the shared chains that its frontends jump to. */
  readonly pickChains: readonly string[];
  readonly ownChains: readonly OwnChain[];
  readonly clientSets: readonly ClientSet[];
}

/** The contribution of an unknown service port. */
export const NOTHING: Contribution = {
  elements: [],
  sharedElements: [],
  pickChains: [],
  ownChains: [],
  clientSets: [],
};

/**
 * The contribution of a service port to the table.
 *
 * Each frontend has its own list of endpoints, although those of one service port are often the same: one lookup with fields
 * of the packet's header finds the endpoint. A list that several frontends share would need a chain per service port, and the
 * kernel walks all chains when one of them changes. So a change of an endpoint costs one element per frontend of the service
 * port (one, except for node ports and load balancers), and no rule.
 */
export function contributionOf(port: ServicePort, settings: FamilySettings, dialect: Dialect): Contribution {
  const { protocol, clusterEndpoints, localEndpoints } = port;
  const elements: Element[] = [];
  const pickChains = new Set<string>();
  const withAffinity = port.affinitySeconds > 0;
  const own = withAffinity ? affinityChainNames(port) : undefined;
  const slotsOf = (list: ListName) => withAffinity ? NO_SLOTS : slotList(port, list);
  const lists: Readonly<Record<ListName, SlotList>> = { cluster: slotsOf("cluster"), local: slotsOf("local") };

  /** Sends packets to a frontend to the chain that picks an endpoint: the service port's own, or a shared one. */
  const dispatch = (
    set: SetName,
    frontend: Frontend,
    ownChain: string | undefined,
    kind: PickKind,
    list: ListName,
  ) => {
    const name = ownChain ?? pickChainName(pickChain(kind, frontend, list));
    if (ownChain === undefined) pickChains.add(name);
    elements.push({ set, key: keyOf(frontend), value: `goto ${name}` });
  };
  const pickChain = (kind: PickKind, frontend: Frontend, list: ListName): PickChain => {
    const { draw, slots: { length: slots } } = lists[list];
    const owner = draw === "turn" ? counterOwner(port) : undefined;
    return { kind, protocol, slots, draw, owner, nodePort: frontend.kind === "nodePort" };
  };
  const fill = (set: SetName, frontend: Frontend, list: ListName) => {
    const address = addressOf(frontend);
    lists[list].slots.forEach((value, i) => {
      elements.push({ set, key: `${address} . ${frontend.port} . ${i}`, value });
    });
  };
  const addressOf = ({ kind, address }: Frontend) => kind === "nodePort" ? dialect.anyAddress : address;
  const keyOf = (frontend: Frontend) => `${addressOf(frontend)} . ${protocol} . ${frontend.port}`;

  const addClusterIP = (frontend: Frontend) => {
    const { verdict } = frontend;
    if (verdict !== "cluster" && verdict !== "local") return;
    const endpoints = verdict === "cluster" ? clusterEndpoints : localEndpoints;
    if (endpoints.length === 0) return;
    dispatch("services", frontend, own?.[verdict], "pick", verdict);
    fill(`${protocol}-endpoints`, frontend, verdict);
  };

  const addExternal = (frontend: Frontend) => {
    const { verdict, ownVerdict } = frontend;
    const list = verdict === "cluster" ? "cluster" : "local";
    if (ownVerdict !== "cluster" || verdict !== "local" && clusterEndpoints.length === 0) return;
    dispatch("services", frontend, own?.external, isPolicyLocal(verdict) ? "external-local" : "external", list);
    fill(`${protocol}-endpoints`, frontend, list);
    if (ownVerdict === verdict || withAffinity || clusterEndpoints.length === 0) return;
    dispatch("shortcuts", frontend, undefined, "shortcut", "cluster");
    fill(`${protocol}-shortcut-endpoints`, frontend, "cluster");
  };

  for (const frontend of frontendsOf(port)) {
    refuse(elements, frontend, keyOf);
    if (frontend.kind === "clusterIP") addClusterIP(frontend);
    else addExternal(frontend);
    restrictSources(elements, frontend, keyOf);
  }
  return {
    elements,
    sharedElements: sharedElements(port),
    pickChains: [...pickChains],
    ownChains: withAffinity ? affinityChains(port, settings, dialect) : [],
    clientSets: withAffinity ? clientSets(port, dialect) : [],
  };
}

/** Session affinity has no slots: its chains name the endpoints. */
const NO_SLOTS: SlotList = { draw: "random", slots: [] };

type KeyOf = (frontend: Frontend) => string;

/** Adds the element of a frontend whose packets are rejected or dropped. */
function refuse(elements: Element[], frontend: Frontend, keyOf: KeyOf): void {
  const { verdict } = frontend;
  if (verdict !== "reject" && verdict !== "drop") return;
  elements.push({ set: verdict === "reject" ? "refused" : "dropped", key: keyOf(frontend), value: "" });
}

/**
 * Adds the elements that drop packets from sources outside the ranges of a frontend. Without endpoints, other sources are
 * still dropped, and admitted ones rejected (as in kube-proxy's nftables mode).
 */
function restrictSources(elements: Element[], frontend: Frontend, keyOf: KeyOf): void {
  if (frontend.sources === undefined) return;
  const key = keyOf(frontend);
  elements.push({ set: "firewalled", key, value: "" });
  for (const range of disjoint(frontend.sources)) {
    elements.push({ set: "source-ranges", key: `${key} . ${prefixText(range)}`, value: "" });
  }
}

/**
 * Elements that service ports share. Traffic from an endpoint to itself through a service must be masqueraded, or the
 * endpoint would drop packets from its own address. kube-proxy has a rule for each endpoint; here only endpoints of
 * this node have an element (nft 1.0.6 cannot compare the two addresses of a packet, and an element per endpoint would
 * double the table). Packets of other endpoints are translated on their own nodes. They arrive untranslated only if
 * their node has no proxy and routes service addresses to this one. They are then masqueraded like all traffic that
 * does not come from pods of this node, unless detectLocalMode counts the pods of the whole cluster as local: in that
 * case a packet from an endpoint to itself is lost.
 */
function sharedElements(port: ServicePort): SharedElement[] {
  const addresses = new Set(port.endpointsOnThisNode.map((endpoint) => splitHostPort(endpoint).address));
  return [
    { set: "cluster-ips", key: port.clusterIP },
    ...[...addresses].map((address) => ({ set: "hairpins", key: `${address} . ${address}` }) as const),
  ];
}

/** The widest of nested prefixes: the kernel accepts no overlapping elements. */
function disjoint(prefixes: readonly string[]): string[] {
  const unique = [...new Set(prefixes)];
  const length = (prefix: string) => Number(prefix.slice(prefix.indexOf("/") + 1));
  return unique.filter((inner) =>
    !unique.some((outer) => length(outer) < length(inner) && prefixContains(outer, inner.slice(0, inner.indexOf("/"))))
  );
}
