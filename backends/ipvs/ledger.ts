import type { Refusals } from "../reconcile/mod.ts";

/** The desired and the realized state of one kind of kernel object; the latter as differences, to save memory. */
export interface Ledger<Value> {
  /** Adds an owner's claim to an object. If there are several claims, the value of the first owner by name counts. */
  claim(id: string, owner: string, value: Value): void;
  /** Withdraws an owner's claim. */
  release(id: string, owner: string): void;
  wanted(id: string): Value | undefined;
  /** The number of wanted objects. */
  size(): number;
  /** The objects that differ between the kernel and the desired state, except changes that the kernel refuses. */
  differences(): readonly Difference<Value>[];
  /** Notes that the kernel refuses the difference of an object, with the tool's message. */
  refuse(id: string, failure: string): void;
  /** Notes that the kernel holds an object in its desired form. */
  settle(id: string): void;
  /** Notes that the kernel holds a part of a wanted object. */
  hold(id: string, part: Value): void;
  /** Replaces the realized state by what the kernel has; returns how many objects differ from before. */
  adopt(kernel: ReadonlyMap<string, Value>): number;
}

/** An object whose state in the kernel is not the desired one. */
export interface Difference<Value> {
  readonly id: string;
  /** Undefined for an object that does not exist. */
  readonly held: Value | undefined;
  /** Undefined for an object to remove. */
  readonly wanted: Value | undefined;
}

interface Claim<Value> {
  readonly owner: string;
  readonly value: Value;
}

/**
 * Creates a ledger without claims, for an empty kernel.
 * @param kind the kind of its objects, for messages: `virtual server`
 */
export function createLedger<Value>(
  kind: string,
  refusals: Refusals<string>,
  same: (a: Value | undefined, b: Value | undefined) => boolean = Object.is,
): Ledger<Value> {
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
    size: () => claims.size,
    differences() {
      const all: Difference<Value>[] = [];
      for (const [id, held] of pending) {
        const now = wanted(id);
        if (same(held, now)) pending.delete(id);
        else if (!refusals.has(id, now)) all.push({ id, held, wanted: now });
      }
      return all;
    },
    refuse(id, failure) {
      const claim = claims.get(id)?.[0];
      refusals.add(id, {
        what: `${kind} ${id}`,
        effect: "unchanged",
        servicePort: claim?.owner.replace(/\|\w+$/, ""),
        failure,
        wanted: claim?.value,
      });
    },
    settle: (id) => void pending.delete(id),
    hold: (id, part) => void pending.set(id, part),
    adopt(kernel) {
      const found = new Map<string, Value | undefined>();
      let unexpected = 0;
      const compare = (id: string) => {
        const held = kernel.get(id), isWanted = same(held, wanted(id));
        if (!isWanted) found.set(id, held);
        if (pending.has(id) ? !same(held, pending.get(id)) : !isWanted) unexpected++;
      };
      for (const id of kernel.keys()) compare(id);
      for (const id of claims.keys()) if (!kernel.has(id)) compare(id);
      pending = found;
      return unexpected;
    },
  };
}
