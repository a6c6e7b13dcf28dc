import {
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
  IPTABLES_LAYOUTS,
  serviceChainNames,
  type Table,
  TABLES,
  type WantedChains,
} from "../xtables/mod.ts";
import { createDispatchTree, type DispatchEntry, type DispatchTree } from "./dispatch.ts";
import { frontendRules, TREE_TABLE, type TreeName } from "./frontends.ts";
import { chainsOf, renderServiceChain } from "./service_chains.ts";

/** The rules that the kernel should have for one family. Any chain can be rendered at any time; nothing is read or written. */
export interface Ruleset extends WantedChains {
  /** Applies a delta and returns the chains that may have changed, including removed ones. */
  apply(delta: FamilyDelta): ChainsByTable;
  /** Returns the chains from the entry chain to the one with a frontend's rule. */
  dispatchPath(tree: TreeName, place: string): readonly string[];
  servicePorts(): Iterable<ServicePort>;
  settings(): FamilySettings | undefined;
}

const ENTRY: Readonly<Record<TreeName, { readonly chain: string; readonly prefix: string; readonly ports: boolean }>> =
  {
    services: { chain: BASE.services, prefix: "KUBE-SVC-TO-", ports: false },
    nodePorts: { chain: BASE.nodePorts, prefix: "KUBE-SVC-NP-", ports: true },
    refusedInternally: { chain: BASE.services, prefix: "KUBE-SVC-TO-", ports: false },
    refusedExternally: { chain: BASE.externalServices, prefix: "KUBE-EXT-TO-", ports: false },
    refusedNodePorts: { chain: BASE.externalNodePorts, prefix: "KUBE-EXT-NP-", ports: true },
    firewall: { chain: BASE.proxyFirewall, prefix: "KUBE-FW-TO-", ports: false },
    healthCheckNodePorts: { chain: BASE.nodePorts, prefix: "KUBE-SVC-NP-", ports: true },
  };
const TREE_NAMES = Object.keys(ENTRY) as TreeName[];

