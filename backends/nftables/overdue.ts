/**
 * Service ports whose transaction nft did not end in time. Whether such a transaction is in effect is unknown, so the kernel must be
 * read before the next one, and the search for the culprit goes on in the next write.
 */
import type { ServicePortKey } from "../../core/model/mod.ts";
import type { Contribution } from "./desired.ts";

/** A change of one service port. */
interface Change {
  readonly key: ServicePortKey;
  readonly before: Pick<Contribution, "own">;
  readonly after: Pick<Contribution, "own">;
}

/** Groups of service ports. Each group is written in a transaction of its own, after everything else. */
export interface Overdue {
  /** The keys of each group. */
  groups(): readonly ReadonlySet<ServicePortKey>[];
  has(key: ServicePortKey): boolean;
  /** The transaction with these changes, of which none is part of a group, or all of one, did not end in time: halves it. */
  add(changes: readonly Change[]): void;
  /** The group of these service ports needs no transaction of its own any more. */
  remove(group: ReadonlySet<ServicePortKey>): void;
}

/** No groups yet. */
export function createOverdue(): Overdue {
  let groups: readonly ReadonlySet<ServicePortKey>[] = [];
  return {
    groups: () => groups,
    has: (key) => groups.some((group) => group.has(key)),
    add(changes) {
      const others = groups.filter((group) => !changes.some(({ key }) => group.has(key)));
      groups = [...others, ...halves(changes).map((half) => new Set(half.map(({ key }) => key)))];
    },
    remove(group) {
      groups = groups.filter((other) => other !== group);
    },
  };
}

/** A transaction with fewer items takes nft milliseconds: if it does not end in time, the host is at fault. */
const FEW_ITEMS = 1_000;

/** Whether changes are so large that one of them may be the reason why nft does not end in time. */
export function mayTakeLong(changes: readonly Change[]): boolean {
  return sizeOf(changes) >= FEW_ITEMS;
}

function sizeOf(changes: readonly Change[]): number {
  return changes.reduce((sum, { before, after }) => sum + before.own.length + after.own.length, 0);
}

/** Halves changes by the number of their items, so that the largest one is soon alone. The half of the smaller ones comes first. */
function halves(changes: readonly Change[]): readonly (readonly Change[])[] {
  const bySize = changes.toSorted((a, b) => sizeOf([b]) - sizeOf([a])), all = sizeOf(bySize);
  let count = 0;
  for (let items = 0; items < all / 2; items += sizeOf([bySize[count++]!]));
  return [bySize.slice(count), bySize.slice(0, count)].filter((half) => half.length > 0);
}
