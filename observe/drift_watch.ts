import { errorText, type Logger } from "../platform/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import type { Family, SyncReport } from "../core/model/mod.ts";
import { nameOf, type Neighbour } from "./neighbours.ts";

/** Notices that another program keeps changing the rules, and names it where it can be told. */
export interface DriftWatch {
  report(report: SyncReport): void;
}

/** What a watch needs. */
export interface DriftWatchOptions {
  /** The service proxies that answer on this node. */
  readonly findNeighbours: () => Promise<readonly Neighbour[]>;
  /** Takes the problem while it lasts; each family is a scope. */
  readonly onProblems: ReportProblems;
  readonly logger: Logger;
}

/** So many comparisons in a row must have found changes by others: one alone may be an administrator's. */
const ROUNDS = 2;

/** A watch that has seen no change. A problem ends with the first comparison that finds none. */
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
