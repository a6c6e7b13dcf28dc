import { errorText, type Logger } from "../platform/mod.ts";
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
  readonly logger: Logger;
}

/** So many comparisons in a row must have found changes by others: one alone may be an administrator's. */
const ROUNDS = 2;

/** A watch that has seen nothing yet. What it finds is said once, and again after a comparison without changes. */
export function createDriftWatch({ findNeighbours, logger }: DriftWatchOptions): DriftWatch {
  const rounds = new Map<Family, number>();

  const tell = async (family: Family) => {
    const other = (await findNeighbours()).find(({ kind }) => kind !== "Sluice");
    if (other === undefined) {
      logger.warn("another program keeps changing the rules of services; sluice check looks for other proxies", {
        family,
      });
      return;
    }
    logger.warn(`${nameOf(other)} keeps changing the rules of services on this node; stop it`, {
      family,
      answersOn: other.answersOn,
    });
  };

  return {
    report({ family, full, ok, figures }) {
      const isChanged = (figures["drift_repaired"] ?? 0) > 0;
      if (!isChanged) {
        if (full && ok) rounds.delete(family);
        return;
      }
      const count = (rounds.get(family) ?? 0) + 1;
      rounds.set(family, count);
      if (count !== ROUNDS) return;
      tell(family).catch((error) => logger.debug("neighbours not found", { error: errorText(error) }));
    },
  };
}
