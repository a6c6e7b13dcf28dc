/**
 * What is wanted in the kernel, and where that may not be what it holds: a shadow that is kept as its differences, so
 * that what is in effect costs no memory of its own.
 */
export interface Ledger<Value> {
  /** An owner wants something; where several want the same, the value is that of the first of them by name. */
  claim(id: string, owner: string, value: Value): void;
  /** An owner does not want it any more. */
  release(id: string, owner: string): void;
  wanted(id: string): Value | undefined;
  /** Everything that is wanted. */
  ids(): Iterable<string>;
  /** Who wants it; undefined where nobody does. */
  owner(id: string): string | undefined;
  size(): number;
  /** Where the kernel holds something else than what is wanted; undefined stands for nothing. */
  differences(): readonly Difference<Value>[];
  /** The kernel holds now what is wanted. */
  settle(id: string): void;
  /** The kernel holds now a part of what is wanted. */
  hold(id: string, part: Value): void;
  /**
   * The kernel has been read.
   * @returns how many things are not as they were believed to be
   */
  adopt(kernel: ReadonlyMap<string, Value>): number;
}

/** Something that the kernel does not hold as it is wanted. */
export interface Difference<Value> {
  readonly id: string;
  readonly held: Value | undefined;
  readonly wanted: Value | undefined;
}

interface Claim<Value> {
  readonly owner: string;
  readonly value: Value;
}

/** A ledger in which nothing is wanted, of a kernel that holds nothing. */
export function createLedger<Value>(same: (a: Value | undefined, b: Value | undefined) => boolean): Ledger<Value> {
  const claims = new Map<string, readonly Claim<Value>[]>();
  let pending = new Map<string, Value | undefined>();

  const wanted = (id: string) => claims.get(id)?.[0]?.value;
  const change = (id: string, next: readonly Claim<Value>[]) => {
    if (!pending.has(id)) pending.set(id, wanted(id));
    if (next.length === 0) claims.delete(id);
    else claims.set(id, next);
  };

  return {
    claim(id, owner, value) {
      const others = claims.get(id);
      const claim = { owner, value };
      if (!others) return change(id, [claim]);
      change(
        id,
        [...others.filter((other) => other.owner !== owner), claim].sort((a, b) => a.owner < b.owner ? -1 : 1),
      );
    },
    release(id, owner) {
      const all = claims.get(id);
      if (all) change(id, all.filter((claim) => claim.owner !== owner));
    },
    wanted,
    ids: () => claims.keys(),
    owner: (id) => claims.get(id)?.[0]?.owner,
    size: () => claims.size,
    differences() {
      const all: Difference<Value>[] = [];
      for (const [id, held] of pending) {
        const now = wanted(id);
        if (same(held, now)) pending.delete(id);
        else all.push({ id, held, wanted: now });
      }
      return all;
    },
    settle: (id) => void pending.delete(id),
    hold: (id, part) => void pending.set(id, part),
    adopt(kernel) {
      const found = new Map<string, Value | undefined>();
      let unexpected = 0;
      const compare = (id: string) => {
        const held = kernel.get(id);
        const believed = pending.has(id) ? pending.get(id) : wanted(id);
        if (!same(held, believed)) unexpected++;
        if (!same(held, wanted(id))) found.set(id, held);
      };
      for (const id of kernel.keys()) compare(id);
      for (const id of claims.keys()) if (!kernel.has(id)) compare(id);
      pending = found;
      return unexpected;
    },
  };
}
