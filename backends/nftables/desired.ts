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
import { prefixText, splitHostPort } from "../../platform/mod.ts";
import { affinityRules, ownAffinityChains } from "./affinity.ts";
import {
  type AffinityChainNames,
  affinityChainNames,
  endpointMap,
  endpointNumbers,
  type NumberedPort,
} from "./affinity_names.ts";
import { countFailure } from "./counters.ts";
import { NODE_PORT_REFUSALS, nodePortRefusals } from "./frame.ts";
import {
  keepSlots,
  outsideMapName,
  parsePickChain,
  pickChainName,
  type PickKind,
  pickRules,
  type SlotList,
  slotList,
  type SlotOrder,
} from "./endpoints.ts";
import { declarationOf, outsideMap, type SetName, setText } from "./sets.ts";
import { sourceRanges, sourceRules } from "./sources.ts";
import { type Dialect, endpointElement, type ListName, servicePortHash } from "./table.ts";
import { chainText, type Item, itemId, parseItemId } from "./transaction.ts";

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

/** The slots that two versions of a service port differ in; undefined if they may differ in more. */
export function changedSlots(before: NumberedPort, after: NumberedPort): Slots | undefined {
  if (after.balance !== undefined || !differsInEndpointsOnly(before, after)) return undefined;
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
  const draft = createDraft(port, settings, dialect, only);
  const { own, shared, named, affinity } = draft;
  for (const frontend of frontendsOf(port)) {
    const { verdict, destinations, sources } = frontend;
    if (destinations?.length === 0) continue;
    if (verdict === "reject") refuse(draft, "refused", frontend);
    if (verdict === "drop") refuse(draft, "dropped", frontend);
    for (const route of routesOf(frontend, port)) addRoute(draft, frontend, route);
    // Of a change of endpoints alone, the ranges are in neither contribution: there may be thousands for each port.
    if (sources !== undefined && only === undefined) admit(draft, frontend, sources);
  }
  if (affinity) own.push(...ownAffinityChains(affinity, port, settings, dialect));
  own.push(...named.values());
  return { own, shared: [...shared] };
}

/** A contribution to which frontends add what they need. */
interface Draft {
  readonly port: NumberedPort;
  readonly settings: FamilySettings;
  readonly dialect: Dialect;
  readonly only: Slots | undefined;
  readonly own: Item[];
  readonly shared: Set<string>;
  /** Chains and maps of its own by name; chains refer only to earlier ones. */
  readonly named: Map<string, Item>;
  readonly affinity: AffinityChainNames | undefined;
  readonly lists: Readonly<Record<ListName, SlotList>>;
}

function createDraft(port: NumberedPort, settings: FamilySettings, dialect: Dialect, only: Slots | undefined): Draft {
  const affinity = port.affinitySeconds > 0 ? affinityChainNames(port) : undefined;
  const slotsOf = (list: ListName): SlotList => {
    const slots = slotList(port, list);
    if (affinity === undefined) return slots;
    // Chains of its own name the endpoints.
    return affinity.shared ? { ...slots, numbers: endpointNumbers(port, list) } : { ...slots, slots: [] };
  };
  const lists = { cluster: slotsOf("cluster"), local: slotsOf("local") };
  const shared = new Set(sharedElements(port));
  return { port, settings, dialect, only, own: [], shared, named: new Map(), affinity, lists };
}

function addressOf({ dialect }: Pick<Draft, "dialect">, { kind, address }: Frontend): string {
  return kind === "nodePort" ? dialect.anyAddress : address;
}

/**
 * Returns whether an item may be part of any version of these service ports. All items with one of their addresses may be; all
 * node ports have the same address, so that of these only their own count.
 */
export function mayBelongTo(ports: readonly ServicePort[], dialect: Dialect): (item: Item) => boolean {
  const owners = new Set(ports.map(servicePortHash));
  const places = new Set(
    ports.flatMap((port) =>
      frontendsOf(port).map((frontend) =>
        frontend.kind === "nodePort" ? keyOf({ port, dialect }, frontend) : frontend.address
      )
    ),
  );
  return ({ list, key }) => {
    const name = list === "chain" || list === "set" ? key : list, protocol = SLOTS.exec(list)?.[1];
    const [address = "", ...fields] = key.split(" . ");
    const frontend = [address, ...(protocol === undefined ? fields : [protocol, ...fields]).slice(0, 2)];
    return name.split("-").some((part) => owners.has(part)) || places.has(address) || places.has(frontend.join(" . "));
  };
}

/** The maps of slots, whose names have the protocol of the frontend instead of their keys. */
const SLOTS = /^(tcp|udp|sctp)-(?:shortcut-)?endpoints$/;

function keyOf({ port, dialect }: Pick<Draft, "port" | "dialect">, frontend: Frontend): string {
  return `${addressOf({ dialect }, frontend)} . ${port.protocol} . ${frontend.port}`;
}

function share({ shared }: Draft, list: "chain" | "set", key: string): void {
  shared.add(itemId({ list, key }));
}

/** Adds a chain of its own, and returns its name. */
function addChain({ port, named }: Draft, use: string, rules: readonly string[]): string {
  const key = `${use}-${servicePortHash(port)}`;
  named.set(key, { list: "chain", key, text: chainText(undefined, rules) });
  return key;
}

/** Adds a chain that applies a statement to packets to these prefixes only, and returns its name. */
function addLimit(draft: Draft, use: string, destinations: readonly string[], statement: string): string {
  const { ip } = draft.dialect;
  return addChain(draft, use, destinations.map((prefix) => `${ip} daddr ${prefixText(prefix)} ${statement}`));
}

