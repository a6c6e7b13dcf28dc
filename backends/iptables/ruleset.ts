import {
  differsInEndpointsOnly,
  type FamilyDelta,
  type FamilySettings,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
} from "../../core/model/mod.ts";
import { type Family, splitHostPort } from "../../platform/mod.ts";
import {
  BASE,
  type BaseOptions,
  baseRules,
  type ChainsByTable,
  fixedChain,
  type Layout,
  serviceChainNames,
  type Table,
  TABLES,
  type WantedChains,
} from "../xtables/mod.ts";
import { createDispatchTree, type DispatchEntry, type DispatchTree, frontendPlace, LEAF_CAPACITY } from "./dispatch.ts";
import { type FrontendRule, frontendRules, type TreeName, TREES } from "./frontends.ts";
import { chainsOf, changedChains, isGroupChain, renderServiceChain } from "./service_chains.ts";

/** The rules that the kernel should have for one family. Any chain can be rendered at any time; nothing is read or written. */
export interface Ruleset extends WantedChains {
  /** Applies a delta and returns the chains that may have changed, including removed ones. */
  apply(delta: FamilyDelta): ChainsByTable;
  /** Returns the chains from the entry chain to the one with a frontend's rule. */
  dispatchPath(tree: TreeName, place: string): readonly string[];
  /** The service port of a nat chain that chooses endpoints; undefined for other chains. */
  chainOwner(chain: string): ServicePortKey | undefined;
  servicePorts(): Iterable<ServicePort>;
  settings(): FamilySettings | undefined;
}

const TREE_NAMES = Object.keys(TREES) as TreeName[];

/** Creates the ruleset of a family without services. */
export function createRuleset(options: BaseOptions & { readonly layout: Layout }): Ruleset {
  let settings: FamilySettings | undefined;
  let index = emptyIndex(options);
  const { baseChains } = options.layout;

  /** Touches every chain, since every chain depends on the settings. */
  function touchAll(): Record<Table, Set<string>> {
    const all = takeTouched(index);
    for (const table of TABLES) for (const chain of chainsOfTable(table)) all[table].add(chain);
    return all;
  }

  function* chainsOfTable(table: Table): Generator<string> {
    if (table === "nat") yield* index.chainOwners.keys();
    for (const name of TREE_NAMES) if (TREES[name].table === table) yield* index.trees[name].chains();
    yield* baseChains[table];
  }

  return {
    apply(delta) {
      if (delta.base === undefined) {
        // Chains of the previous state count as touched, so that unwanted ones are removed.
        const before = touchAll();
        index = emptyIndex(options);
        settings = delta.settings;
        for (const port of inWalkOrder(delta.set)) set(index, port);
        const now = touchAll();
        for (const table of TABLES) for (const chain of before[table]) now[table].add(chain);
        return now;
      }
      for (const key of delta.deleted) remove(index, key);
      for (const port of delta.set) set(index, port);
      if (!delta.settings) return takeTouched(index);
      settings = delta.settings;
      return touchAll();
    },
    exclude(key, exclusion) {
      const port = index.ports.get(key);
      if (port && exclusion !== index.excluded.has(key)) {
        if (exclusion) index.excluded.add(key);
        else index.excluded.delete(key);
        move(index, port, key, exclusion ? "out" : "in");
      }
      return takeTouched(index);
    },
    render(table, chain) {
      if (!settings) return undefined;
      const owner = table === "nat" ? index.chainOwners.get(chain) : undefined;
      if (owner !== undefined) {
        const rules = renderServiceChain(index.ports.get(owner)!, chain, settings);
        const jumps = rules.filter((rule) => rule.includes(" -j KUBE-SV")).length;
        return { rules, jumps: Math.max(1, jumps), ownerOf: () => owner };
      }
      const isBase = baseChains[table].includes(chain);
      const dispatch = treeOf(index, table, chain)?.render(chain);
      if (!dispatch && !isBase) return undefined;
      const fixed = isBase ? baseRules(table, chain, settings, options, index.hairpin.addresses()) : [];
      if (!dispatch) return fixedChain(fixed);
      return {
        rules: [...dispatch.rules, ...fixed],
        jumps: dispatch.rules.length,
        ownerOf: (rule) => dispatch.owners[rule],
      };
    },
    has: (table, chain) =>
      table === "nat" && index.chainOwners.has(chain) || baseChains[table].includes(chain) ||
      treeOf(index, table, chain) !== undefined,
    chains: chainsOfTable,
    rank: (table, chain) => rankOf(index, table, chain),
    dispatchPath: (tree, place) => index.trees[tree].path(place),
    servicePort: (key) => index.ports.get(key),
    chainOwner: (chain) => index.chainOwners.get(chain),
    servicePorts: () => index.ports.values(),
    settings: () => settings,
  };
}

