import type { FamilySettings, ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import type { OwnChain } from "./affinity.ts";
import { type Contribution, contributionOf, type Desired, type Element, NOTHING } from "./desired.ts";
import { allSets, baseChains } from "./frame.ts";
import { isGoneChain } from "./gone.ts";
import type { Listing } from "./listing.ts";
import { isSourceList, parsePickChain, sourceListName } from "./shared_chains.ts";
import {
  declarationText,
  type Dialect,
  type SetDeclaration,
  type SetDeclarations,
  type SetName,
  type SharedSetName,
} from "./table.ts";
import { type ChainDeletion, elementId, type SetDeletion } from "./transaction.ts";

/** A service port whose part of the table is in effect. */
export interface Applied {
  readonly port: ServicePort;
  /** The settings that its chains were rendered with. */
  readonly settings: FamilySettings;
}

/** A part of the table that service ports share. It is deleted with the last service port that uses it. */
interface SharedPart {
  uses: number;
  /** The elements of a list of sources, if another program has changed them. */
  damage?: readonly string[];
}

/** The realized state: what is known of the table in the kernel. Parts that no service port needs are strays. */
export interface RealizedState {
  /** Whether the sets exist with their current declarations. If some are declared differently, the table must be replaced. */
  sets: "complete" | "missing" | "different";
  missingSets: ReadonlySet<string>;
  /** Service ports whose part of the table is complete. */
  readonly applied: Map<ServicePortKey, Applied>;
  /** The existing parts of other service ports, without shared chains and elements. */
  readonly partial: Map<ServicePortKey, Contribution>;
  /** The texts of the fixed and the shared chains, hook included. */
  readonly chains: Map<string, string>;
  /** The shared chains and elements, by `chain NAME` or by element. */
  readonly shared: Map<string, SharedPart>;
  /** The keys of those that are no longer used by any service port. */
  readonly unused: Set<string>;
  strays: Strays;
}

/** Parts of the table that are not needed. */
interface Strays {
  readonly elements: Element[];
  readonly chains: ChainDeletion[];
  readonly sets: SetDeletion[];
}

/** The key of a shared chain in `RealizedState.shared`. */
export function chainId(name: string): string {
  return `chain ${name}`;
}

/** The text of a chain, as nft lists it. */
export function chainText(hook: string | undefined, rules: readonly string[]): string {
  return (hook === undefined ? rules : [hook, ...rules]).join("\n");
}

/** The result of a comparison with the kernel. */
export interface Comparison {
  readonly realized: RealizedState;
  /** The service ports whose part of the table is not as desired. */
  readonly incomplete: ReadonlySet<ServicePortKey>;
}

/** A table without anything. */
function emptyState(sets: RealizedState["sets"], missingSets: Iterable<string>): RealizedState {
  return {
    sets,
    missingSets: new Set(missingSets),
    applied: new Map(),
    partial: new Map(),
    chains: new Map(),
    shared: new Map(),
    unused: new Set(),
    strays: { elements: [], chains: [], sets: [] },
  };
}

const SHARED_SETS: readonly SharedSetName[] = ["cluster-ips", "hairpins"];

/** The parts of a listing that are not assigned yet. */
interface Unclaimed {
  readonly elements: Listing["elements"];
  readonly chains: Map<string, string>;
  readonly clientSets: Set<string>;
  /** Translates a text as nft prints it to how it was written. */
  readonly spelling: (name: string, read: string) => string;
}

/**
 * Assigns the parts of a listing to service ports, and consumes the listing.
 * @param spelling translates a text as nft prints it to how it was written
 */
export function compare(
  listing: Listing | undefined,
  desired: Desired,
  settings: FamilySettings,
  dialect: Dialect,
  spelling: Unclaimed["spelling"],
): Comparison {
  const declared = allSets(settings, dialect);
  const isDifferent = ([name, declaration]: [SetName, SetDeclaration]) => {
    const read = listing?.declarations.get(name);
    return read !== undefined && spelling(name, read) !== declarationText(declaration);
  };
  if (!listing || [...declared].some(isDifferent) || hasHalfList(listing)) {
    const realized = emptyState(listing ? "different" : "missing", declared.keys());
    return { realized, incomplete: new Set(desired.keys()) };
  }
  const missing = [...declared.keys()].filter((name) => !listing.declarations.has(name));
  const realized = emptyState(missing.length === 0 ? "complete" : "missing", missing);
  const { elements } = listing;
  const chains = new Map([...listing.chains].filter(([name]) => !isGoneChain(name, settings)));
  const unclaimed = { elements, chains, clientSets: new Set(listing.clientSets), spelling };

  for (const { name } of baseChains(settings, dialect)) claimChain(unclaimed, realized, name);
  claimShared(unclaimed, realized);
  const incomplete = new Set<ServicePortKey>();
  for (const key of desired.keys()) {
    const port = desired.servicePort(key)!;
    const wanted = contributionOf(port, settings, dialect);
    const isShared = sharedIds(wanted).every((id) => realized.shared.has(id) && !realized.shared.get(id)!.damage);
    const { part, isWhole } = claimPart(unclaimed, wanted);
    if (isShared && isWhole) {
      realized.applied.set(key, { port, settings });
      for (const id of sharedIds(wanted)) realized.shared.get(id)!.uses++;
    } else {
      incomplete.add(key);
      if (part !== NOTHING) realized.partial.set(key, part);
    }
  }
  for (const [id, { uses }] of realized.shared) if (uses === 0) realized.unused.add(id);
  collectStrays(unclaimed, listing, declared, realized.strays);
  return { realized, incomplete };
}

/** Whether a list of sources has a set without a chain, or a chain without a set. */
function hasHalfList({ chains, declarations }: Listing): boolean {
  const isHalf = (name: string) => isSourceList(name) && chains.has(name) !== declarations.has(name);
  return [...chains.keys(), ...declarations.keys()].some(isHalf);
}

function claimChain({ chains, spelling }: Unclaimed, realized: RealizedState, name: string): void {
  const read = chains.get(name);
  if (read === undefined) return;
  realized.chains.set(name, spelling(name, read));
  chains.delete(name);
}

/** Claims the shared chains and elements, without uses. */
function claimShared(unclaimed: Unclaimed, realized: RealizedState): void {
  for (const name of [...unclaimed.chains.keys()]) {
    if (!isSourceList(name) && !parsePickChain(name)) continue;
    claimChain(unclaimed, realized, name);
    const part: SharedPart = { uses: 0 };
    if (isSourceList(name)) {
      const held = [...unclaimed.elements.get(name)?.keys() ?? []];
      if (sourceListName(held) !== name) part.damage = held;
    }
    realized.shared.set(chainId(name), part);
  }
  for (const set of SHARED_SETS) {
    for (const key of unclaimed.elements.get(set)?.keys() ?? []) {
      realized.shared.set(elementId({ set, key }), { uses: 0 });
    }
  }
}

/** Claims the existing part of a service port, without shared chains and elements. */
function claimPart(
  { elements: listed, chains, clientSets: clients, spelling }: Unclaimed,
  wanted: Contribution,
): { readonly part: Contribution; readonly isWhole: boolean } {
  let isWhole = true;
  const elements: Element[] = [];
  for (const { set, key, value } of wanted.elements) {
    const held = listed.get(set), read = held?.get(key);
    if (read !== value) isWhole = false;
    if (read === undefined) continue;
    elements.push({ set, key, value: read });
    held!.delete(key);
  }
  const ownChains: OwnChain[] = [];
  for (const { name, rules } of wanted.ownChains) {
    const read = chains.get(name), written = read === undefined ? undefined : spelling(name, read);
    if (written !== chainText(undefined, rules)) isWhole = false;
    if (written === undefined) continue;
    ownChains.push({ name, rules: written === "" ? [] : written.split("\n") });
    chains.delete(name);
  }
  const clientSets = wanted.clientSets.filter(({ name }) => clients.delete(name));
  if (clientSets.length < wanted.clientSets.length) isWhole = false;
  const isNothing = elements.length + ownChains.length + clientSets.length === 0;
  return {
    part: isNothing ? NOTHING : { ...NOTHING, elements, ownChains, clientSets },
    isWhole,
  };
}

/** Collects what no service port claimed. */
function collectStrays(
  { elements, chains, clientSets }: Unclaimed,
  { declarations }: Listing,
  declared: SetDeclarations,
  strays: Strays,
): void {
  for (const [set, keys] of elements) {
    if ((SHARED_SETS as readonly SetName[]).includes(set) || !declared.has(set)) continue;
    for (const [key, value] of keys) strays.elements.push({ set, key, value });
  }
  for (const [name, held] of chains) strays.chains.push({ name, held });
  for (const name of clientSets) strays.sets.push({ name, kind: "set" });
  for (const [name, text] of declarations) {
    if (!declared.has(name as SetName) && !isSourceList(name)) {
      strays.sets.push({ name, kind: text.startsWith("map\n") ? "map" : "set" });
    }
  }
}

/** The keys in `RealizedState.shared` of a contribution's shared chains and elements. */
export function sharedIds(contribution: Contribution): string[] {
  return [...contribution.sharedElements.map(elementId), ...contribution.sharedChains.map(chainId)];
}