/** Has packets to a frontend rejected or dropped. */
function refuse(draft: Draft, set: "refused" | "dropped", frontend: Frontend): void {
  const { settings, dialect, own } = draft, { destinations } = frontend, key = keyOf(draft, frontend);
  if (destinations === undefined) return void own.push({ list: set, key, text: "" });
  const statement = countFailure(settings, set, dialect, true) + (set === "refused" ? "reject" : "drop");
  own.push({ list: "restricted", key, text: `goto ${addLimit(draft, "nodeport-refused", destinations, statement)}` });
  share(draft, "chain", NODE_PORT_REFUSALS);
}

/** Has packets to a frontend dropped unless they come from one of these ranges. */
function admit(draft: Draft, frontend: Frontend, sources: readonly string[]): void {
  const { port, own, shared } = draft, key = keyOf(draft, frontend);
  const { chain, list, elements } = sourceRanges(sources, sharesSlots(port));
  own.push({ list: "restricted", key, text: `goto ${chain}` });
  share(draft, "chain", chain);
  if (list === undefined) {
    for (const element of elements) own.push({ list: "sources", key: `${key} . ${element}`, text: "" });
  } else if (!shared.has(itemId({ list: "set", key: list }))) {
    share(draft, "set", list);
    for (const element of elements) shared.add(itemId({ list, key: element }));
  }
}

/** Adds the elements of a list's slots. */
function fill({ port, lists, only, own }: Draft, set: SetName, prefix: string, list: ListName): void {
  const { slots, numbers } = lists[list];
  for (const i of only?.[list] ?? slots.keys()) {
    if (i >= slots.length) continue;
    const number = numbers?.[i];
    const map = number === undefined ? set : endpointMap(port.protocol, port.affinitySeconds, number);
    own.push({ list: map, key: `${prefix}${number ?? i}`, text: endpointElement(slots[i]!) });
  }
}

/** Sends packets to a frontend to a chain that picks an endpoint from a list, and adds what the chain looks up. */
function addRoute(draft: Draft, frontend: Frontend, { set, kind, list }: Route): void {
  const { port, settings, dialect, own, named, affinity } = draft, { protocol } = port;
  const { draw, slots: { length: slots } } = draft.lists[list];
  const owner = draw === "turn" ? servicePortHash(port) : undefined;
  const chain = { kind, protocol, slots, draw, owner, nodePort: frontend.kind === "nodePort" };
  const isOutside = frontend.kind === "externalIP" || frontend.kind === "loadBalancerIP";
  const map = isOutside && !affinity && sharesSlots(port) ? outsideMapName(port, kind) : undefined;
  const isNew = map && !named.has(map);
  let name: string;
  if (map) {
    name = `outside-${kind}-${servicePortHash(port)}`;
    if (isNew) addChain(draft, `outside-${kind}`, pickRules(chain, settings, dialect, map));
  } else {
    name = affinity === undefined ? pickChainName(chain) : kind === "pick" ? affinity[list] : affinity.external;
    for (const chain of affinity ? affinity.shared?.chains ?? [] : [name]) share(draft, "chain", chain);
    for (const map of affinity?.shared?.maps ?? []) share(draft, "set", map);
  }
  const { destinations } = frontend;
  // Packets reach a shortcut through the chain in the map of services.
  if (destinations && set === "services") name = addLimit(draft, "nodeport-at", destinations, `goto ${name}`);
  own.push({ list: set, key: keyOf(draft, frontend), text: `goto ${name}` });
  if (map === undefined) {
    const endpoints = `${protocol}-${kind === "shortcut" ? "shortcut-" : ""}endpoints` as const;
    fill(draft, endpoints, `${addressOf(draft, frontend)} . ${frontend.port} . `, list);
  } else if (isNew) {
    named.set(map, { list: "set", key: map, text: setText(outsideMap(protocol), dialect) });
    fill(draft, map, `${frontend.port} . `, list);
  }
}

/** A way of packets to the endpoints of a list: through an element of a map, and a chain of this kind. */
interface Route {
  readonly set: "services" | "shortcuts";
  readonly kind: PickKind;
  readonly list: ListName;
}

function routesOf({ kind, verdict, ownVerdict }: Frontend, port: ServicePort): readonly Route[] {
  const hasAny = port.clusterEndpoints.length > 0;
  if (kind === "clusterIP") {
    const isServed = verdict === "cluster" && hasAny || verdict === "local" && port.localEndpoints.length > 0;
    return isServed ? [{ set: "services", kind: "pick", list: verdict }] : [];
  }
  if (ownVerdict !== "cluster" || verdict !== "local" && !hasAny) return [];
  const list = verdict === "cluster" ? "cluster" : "local";
  const route: Route = { set: "services", kind: isPolicyLocal(verdict) ? "external-local" : "external", list };
  if (ownVerdict === verdict || port.affinitySeconds > 0 || !hasAny) return [route];
  return [route, { set: "shortcuts", kind: "shortcut", list: "cluster" }];
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

/** The text of a chain that service ports share, which follows from its name; undefined if it is not shared. */
export function sharedChainText(name: string, settings: FamilySettings, dialect: Dialect): string | undefined {
  if (name === NODE_PORT_REFUSALS) return nodePortRefusals(settings, dialect);
  const chain = parsePickChain(name);
  const rules = chain
    ? pickRules(chain, settings, dialect)
    : sourceRules(name, settings, dialect) ?? affinityRules(name, dialect);
  return rules && chainText(undefined, rules);
}

/** An element, set or chain that service ports share, by its id. */
export function sharedItem(id: string, settings: FamilySettings, dialect: Dialect): Item {
  const { list, key } = parseItemId(id);
  switch (list) {
    case "chain":
      return { list, key, text: sharedChainText(key, settings, dialect)! };
    case "set":
      return { list, key, text: setText(declarationOf(key), dialect) };
    default:
      return { list, key, text: "" };
  }
}
