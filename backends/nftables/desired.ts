import {
  differsInEndpointsOnly,
  type FamilyDelta,
  type FamilySettings,
  type Frontend,
  frontendsOf,
  isPolicyLocal,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  sharesSlots,
} from "../../core/model/mod.ts";
import { splitHostPort } from "../../platform/mod.ts";
import { affinityChainNames, endpointNumbers, type NumberedPort, ownAffinityChains } from "./affinity.ts";
import { countFailure } from "./counters.ts";
import { NODE_PORT_REFUSALS } from "./frame.ts";
import { counterOwner, type ListName, type SlotList, slotList } from "./draw.ts";
import { outsideMapName, type PickChain, pickChainName, type PickKind, pickRules } from "./shared_chains.ts";
import { keepSlots, type SlotOrder } from "./slot_order.ts";
import { outsideMap, type SetName, setText } from "./sets.ts";
import { sourceRanges } from "./sources.ts";
import { type Dialect, endpointElement, prefixText } from "./table.ts";
import { chainText, type Item, itemId } from "./transaction.ts";

/** The desired state of a family: its service ports and settings after all deltas. */
export interface Desired {
  /** Applies a delta; returns the service ports whose part of the table may have changed or must be deleted. */
  apply(delta: FamilyDelta): ReadonlySet<ServicePortKey>;
  servicePort(key: ServicePortKey): NumberedPort | undefined;
  servicePorts(): Iterable<NumberedPort>;
  keys(): Iterable<ServicePortKey>;
  /** Undefined before the first full state. */
  settings(): FamilySettings | undefined;
  /** Reorders the endpoints of a service port by the slots that they have in the kernel; returns the result. */
  orderBy(key: ServicePortKey, slots: SlotOrder): NumberedPort | undefined;
}

/** The state of a family before the first delta. */
export function createDesired(): Desired {
  let settings: FamilySettings | undefined;
  let ports = new Map<ServicePortKey, NumberedPort>();
  return {
    apply(delta) {
      const changed = new Set<ServicePortKey>(), before = ports;
      if (delta.base === undefined) {
        for (const key of ports.keys()) changed.add(key);
        ports = new Map();
      }
      if (delta.settings) {
        settings = delta.settings;
        for (const key of ports.keys()) changed.add(key);
      }
      for (const key of delta.deleted) {
        ports.delete(key);
        changed.add(key);
      }
      for (const port of delta.set) {
        const key = servicePortKey(port.name, port.protocol);
        ports.set(key, keepSlots(port, before.get(key)));
        changed.add(key);
      }
      return changed;
    },
    servicePort: (key) => ports.get(key),
    servicePorts: () => ports.values(),
    keys: () => ports.keys(),
    settings: () => settings,
    orderBy(key, slots) {
      const port = ports.get(key);
      if (port) ports.set(key, keepSlots(port, slots));
      return ports.get(key);
    },
  };
}

/** Everything in the table that one service port needs. */
export interface Contribution {
  readonly own: readonly Item[];
  /** The ids of the elements, sets and chains that it shares with others. */
  readonly shared: readonly string[];
}

/** The numbers of slots of both lists. */
type Slots = Readonly<Record<ListName, readonly number[]>>;

/**
 * The slots whose elements two versions of a service port differ in; undefined if they may differ in more than endpoints, or if
 * more than elements depends on these.
 */
export function changedSlots(before: NumberedPort, after: NumberedPort): Slots | undefined {
  if (after.affinitySeconds > 0 || after.balance !== undefined || !differsInEndpointsOnly(before, after)) {
    return undefined;
  }
  const changed = (one: readonly string[], other: readonly string[]) => {
    const slots = [];
    for (let i = 0; i < one.length || i < other.length; i++) if (one[i] !== other[i]) slots.push(i);
    return slots;
  };
  return {
    cluster: changed(before.clusterEndpoints, after.clusterEndpoints),
    local: changed(before.localEndpoints, after.localEndpoints),
  };
}

/** The contribution of an unknown service port. */
export const NOTHING: Contribution = { own: [], shared: [] };

/**
 * The contribution of a service port to the table.
 *
 * Each frontend has its own list of endpoints, although those of one service port are often the same: one lookup with fields
 * of the packet's header finds the endpoint. A list that several frontends share would need a chain per service port, and the
 * kernel walks all chains when one of them changes. So a change of an endpoint costs one element per frontend of the service
 * port (one, except for node ports and load balancers), and no rule. Only where a service port has many external frontends, these
 * share a list, in a map and with a chain of their own.
 * @param only the slots of each list whose elements are rendered; all by default
 */
