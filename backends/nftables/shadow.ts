import type { FamilySettings, ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import type { OwnChain } from "./affinity.ts";
import { baseChains } from "./base_chains.ts";
import { type Contribution, contributionOf, type Element, NOTHING } from "./contribution.ts";
import type { Desired } from "./desired.ts";
import type { Listing } from "./listing.ts";
import { parsePickChain } from "./pick_chains.ts";
import { declarationText, declareSets, type Dialect, type SetName, type SharedSetName } from "./table.ts";
import { type ChainDeletion, elementId, type SetDeletion } from "./transaction.ts";

/** A service port whose part of the table is in effect. */
export interface Applied {
  readonly port: ServicePort;
  /** The settings that its chains were rendered with. */
  readonly settings: FamilySettings;
}

/** A part of the table that service ports share. It is deleted with the last service port that uses it. */
export interface SharedPart {
  uses: number;
}

/** The kernel's table, as far as known. Parts that nothing wants are strays. */
export interface Shadow {
  /** Whether the sets exist with their current declarations. If some are declared differently, the table must be replaced. */
  sets: "complete" | "missing" | "different";
  missingSets: ReadonlySet<string>;
  /** Service ports whose part of the table is complete. */
  readonly applied: Map<ServicePortKey, Applied>;
  /** The existing parts of other service ports, without what they share. */
  readonly partial: Map<ServicePortKey, Contribution>;
  /** The texts of the fixed and the shared chains, hook included. */
  readonly chains: Map<string, string>;
  /** The shared chains and elements, by `chain NAME` or by element. */
  readonly shared: Map<string, SharedPart>;
  /** The keys of those that no service port uses any more. */
  readonly unused: Set<string>;
  strays: Strays;
}

/** Parts of the table that nothing wants. */
export interface Strays {
  readonly elements: Element[];
  readonly chains: ChainDeletion[];
  readonly sets: SetDeletion[];
}

/** The key of a shared chain in `Shadow.shared`. */
export function chainId(name: string): string {
  return `chain ${name}`;
}

/** The text of a chain, as nft lists it. */
export function chainText(hook: string | undefined, rules: readonly string[]): string {
  return (hook === undefined ? rules : [hook, ...rules]).join("\n");
}

/** The result of a comparison with the kernel. */
export interface Comparison {
  readonly shadow: Shadow;
  /** The service ports whose part of the table is not as desired. */
  readonly incomplete: ReadonlySet<ServicePortKey>;
}

/** The shadow of a table that does not exist or must be replaced. */
function emptyShadow(sets: "missing" | "different", missingSets: Iterable<string>): Shadow {
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

/**
 * Assigns the parts of a listing to service ports, and consumes the listing.
 * @param spelling translates a text as nft prints it to how it was written
 */
export function compare(
  listing: Listing | undefined,
  desired: Desired,
  settings: FamilySettings,
  dialect: Dialect,
  spelling: (chain: string, read: string) => string,
): Comparison {
  const declared = declareSets(dialect);
  if (!listing) return { shadow: emptyShadow("missing", declared.keys()), incomplete: new Set(desired.keys()) };
  const missing: string[] = [];
  for (const [name, declaration] of declared) {
    const read = listing.declarations.get(name);
    if (read === undefined) missing.push(name);
    else if (spelling(name, read) !== declarationText(declaration)) {
      return { shadow: emptyShadow("different", declared.keys()), incomplete: new Set(desired.keys()) };
    }
  }
  const shadow = emptyShadow("missing", missing);
  const { strays } = shadow;
  const unclaimedChains = new Map(listing.chains), unclaimedClients = new Set(listing.clientSets);
  const incomplete = new Set<ServicePortKey>();

  for (const { name } of baseChains(settings, dialect)) takeChain(name);
  for (const name of [...unclaimedChains.keys()]) {
    if (!parsePickChain(name)) continue;
    takeChain(name);
    shadow.shared.set(chainId(name), { uses: 0 });
  }
  for (const set of SHARED_SETS) {
    for (const key of listing.elements.get(set)?.keys() ?? []) shadow.shared.set(elementId({ set, key }), { uses: 0 });
  }

  for (const key of desired.keys()) {
    const port = desired.servicePort(key)!;
    const wanted = contributionOf(port, settings, dialect);
    const there = claim(wanted);
    if (there === undefined) {
      shadow.applied.set(key, { port, settings });
      for (const id of sharedIds(wanted)) shadow.shared.get(id)!.uses++;
    } else {
      incomplete.add(key);
      if (there !== NOTHING) shadow.partial.set(key, there);
    }
  }
  for (const [set, keys] of listing.elements) {
    if ((SHARED_SETS as readonly SetName[]).includes(set) || !declared.has(set)) continue;
    for (const [key, value] of keys) strays.elements.push({ set, key, value });
  }
  for (const [name, held] of unclaimedChains) strays.chains.push({ name, held });
  for (const name of unclaimedClients) strays.sets.push({ name, kind: "set" });
  for (const [name, text] of listing.declarations) {
    if (!declared.has(name as SetName)) strays.sets.push({ name, kind: text.startsWith("map\n") ? "map" : "set" });
  }
  for (const [id, { uses }] of shadow.shared) if (uses === 0) shadow.unused.add(id);
  if (missing.length === 0) shadow.sets = "complete";
  return { shadow, incomplete };

  function takeChain(name: string): void {
    const read = unclaimedChains.get(name);
    if (read === undefined) return;
    shadow.chains.set(name, spelling(name, read));
    unclaimedChains.delete(name);
  }

  /** The existing part of a service port; undefined if it is complete. */
  function claim(wanted: Contribution): Contribution | undefined {
    let whole = sharedIds(wanted).every((id) => shadow.shared.has(id));
    const elements: Element[] = [];
    for (const { set, key, value } of wanted.elements) {
      const held = listing!.elements.get(set), read = held?.get(key);
      if (read !== value) whole = false;
      if (read === undefined) continue;
      elements.push({ set, key, value: read });
      held!.delete(key);
    }
    const ownChains: OwnChain[] = [];
    for (const { name, rules } of wanted.ownChains) {
      const read = unclaimedChains.get(name), written = read === undefined ? undefined : spelling(name, read);
      if (written !== chainText(undefined, rules)) whole = false;
      if (written === undefined) continue;
      ownChains.push({ name, rules: written === "" ? [] : written.split("\n") });
      unclaimedChains.delete(name);
    }
    const clientSets = wanted.clientSets.filter(({ name }) => unclaimedClients.delete(name));
    if (clientSets.length < wanted.clientSets.length) whole = false;
    if (whole) return undefined;
    if (elements.length + ownChains.length + clientSets.length === 0) return NOTHING;
    return { elements, ownChains, clientSets, sharedElements: [], pickChains: [] };
  }
}

/** The keys in `Shadow.shared` of what a contribution shares with others. */
export function sharedIds(contribution: Contribution): string[] {
  return [...contribution.sharedElements.map(elementId), ...contribution.pickChains.map(chainId)];
}
