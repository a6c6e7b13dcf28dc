import { diffArrays } from "diff";
import type { ChainChange, PlaceChange } from "../tools/mod.ts";

/** A line that only one side has: `-` for what the kernel holds, `+` for what it should hold. */
export interface DifferentLine {
  readonly sign: "+" | "-";
  readonly text: string;
}

/** One place in the kernel that is not as it should be. */
export interface Difference {
  /** `nat KUBE-SERVICES`, `map services`. */
  readonly place: string;
  /** Whether the place itself is missing or unwanted, or only its lines differ. */
  readonly what: "differs" | "missing" | "unwanted";
  readonly lines: readonly DifferentLine[];
}

/** Collects changes that were not carried out, as differences between the kernel and what it should hold. */
export interface Differences {
  add(changes: Iterable<PlaceChange>): void;
  /** All differences by place: built-in chains of iptables first, then other chains, then sets and the like. */
  found(): readonly Difference[];
}

/** Members of a place by how they differ. */
interface Members {
  readonly kind: PlaceChange["kind"];
  what: Difference["what"];
  readonly removed: string[];
  readonly added: string[];
}

const ORDER: readonly PlaceChange["kind"][] = ["built-in chain", "chain", "members"];

/** No changes yet. */
export function createDifferences(): Differences {
  const chains = new Map<string, ChainChange>();
  const members = new Map<string, Members>();

  function add(change: PlaceChange): void {
    const { kind, place } = change;
    if (kind === "chain") {
      // A later change, such as the removal of a chain that was emptied, replaces an earlier one.
      const first = chains.get(place) ?? change;
      chains.set(place, { ...change, held: first.held });
      return;
    }
    const { what, removed, added } = change;
    const known: Members = members.get(place) ?? { kind, what: "differs", removed: [], added: [] };
    if (what !== undefined) known.what = what;
    for (const text of removed) known.removed.push(text);
    for (const text of added) known.added.push(text);
    members.set(place, known);
  }

  return {
    add(changes) {
      for (const change of changes) add(change);
    },
    found() {
      const found = [
        ...[...chains.values()].map((change) => ({ kind: change.kind, difference: chainDifference(change) })),
        ...[...members].map(([place, { kind, what, removed, added }]) => ({
          kind,
          difference: { place, what, lines: [...signed("-", removed), ...signed("+", added)] },
        })),
      ];
      return found
        .filter(({ kind, difference }) =>
          kind !== "chain" || difference.what !== "differs" || difference.lines.length > 0
        )
        .sort((a, b) =>
          ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || (a.difference.place < b.difference.place ? -1 : 1)
        )
        .map(({ difference }) => difference);
    },
  };
}

function chainDifference({ place, held, wanted }: ChainChange): Difference {
  const what = wanted === undefined ? "unwanted" : held === undefined ? "missing" : "differs";
  return { place, what, lines: differentLines(held ?? [], wanted ?? []) };
}

/** More lines than this that differ are not aligned: the time grows with their square. */
const ALIGN_LIMIT = 4_000;

/** The lines that only one side has, in order. */
function differentLines(held: readonly string[], wanted: readonly string[]): readonly DifferentLine[] {
  const parts = diffArrays([...held], [...wanted], { maxEditLength: ALIGN_LIMIT });
  if (parts === undefined) return [...signed("-", held), ...signed("+", wanted)];
  return parts.flatMap(({ removed, added, value }) => removed ? signed("-", value) : added ? signed("+", value) : []);
}

function signed(sign: DifferentLine["sign"], texts: readonly string[]): DifferentLine[] {
  return texts.map((text) => ({ sign, text }));
}