/** The service ports of a ruleset, and their places in its chains. */
interface ServiceIndex {
  readonly ports: Map<ServicePortKey, ServicePort>;
  /** The service port of each of the service chains. */
  readonly chainOwners: Map<string, ServicePortKey>;
  readonly trees: Readonly<Record<TreeName, DispatchTree>>;
  /** The service ports in `ports` without chains and rules. */
  readonly excluded: Set<ServicePortKey>;
  readonly hairpin: ReturnType<typeof createAddressCounts>;
  touchedChains: Set<string>;
}

function emptyIndex({ family, hairpin }: BaseOptions): ServiceIndex {
  const ports = new Map<ServicePortKey, ServicePort>();
  return {
    ports,
    chainOwners: new Map(),
    trees: emptyTrees(family, ports),
    excluded: new Set(),
    hairpin: createAddressCounts(hairpin === "per-endpoint"),
    touchedChains: new Set(),
  };
}

function emptyTrees(family: Family, servicePorts: ServiceIndex["ports"]): ServiceIndex["trees"] {
  const addressDigits = family === "IPv4" ? 8 : 32;
  const known = new WeakMap<ServicePort, ReadonlyMap<string, FrontendRule>>();
  /**
   * The rules of a service port by their ids, the first one where two frontends have the same address. Those of many
   * frontends are kept: rendering all for each of them would take time with the square of their number.
   */
  const rulesOf = (owner: ServicePortKey) => {
    const port = servicePorts.get(owner)!, kept = known.get(port);
    if (kept !== undefined) return kept;
    const rules = new Map(frontendRules(port, owner).toReversed().map((rule) => [ruleId(rule.tree, rule), rule]));
    if (rules.size > LEAF_CAPACITY) known.set(port, rules);
    return rules;
  };
  return Object.fromEntries(TREE_NAMES.map((tree) => {
    const { chain, prefix, ports } = TREES[tree];
    const ruleOf = (entry: DispatchEntry) => rulesOf(entry.owner).get(ruleId(tree, entry))!.rule();
    const options = { entryChain: chain, namePrefix: prefix, addressDigits: ports ? 0 : addressDigits, ruleOf };
    return [tree, createDispatchTree(options)];
  })) as Record<TreeName, DispatchTree>;
}

/** Identifies a rule among those of its service port. */
function ruleId(tree: TreeName, { place, within }: DispatchEntry): string {
  return within === undefined ? `${tree} ${place}` : `${tree} ${place} ${within}`;
}

function set(index: ServiceIndex, port: ServicePort): void {
  const key = servicePortKey(port.name, port.protocol), before = index.ports.get(key);
  if (before && !index.excluded.has(key) && hasSameFrontends(before, port)) return change(index, before, port, key);
  remove(index, key);
  index.ports.set(key, port);
  move(index, port, key, "in");
}

/** Whether two versions of a service port differ in endpoints only, and both have some in the same lists. */
function hasSameFrontends(before: ServicePort, after: ServicePort): boolean {
  return differsInEndpointsOnly(before, after) &&
    (before.clusterEndpoints.length === 0) === (after.clusterEndpoints.length === 0) &&
    (before.localEndpoints.length === 0) === (after.localEndpoints.length === 0);
}

/** Changes the endpoints of a service port. */
function change(
  { ports, chainOwners, touchedChains, hairpin }: ServiceIndex,
  before: ServicePort,
  port: ServicePort,
  key: ServicePortKey,
): void {
  const names = serviceChainNames(port);
  for (const chain of changedChains(before, port, names)) {
    chainOwners.delete(chain);
    touchedChains.add(chain);
  }
  for (const chain of chainsOf(port, names)) chainOwners.set(chain, key);
  ports.set(key, port);
  hairpin.count(port, 1);
  hairpin.count(before, -1);
}

