import { sameData } from "../../platform/mod.ts";
import type { Leader } from "./lease.ts";

/** The part that a node plays in its site. */
export type Role =
  /** Nothing is known yet: the API server has not answered, and no leader is remembered. */
  | { readonly kind: "undecided" }
  /** It leads the site; `isConfirmed` while it holds the Lease, which it cannot without the API server. */
  | { readonly kind: "leader"; readonly isConfirmed: boolean }
  /** Another node leads; `isConfirmed` if the Lease says so, not only this node's memory. */
  | { readonly kind: "follower"; readonly leader: Leader; readonly isConfirmed: boolean }
  /** The Lease cannot be used although the API server answers: it watches the API server itself. */
  | { readonly kind: "alone" };

/** Whether two roles are the same. */
export function sameRole(a: Role, b: Role): boolean {
  return sameData(a, b);
}
