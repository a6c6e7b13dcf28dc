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

/** Halves changes by the number of their items, so that the largest one is soon alone. The half of the smaller ones comes first. */
function halves(changes: readonly Change[]): readonly (readonly Change[])[] {
  const size = ({ before, after }: Change) => before.own.length + after.own.length;
  const bySize = changes.toSorted((a, b) => size(b) - size(a)),
    all = bySize.reduce((sum, change) => sum + size(change), 0);
  let count = 0;
  for (let items = 0; items < all / 2; items += size(bySize[count++]!));
  return [bySize.slice(count), bySize.slice(0, count)].filter((half) => half.length > 0);
}
