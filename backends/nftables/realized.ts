import type { FamilySettings, ServicePortKey } from "../../core/model/mod.ts";
import { type UdpFrontend, udpFrontend } from "../host/mod.ts";
import type { NumberedPort } from "./affinity_names.ts";
import { contributionOf, type Desired, sharedChainText } from "./desired.ts";
import { baseChains } from "./frame.ts";
import type { TableListing } from "./listing.ts";
import { declarationOf, declaredSets, isSharedSet, type SetName, setsWith, setText } from "./sets.ts";
import { slotsIn } from "./endpoints.ts";
import type { Dialect } from "./table.ts";
import { type Item, itemId, type ItemList, type Listing } from "./transaction.ts";

/** The UDP frontends of a table, those that reject or drop included. */
export function udpFrontendsOf(listing: Listing, { anyAddress }: Dialect): Set<UdpFrontend> {
  const frontends = new Set<UdpFrontend>();
  for (const set of setsWith("hasFrontends")) {
    for (const key of listing.get(set)?.keys() ?? []) {
      const [address, protocol, port] = key.split(" . ");
      if (protocol !== "udp") continue;
      frontends.add(udpFrontend(address === anyAddress ? undefined : address, Number(port)));
    }
  }
  return frontends;
}

/** A service port whose part of the table is in effect. */
export interface Applied {
  readonly port: NumberedPort;
  /** The settings that its chains were rendered with. */
  readonly settings: FamilySettings;
}

/** The realized state: what is known of the table in the kernel. */
export interface RealizedState {
  /** Whether some sets are declared differently, or the table is dormant: it must be replaced, and nothing else is known of it. */
  isDifferent: boolean;
  missingSets: ReadonlySet<SetName>;
  /** Service ports whose part of the table is complete. */
  readonly applied: Map<ServicePortKey, Applied>;
  /** The existing parts of other service ports, without shared chains and elements. */
  readonly partial: Map<ServicePortKey, readonly Item[]>;
  /** The texts of the fixed and the shared chains. */
  readonly chains: Map<string, string>;
  /** The settings by which all of these were written; undefined if they may have other texts. */
  chainSettings: FamilySettings | undefined;
  /** The number of service ports that use each shared chain, set and element, by id. The last one deletes it. */
  readonly shared: Map<string, number>;
  /** The ids of those that are no longer used by any service port. */
  readonly unused: Set<string>;
  /** Items that are not needed. */
  strays: readonly Item[];
}

/** The result of a comparison with the kernel. */
export interface Comparison {
  readonly realized: RealizedState;
  /** The service ports whose part of the table is not as desired. */
  readonly incomplete: ReadonlySet<ServicePortKey>;
}

/** A table without anything but sets. */
function emptyState(isDifferent: boolean, missingSets: Iterable<SetName>): RealizedState {
  return {
    isDifferent,
    missingSets: new Set(missingSets),
    applied: new Map(),
    partial: new Map(),
    chains: new Map(),
    chainSettings: undefined,
    shared: new Map(),
    unused: new Set(),
    strays: [],
  };
}

/**
 * Assigns the items of a listing to service ports, and consumes the listing.
 * @param isFirst whether the process has read no listing before
 */
export function compare(
  table: TableListing | undefined,
  desired: Desired,
  settings: FamilySettings,
  dialect: Dialect,
  isFirst: boolean,
): Comparison {
  const declared = declaredSets(settings, dialect);
  const listing = table?.isDormant ? undefined : table?.items;
  if (!listing || hasOtherSets(listing, declared)) {
    const realized = table ? emptyState(true, []) : emptyState(false, declared.keys());
    return { realized, incomplete: new Set(desired.keys()) };
  }
  const sets = listing.get("set")!, chains = listing.get("chain")!;
  const realized = emptyState(false, [...declared.keys()].filter((name) => !sets.has(name)));
  for (const { name } of baseChains(settings, dialect)) claimChain(chains, realized, name);
  claimShared(listing, realized, settings, dialect);
  const incomplete = new Set<ServicePortKey>();
  for (const key of desired.keys()) {
    // The order of an earlier process is kept, since the order does not matter, and changing it costs.
    const port = desired.orderBy(key, slotsIn(listing, desired.servicePort(key)!, dialect, isFirst))!;
    const { own, shared } = contributionOf(port, settings, dialect);
    const hasShared = shared.every((id) => realized.shared.has(id));
    const { held, isWhole } = claimItems(listing, own);
    if (hasShared && isWhole) {
      realized.applied.set(key, { port, settings });
      for (const id of shared) realized.shared.set(id, realized.shared.get(id)! + 1);
    } else {
      incomplete.add(key);
      if (held.length > 0) realized.partial.set(key, held);
    }
  }
  for (const [id, uses] of realized.shared) if (uses === 0) realized.unused.add(id);
  realized.strays = straysIn(listing, new Set(declared.keys()));
  return { realized, incomplete };
}

/** Whether a set is declared differently. */
function hasOtherSets(listing: Listing, declared: ReadonlyMap<SetName, string>): boolean {
  return [...declared].some(([name, declaration]) => {
    const read = listing.get("set")!.get(name);
    return read !== undefined && read !== declaration;
  });
}

function claimChain(chains: Map<string, string>, realized: RealizedState, name: string): void {
  const text = chains.get(name);
  if (text === undefined) return;
  realized.chains.set(name, text);
  chains.delete(name);
}

/** Claims the shared chains, sets and elements, without uses. */
function claimShared(listing: Listing, realized: RealizedState, settings: FamilySettings, dialect: Dialect): void {
  const sets = listing.get("set")!, chains = listing.get("chain")!;
  const claim = (list: ItemList, key: string) => realized.shared.set(itemId({ list, key }), 0);
  for (const key of chains.keys()) {
    if (sharedChainText(key, settings, dialect) === undefined) continue;
    claimChain(chains, realized, key);
    claim("chain", key);
  }
  for (const [name, text] of sets) {
    const declaration = declarationOf(name);
    if (text !== setText(declaration, dialect)) continue;
    if (declaration.elements === "shared") {
      for (const key of listing.get(name as SetName)!.keys()) claim(name as SetName, key);
    }
    if (!isSharedSet(name)) continue;
    sets.delete(name);
    claim("set", name);
  }
}

/** Claims those of a service port's own items that exist, whatever their texts. */
function claimItems(listing: Listing, wanted: readonly Item[]): { readonly held: Item[]; readonly isWhole: boolean } {
  let isWhole = true;
  const held: Item[] = [];
  for (const item of wanted) {
    const { list, key, text } = item;
    const items = listing.get(list), read = items?.get(key);
    // A set cannot be changed in place, and its name tells what it holds.
    const isAsWanted = read === text || read !== undefined && list === "set";
    if (!isAsWanted) isWhole = false;
    if (read === undefined) continue;
    held.push(isAsWanted ? item : { list, key, text: read });
    items!.delete(key);
  }
  return { held, isWhole };
}

/** The items that no service port claimed. */
function straysIn(listing: Listing, declared: ReadonlySet<string>): Item[] {
  const strays: Item[] = [], unclaimed = listing.get("set")!;
  for (const [list, items] of listing) {
    // Other elements are shared, added by rules, or deleted with their set.
    const isOfSet = list !== "chain" && list !== "set", isDeletedWithSet = unclaimed.has(list) && !declared.has(list);
    if (isOfSet && (declarationOf(list).elements !== undefined || isDeletedWithSet)) continue;
    for (const [key, text] of items) {
      if (list !== "set" || !declared.has(key)) strays.push({ list, key, text });
    }
  }
  return strays;
}
