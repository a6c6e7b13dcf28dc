import { diffArrays } from "diff";
import type { ChainChange, MembersChange, PlaceChange } from "../tools/mod.ts";

/** A line that only one side has: `-` for the kernel's, `+` for the desired state's. */
export interface DifferentLine {
  readonly sign: "+" | "-";
  readonly text: string;
}

/** One place in the kernel that differs from the desired state. */
export interface Difference {
  /** `nat KUBE-SERVICES`, `map services`. */
  readonly place: string;
  /** Whether the place itself is missing or unwanted, or only its lines differ. */
  readonly what: "differs" | "missing" | "unwanted";
  readonly lines: readonly DifferentLine[];
}

/** Collects changes that were not carried out, as differences between the kernel and the desired state. */
export interface Differences {
  add(changes: Iterable<PlaceChange>): void;
  /** All differences by place: built-in chains of iptables first, then other chains, then sets and the like. */
  found(): readonly Difference[];
}

/** The members of a place that differ, gathered from several changes. */
interface Members {
  readonly kind: MembersChange["kind"];
  readonly place: string;
  what: Difference["what"];
  readonly removed: string[];
  readonly added: string[];
}

const KINDS: readonly PlaceChange["kind"][] = ["built-in chain", "chain", "members"];

/** No changes yet. */
export function createDifferences(): Differences {
  const chains = new Map<string, ChainChange>();
  const members = new Map<string, Members>();

  function addChain(change: ChainChange): void {
    // A later change, such as the removal of a chain that was emptied, replaces an earlier one.
    const { held } = chains.get(change.place) ?? change;
    chains.set(change.place, { ...change, held });
  }

  function addMembers({ kind, place, what, removed, added }: MembersChange): void {
    const known: Members = members.get(place) ?? { kind, place, what: "differs", removed: [], added: [] };
    if (what !== undefined) known.what = what;
    for (const text of removed) known.removed.push(text);
    for (const text of added) known.added.push(text);
    members.set(place, known);
  }

  function ofKind(kind: PlaceChange["kind"]): Difference[] {
    return kind === "chain"
      ? [...chains.values()].map(chainDifference)
      : [...members.values()].filter((one) => one.kind === kind).map(membersDifference);
  }

  return {
    add(changes) {
      for (const change of changes) {
        if (change.kind === "chain") addChain(change);
        else addMembers(change);
      }
    },
    found: () =>
      KINDS.flatMap((kind) =>
        ofKind(kind)
          .filter(({ what, lines }) => what !== "differs" || lines.length > 0)
          .sort((a, b) => a.place < b.place ? -1 : 1)
      ),
  };
}

function chainDifference({ place, held, wanted }: ChainChange): Difference {
  const what = wanted === undefined ? "unwanted" : held === undefined ? "missing" : "differs";
  return { place, what, lines: differentLines(held ?? [], wanted ?? []) };
}

function membersDifference({ place, what, removed, added }: Members): Difference {
  return { place, what, lines: [...signed("-", removed), ...signed("+", added)] };
}

/** Chains with more different lines than this are not aligned: the time grows with the square of that number. */
const ALIGN_LIMIT = 1_000;

/** The lines that only one side has, in order. */
function differentLines(held: readonly string[], wanted: readonly string[]): readonly DifferentLine[] {
  const parts = diffArrays([...held], [...wanted], { maxEditLength: ALIGN_LIMIT });
  if (parts === undefined) return [...signed("-", held), ...signed("+", wanted)];
  return parts.flatMap(({ removed, added, value }) => removed ? signed("-", value) : added ? signed("+", value) : []);
}

function signed(sign: DifferentLine["sign"], texts: readonly string[]): DifferentLine[] {
  return texts.map((text) => ({ sign, text }));
}