/** Creates the ruleset of a family without services. */
export function createRuleset(options: BaseOptions): Ruleset {
  let settings: FamilySettings | undefined;
  let ports = new Map<ServicePortKey, ServicePort>();
  let chainOwners = new Map<string, ServicePortKey>();
  let trees = emptyTrees(options.family, ruleOf);
  let touchedChains = new Set<string>();
  const excluded = new Set<ServicePortKey>();
  const hairpin = createAddressCounts(options.hairpin === "per-endpoint");
  const { baseChains } = IPTABLES_LAYOUTS[options.family];

  function ruleOf(tree: TreeName, { place, owner }: DispatchEntry): string {
    return frontendRules(ports.get(owner)!, owner).find((one) => one.tree === tree && one.place === place)!.rule();
  }

  function enter(port: ServicePort, key: ServicePortKey): void {
    const names = serviceChainNames(port);
    for (const chain of chainsOf(port, names)) {
      chainOwners.set(chain, key);
      touchedChains.add(chain);
    }
    for (const { tree, place } of frontendRules(port, key, names)) trees[tree].add({ place, owner: key });
    hairpin.add(port);
  }

  function leave(port: ServicePort, key: ServicePortKey): void {
    const names = serviceChainNames(port);
    for (const chain of chainsOf(port, names)) {
      chainOwners.delete(chain);
      touchedChains.add(chain);
    }
    for (const { tree, place } of frontendRules(port, key, names)) trees[tree].remove(place, key);
    hairpin.remove(port);
  }

  function remove(key: ServicePortKey): void {
    const port = ports.get(key);
    if (!port) return;
    if (!excluded.delete(key)) leave(port, key);
    ports.delete(key);
  }

  function set(port: ServicePort): void {
    const key = servicePortKey(port.name, port.protocol);
    remove(key);
    ports.set(key, port);
    enter(port, key);
  }

  /** Touches every chain, since every chain depends on the settings. */
  function touchAll(): Record<Table, Set<string>> {
    const all = takeTouched();
    for (const table of TABLES) for (const chain of chainsOfTable(table)) all[table].add(chain);
    return all;
  }

  function takeTouched(): Record<Table, Set<string>> {
    const touched = { filter: new Set<string>(), nat: touchedChains };
    touchedChains = new Set();
    for (const name of TREE_NAMES) for (const chain of trees[name].takeTouched()) touched[TREE_TABLE[name]].add(chain);
    if (hairpin.takeChanged()) touched.nat.add(BASE.postrouting);
    return touched;
  }

  function* chainsOfTable(table: Table): Generator<string> {
    if (table === "nat") yield* chainOwners.keys();
    for (const name of TREE_NAMES) if (TREE_TABLE[name] === table) yield* trees[name].chains();
    yield* baseChains[table];
  }

  /** The tree that a chain belongs to. */
  function treeOf(table: Table, chain: string): DispatchTree | undefined {
    for (const name of TREE_NAMES) {
      if (TREE_TABLE[name] === table && trees[name].depthOf(chain) !== undefined) return trees[name];
    }
    return undefined;
  }

  return {
    apply(delta) {
      if (delta.base === undefined) {
        // Chains of the previous state count as touched, so that unwanted ones are removed.
        const before = touchAll();
        ports = new Map();
        chainOwners = new Map();
        trees = emptyTrees(options.family, ruleOf);
        excluded.clear();
        hairpin.clear();
        settings = delta.settings;
        for (const port of delta.set) set(port);
        const now = touchAll();
        for (const table of TABLES) for (const chain of before[table]) now[table].add(chain);
        return now;
      }
      for (const key of delta.deleted) remove(key);
      for (const port of delta.set) set(port);
      if (!delta.settings) return takeTouched();
      settings = delta.settings;
      return touchAll();
    },
    exclude(key, exclusion) {
      const port = ports.get(key);
      if (port && exclusion !== excluded.has(key)) {
        if (exclusion) {
          excluded.add(key);
          leave(port, key);
        } else {
          excluded.delete(key);
          enter(port, key);
        }
      }
      return takeTouched();
    },
    render(table, chain) {
      if (!settings) return undefined;
      const owner = table === "nat" ? chainOwners.get(chain) : undefined;
      if (owner !== undefined) {
        const rules = renderServiceChain(ports.get(owner)!, chain, settings);
        return { rules, jumps: 1, ownerOf: () => owner };
      }
      const isBase = baseChains[table].includes(chain);
      const dispatch = treeOf(table, chain)?.render(chain);
      if (!dispatch && !isBase) return undefined;
      const fixed = isBase ? baseRules(table, chain, settings, options, hairpin.addresses()) : [];
      if (!dispatch) return { rules: fixed, jumps: 0, ownerOf: () => undefined };
      return {
        rules: [...dispatch.rules, ...fixed],
        jumps: dispatch.rules.length,
        ownerOf: (rule) => dispatch.owners[rule],
      };
    },
    has: (table, chain) =>
      table === "nat" && chainOwners.has(chain) || baseChains[table].includes(chain) ||
      treeOf(table, chain) !== undefined,
    chains: chainsOfTable,
    rank(table, chain) {
      if (table === "nat") {
        if (chain === BASE.markMasquerade) return 0;
        if (chainOwners.has(chain)) return chain.startsWith("KUBE-FW-") ? 3 : chain.startsWith("KUBE-EXT-") ? 2 : 1;
      }
      const depth = treeOf(table, chain)?.depthOf(chain);
      if (depth === undefined) return ENTRY_RANK + 1;
      // The services' entry chain comes last: it jumps to node ports, at localhost through a chain that is in no tree.
      return ENTRY_RANK - depth + (chain === BASE.services || chain === BASE.externalServices ? 2 : 0);
    },
    dispatchPath: (tree, place) => trees[tree].path(place),
    servicePort: (key) => ports.get(key),
    servicePorts: () => ports.values(),
    settings: () => settings,
  };
}

/** More than the depth of the deepest tree. */
const ENTRY_RANK = 64;

function emptyTrees(
  family: Family,
  ruleOf: (tree: TreeName, entry: DispatchEntry) => string,
): Record<TreeName, DispatchTree> {
  const addressDigits = family === "IPv4" ? 8 : 32;
  return Object.fromEntries(TREE_NAMES.map((name) => {
    const { chain, prefix, ports } = ENTRY[name];
    const options = { entryChain: chain, namePrefix: prefix, addressDigits: ports ? 0 : addressDigits };
    return [name, createDispatchTree({ ...options, ruleOf: (entry) => ruleOf(name, entry) })];
  })) as Record<TreeName, DispatchTree>;
}

/** Counts the service ports with an endpoint at each pod address of this node, if hairpin rules need them. */
function createAddressCounts(needed: boolean) {
  const counts = new Map<string, number>();
  let changed = true;
  const change = (port: ServicePort, by: number) => {
    if (!needed) return;
    for (const endpoint of port.endpointsOnThisNode) {
      const { address } = splitHostPort(endpoint);
      const count = (counts.get(address) ?? 0) + by;
      if (count === 0) counts.delete(address);
      else counts.set(address, count);
      if (count === 0 || count === by) changed = true;
    }
  };
  return {
    add: (port: ServicePort) => change(port, 1),
    remove: (port: ServicePort) => change(port, -1),
    addresses: () => [...counts.keys()].sort(),
    clear() {
      counts.clear();
      changed = true;
    },
    takeChanged() {
      const was = changed;
      changed = false;
      return was;
    },
  };
}
