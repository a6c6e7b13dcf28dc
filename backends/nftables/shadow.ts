import type { FamilySettings, ServicePort, ServicePortKey } from "../../core/model/mod.ts";
import type { OwnChain } from "./affinity.ts";
import { baseChains } from "./base_chains.ts";
import { type Contribution, contributionOf, type Element, NOTHING } from "./contribution.ts";
import type { Desired } from "./desired.ts";
import type { Listing } from "./listing.ts";
import { parsePickChain } from "./pick_chains.ts";
import { declarationText, declareSets, type Dialect, type SetName, type SharedSetName } from "./table.ts";
import { type ChainDeletion, elementId, type SetDeletion } from "./transaction.ts";

/** A service port as the kernel has it. */
export interface Applied {
  readonly port: ServicePort;
  /** The settings that its chains were rendered with. */
  readonly settings: FamilySettings;
}

/** Something in the table that service ports share: how many of them want it. It goes with the last of them. */
export interface SharedPart {
  uses: number;
}

/** What the kernel's table holds, as far as is known; what is in it for nobody is stray. */
export interface Shadow {
  /** Whether the sets are there, as they are declared now. Where some are declared otherwise, the table must go. */
  sets: "complete" | "missing" | "different";
  missingSets: ReadonlySet<string>;
  /** Service ports whose part of the table is whole. */
  readonly applied: Map<ServicePortKey, Applied>;
  /** What there is of service ports whose part is not whole; it names nothing that they share. */
  readonly partial: Map<ServicePortKey, Contribution>;
  /** The texts of the fixed and the shared chains, hook included. */
  readonly chains: Map<string, string>;
  /** The shared chains and elements that are there, by `chain NAME` or by element. */
  readonly shared: Map<string, SharedPart>;
  /** Those of them that no service port wants any more. */
  readonly unused: Set<string>;
  strays: Strays;
}

/** What is in the table for nobody. */
export interface Strays {
  readonly elements: Element[];
  readonly chains: ChainDeletion[];
  readonly sets: SetDeletion[];
}

/** How `shared` of a shadow calls a shared chain. */
export function chainId(name: string): string {
  return `chain ${name}`;
}

/** How the text of a chain is put together, as nft lists it. */
export function chainText(hook: string | undefined, rules: readonly string[]): string {
  return (hook === undefined ? rules : [hook, ...rules]).join("\n");
}

/** How a comparison with the kernel came out. */
export interface Comparison {
  readonly shadow: Shadow;
  /** The service ports whose part of the table is not as it should be. */
  readonly incomplete: ReadonlySet<ServicePortKey>;
}

/** The shadow of a table that is not there. */
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
 * Works out who what was read from the kernel belongs to. Takes the listing apart.
 * @param spelling how a chain's text that was read would have been written
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

  /** What there is of a service port's part; undefined where it is whole. */
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

/** The names under which a shadow counts what a contribution shares with others. */
export function sharedIds(contribution: Contribution): string[] {
  return [...contribution.sharedElements.map(elementId), ...contribution.pickChains.map(chainId)];
}
