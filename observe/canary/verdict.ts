import { plural } from "../../platform/mod.ts";
import type { PathFinding } from "../../core/model/mod.ts";
import type { CanaryCause } from "../mod.ts";
import type { TryOutcome } from "./probe.ts";

/** A failed try. */
export type FailedTry = Exclude<TryOutcome, { kind: "answered" }>;

/** Why packets do not flow, and the details in a sentence without its full stop. */
export interface Verdict {
  readonly cause: CanaryCause;
  readonly detail: string;
}

/** What is known when packets do not flow. */
export interface Evidence {
  /** The `address:port` that was tried. */
  readonly address: string;
  /** The last try; undefined if it was answered, and a finding is certain all the same. */
  readonly failed: FailedTry | undefined;
  readonly findings: readonly PathFinding[];
  /** The number of changed rules that the comparison after the failure has repaired. */
  readonly repaired: number;
}

/**
 * Decides the cause: proof before suspicion. Packets of the canary are not forwarded, so that settings of forwarding explain
 * its failure last.
 */
export function verdictOf({ address, failed, findings, repaired }: Evidence): Verdict {
  if (failed === undefined) {
    const [{ cause, detail }] = findings.filter(({ certain }) => certain) as [PathFinding];
    return { cause, detail };
  }
  const what = `${address} does not answer (${failed.message})`;
  if (repaired > 0) {
    const detail = `${what}: ${plural(repaired, "change")} of services' rules by other programs, repaired now`;
    return { cause: "rules-changed", detail };
  }
  if (failed.kind !== "failed") return { cause: failed.kind, detail: what };
  const [likeliest, ...others] = [
    ...findings.filter(({ cause }) => cause !== "forwarding-off"),
    ...findings.filter(({ cause }) => cause === "forwarding-off"),
  ];
  if (likeliest === undefined) return { cause: "unknown", detail: `${what}, and no cause was found on this node` };
  const all = [likeliest, ...others.filter(({ cause }) => cause === likeliest.cause)];
  const suspicion = likeliest.cause === "table-full" ? "" : "suspected: ";
  return { cause: likeliest.cause, detail: `${what}; ${suspicion}${all.map(({ detail }) => detail).join("; ")}` };
}
