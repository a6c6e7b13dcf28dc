import { errorText, type Logger } from "../platform/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import type { Family, SyncReport } from "../core/model/mod.ts";
import { nameOf, type Neighbour } from "./neighbours.ts";

/** Detects a program that keeps changing the rules, and names it if it answers on a proxy's port. */
export interface DriftWatch {
  report(report: SyncReport): void;
}

/** Options of `createDriftWatch`. */
export interface DriftWatchOptions {
  /** Finds the service proxies that answer on this node. */
  readonly findNeighbours: () => Promise<readonly Neighbour[]>;
  /** Receives the problem while it lasts; each family is a scope. */
  readonly onProblems: ReportProblems;
  readonly logger: Logger;
}

/** The number of consecutive comparisons that must find changes: a single change may be an administrator's. */
const ROUNDS = 2;

/** Creates a drift watch. A problem ends with the first comparison that finds no change. */
export function createDriftWatch({ findNeighbours, onProblems, logger }: DriftWatchOptions): DriftWatch {
  const rounds = new Map<Family, number>();

  const reportDrift = async (family: Family) => {
    const other = (await findNeighbours()).find(({ kind }) => kind !== "Sluice");
    if ((rounds.get(family) ?? 0) < ROUNDS) return;
    const detail = other === undefined
      ? "no other proxy answers on this node's ports"
      : `${nameOf(other)} answers on ${other.answersOn}`;
    onProblems(`drift ${family}`, [{ code: "rules-changed-by-others", subject: family, detail }]);
  };

  return {
    report({ family, full, ok, figures }) {
      const isChanged = (figures.drift_repaired ?? 0) > 0;
      if (!isChanged) {
        if (!full || !ok) return;
        rounds.delete(family);
        onProblems(`drift ${family}`, []);
        return;
      }
      const count = (rounds.get(family) ?? 0) + 1;
      rounds.set(family, count);
      if (count !== ROUNDS) return;
      reportDrift(family).catch((error) => logger.debug("neighbours not found", { error: errorText(error) }));
    },
  };
}