export function contributionOf(
  port: NumberedPort,
  settings: FamilySettings,
  dialect: Dialect,
  only?: Slots,
): Contribution {
  const { protocol, clusterEndpoints, localEndpoints } = port;
  const own: Item[] = [];
  /** Chains of its own that refer to others. */
  const chains: Item[] = [];
  const sharedChains = new Set<string>();
  const hasSharedSlots = sharesSlots(port);
  /** The chains and maps of the frontends that share their slots. */
  const outside = new Set<string>();
  /** The ids of the sets and elements of its lists of sources. */
  const sourceLists = new Set<string>();
  const withAffinity = port.affinitySeconds > 0;
  const affinity = withAffinity ? affinityChainNames(port) : undefined;
  const slotsOf = (list: ListName): SlotList => {
    const slots = slotList(port, list);
    if (affinity === undefined) return slots;
    // Chains of its own name the endpoints.
    return affinity.isShared ? { ...slots, numbers: endpointNumbers(port, list) } : { ...slots, slots: [] };
  };
  const lists: Readonly<Record<ListName, SlotList>> = { cluster: slotsOf("cluster"), local: slotsOf("local") };

  /** Sends packets to a frontend to the chain that picks an endpoint: the service port's own, or a shared one. */
  const dispatch = (
    set: "services" | "shortcuts",
    frontend: Frontend,
    affinityChain: string | undefined,
    kind: PickKind,
    list: ListName,
  ) => {
    const chain = pickChain(kind, frontend, list);
    const isOwn = affinity ? !affinity.isShared : isShared(frontend);
    const name = affinityChain ?? (isOwn ? addOutside(chain) : pickChainName(chain));
    if (!isOwn) sharedChains.add(name);
    const { destinations } = frontend;
    // Packets reach a shortcut through the chain in the map of services.
    const first = destinations && set === "services" ? limited("nodeport-at", destinations, `goto ${name}`) : name;
    own.push({ list: set, key: keyOf(frontend), text: `goto ${first}` });
  };
  /** Adds a chain that applies a statement to packets to these prefixes only, and returns its name. */
  const limited = (use: string, destinations: readonly string[], statement: string): string => {
    const name = `${use}-${counterOwner(port)}`;
    const rules = destinations.map((prefix) => `${dialect.ip} daddr ${prefixText(prefix)} ${statement}`);
    chains.push({ list: "chain", key: name, text: chainText(undefined, rules) });
    return name;
  };
  const refuse = (set: "refused" | "dropped", frontend: Frontend) => {
    const { destinations } = frontend, key = keyOf(frontend);
    if (destinations === undefined) return own.push({ list: set, key, text: "" });
    const statement = countFailure(settings, set, dialect, true) + (set === "refused" ? "reject" : "drop");
    const name = limited("nodeport-refused", destinations, statement);
    own.push({ list: "restricted", key, text: `goto ${name}` });
    sharedChains.add(NODE_PORT_REFUSALS);
  };
  const pickChain = (kind: PickKind, frontend: Frontend, list: ListName): PickChain => {
    const { draw, slots: { length: slots } } = lists[list];
    const owner = draw === "turn" ? counterOwner(port) : undefined;
    return { kind, protocol, slots, draw, owner, nodePort: frontend.kind === "nodePort" };
  };
  /** Whether the slots of a frontend are those of the first external one. */
  const isShared = ({ kind }: Frontend) => hasSharedSlots && (kind === "externalIP" || kind === "loadBalancerIP");
  /** Adds the chain of the frontends that share their slots, unless it is there, and returns its name. */
  const addOutside = (chain: PickChain): string => {
    const name = `outside-${chain.kind}-${counterOwner(port)}`;
    if (!outside.has(name)) {
      outside.add(name);
      chains.push({
        list: "chain",
        key: name,
        text: chainText(undefined, pickRules(chain, settings, dialect, outsideMapName(port, chain.kind))),
      });
    }
    return name;
  };
  /** Adds the elements of a list's slots. */
  const fillSlots = (set: SetName, prefix: string, list: ListName) => {
    const { slots, numbers } = lists[list];
    for (const i of only?.[list] ?? slots.keys()) {
      if (i >= slots.length) continue;
      own.push({ list: set, key: `${prefix}${numbers?.[i] ?? i}`, text: endpointElement(slots[i]!) });
    }
  };
  const fill = (set: SetName, frontend: Frontend, list: ListName) =>
    fillSlots(set, `${addressOf(frontend)} . ${frontend.port} . `, list);
  const fillExternal = (kind: PickKind, frontend: Frontend, list: ListName) => {
    if (!isShared(frontend)) {
      return fill(`${protocol}-${kind === "shortcut" ? "shortcut-" : ""}endpoints`, frontend, list);
    }
    const map = outsideMapName(port, kind);
    if (outside.has(map)) return;
    outside.add(map);
    own.push({ list: "set", key: map, text: setText(outsideMap(protocol), dialect) });
    fillSlots(map, `${frontend.port} . `, list);
  };
  const addressOf = ({ kind, address }: Frontend) => kind === "nodePort" ? dialect.anyAddress : address;
  const keyOf = (frontend: Frontend) => `${addressOf(frontend)} . ${protocol} . ${frontend.port}`;

  const addClusterIP = (frontend: Frontend) => {
    const { verdict } = frontend;
    if (verdict !== "cluster" && verdict !== "local") return;
    const endpoints = verdict === "cluster" ? clusterEndpoints : localEndpoints;
    if (endpoints.length === 0) return;
    dispatch("services", frontend, affinity?.[verdict], "pick", verdict);
    fill(`${protocol}-endpoints`, frontend, verdict);
  };

  const addExternal = (frontend: Frontend) => {
    const { verdict, ownVerdict } = frontend;
    const list = verdict === "cluster" ? "cluster" : "local";
    if (ownVerdict !== "cluster" || verdict !== "local" && clusterEndpoints.length === 0) return;
    const kind = isPolicyLocal(verdict) ? "external-local" : "external";
    dispatch("services", frontend, affinity?.external, kind, list);
    fillExternal(kind, frontend, list);
    if (ownVerdict === verdict || withAffinity || clusterEndpoints.length === 0) return;
    dispatch("shortcuts", frontend, undefined, "shortcut", "cluster");
    fillExternal("shortcut", frontend, "cluster");
  };

  for (const frontend of frontendsOf(port)) {
    const { verdict, destinations } = frontend;
    if (destinations?.length === 0) continue;
    if (verdict === "reject") refuse("refused", frontend);
    if (verdict === "drop") refuse("dropped", frontend);
    if (frontend.kind === "clusterIP") addClusterIP(frontend);
    else addExternal(frontend);
    if (frontend.sources !== undefined) {
      const { chain, list, elements } = sourceRanges(frontend.sources, hasSharedSlots), key = keyOf(frontend);
      own.push({ list: "restricted", key, text: `goto ${chain}` });
      if (list === undefined) {
        for (const element of elements) own.push({ list: "sources", key: `${key} . ${element}`, text: "" });
      } else if (!sharedChains.has(chain)) {
        sourceLists.add(itemId({ list: "set", key: list }));
        for (const element of elements) sourceLists.add(itemId({ list, key: element }));
      }
      sharedChains.add(chain);
    }
  }
  if (affinity && !affinity.isShared) own.push(...ownAffinityChains(affinity, port, settings, dialect));
  own.push(...chains);
  return {
    own,
    shared: [
      ...sharedElements(port),
      ...[...sharedChains].map((key) => itemId({ list: "chain", key })),
      ...sourceLists,
    ],
  };
}

/**
 * The ids of the elements that service ports share. Traffic from an endpoint to itself through a service must be masqueraded, or the
 * endpoint would drop packets from its own address. kube-proxy has a rule for each endpoint; here only endpoints of
 * this node have an element (nft 1.0.6 cannot compare the two addresses of a packet, and an element per endpoint would
 * double the table). Packets of other endpoints are translated on their own nodes. They arrive untranslated only if
 * their node has no proxy and routes service addresses to this one. They are then masqueraded like all traffic that
 * does not come from pods of this node, unless detectLocalMode counts the pods of the whole cluster as local: in that
 * case a packet from an endpoint to itself is lost.
 */
function sharedElements(port: ServicePort): string[] {
  const addresses = new Set(port.endpointsOnThisNode.map((endpoint) => splitHostPort(endpoint).address));
  return [
    itemId({ list: "cluster-ips", key: port.clusterIP }),
    ...[...addresses].map((address) => itemId({ list: "hairpins", key: `${address} . ${address}` })),
  ];
}