function remove(index: ServiceIndex, key: ServicePortKey): void {
  const port = index.ports.get(key);
  if (!port) return;
  if (!index.excluded.delete(key)) move(index, port, key, "out");
  index.ports.delete(key);
}

/** Adds the chains and rules of a service port, or removes them. */
function move(
  { chainOwners, touchedChains, trees, hairpin }: ServiceIndex,
  port: ServicePort,
  key: ServicePortKey,
  to: "in" | "out",
): void {
  const names = serviceChainNames(port);
  for (const chain of chainsOf(port, names)) {
    if (to === "in") chainOwners.set(chain, key);
    else chainOwners.delete(chain);
    touchedChains.add(chain);
  }
  for (const { tree, place, within } of frontendRules(port, key, names)) {
    const entry = within === undefined ? { place, owner: key } : { place, owner: key, within };
    if (to === "in") trees[tree].add(entry);
    else trees[tree].remove(entry);
  }
  hairpin.count(port, to === "in" ? 1 : -1);
}

function takeTouched(index: ServiceIndex): Record<Table, Set<string>> {
  const { trees, hairpin } = index;
  const touched = { mangle: new Set<string>(), filter: new Set<string>(), nat: index.touchedChains };
  index.touchedChains = new Set();
  for (const name of TREE_NAMES) for (const chain of trees[name].takeTouched()) touched[TREES[name].table].add(chain);
  if (hairpin.takeChanged()) touched.nat.add(BASE.postrouting);
  return touched;
}

/** The tree that a chain belongs to. */
function treeOf({ trees }: ServiceIndex, table: Table, chain: string): DispatchTree | undefined {
  for (const name of TREE_NAMES) {
    if (TREES[name].table === table && trees[name].depthOf(chain) !== undefined) return trees[name];
  }
  return undefined;
}

function chainRank(chain: string): number {
  if (chain.startsWith("KUBE-FW-")) return 4;
  if (chain.startsWith("KUBE-EXT-")) return 3;
  return isGroupChain(chain) ? 1 : 2;
}

/** More than the depth of the deepest tree. */
const ENTRY_RANK = 64;

function rankOf(index: ServiceIndex, table: Table, chain: string): number {
  if (table === "nat") {
    if (chain === BASE.markMasquerade) return 0;
    if (index.chainOwners.has(chain)) return chainRank(chain);
  }
  if (chain === BASE.relayed) return 0;
  const depth = treeOf(index, table, chain)?.depthOf(chain);
  if (depth === undefined) return ENTRY_RANK + 1;
  // The services' entry chain comes last: it jumps to node ports, at localhost through a chain that is in no tree.
  return ENTRY_RANK - depth + (chain === BASE.services || chain === BASE.externalServices ? 2 : 0);
}

/**
 * Service ports in the order in which the services' dispatch tree leads to their chains. The kernel walks all rules with every
 * change, in this order, and needs a fifth less time if they are in the same order in memory.
 */
function inWalkOrder(ports: readonly ServicePort[]): ServicePort[] {
  return ports
    .map((port) => ({ port, place: frontendPlace(port.clusterIP, port.protocol, port.port) }))
    .sort((a, b) => a.place < b.place ? -1 : a.place > b.place ? 1 : 0)
    .map(({ port }) => port);
}

/** Counts the service ports with an endpoint at each pod address of this node, if hairpin rules need them. */
function createAddressCounts(needed: boolean) {
  const counts = new Map<string, number>();
  let changed = true;
  return {
    count(port: ServicePort, by: 1 | -1): void {
      if (!needed) return;
      for (const endpoint of port.endpointsOnThisNode) {
        const { address } = splitHostPort(endpoint);
        const count = (counts.get(address) ?? 0) + by;
        if (count === 0) counts.delete(address);
        else counts.set(address, count);
        if (count === 0 || count === by) changed = true;
      }
    },
    addresses: () => [...counts.keys()].sort(),
    takeChanged() {
      const was = changed;
      changed = false;
      return was;
    },
  };
}
