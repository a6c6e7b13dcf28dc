import { type Family, type FamilyDelta, servicePortKey } from "../../core/model/mod.ts";
import { errorText, type Logger } from "../../platform/mod.ts";
import type { Runner } from "../tools/mod.ts";
import type { KnownServicePorts } from "./conntrack.ts";
import { deleteUnansweredAttempts } from "./conntrack_tool.ts";

/**
 * Removes the conntrack entries of connection attempts that an endpoint has not answered, once the endpoint is left out of
 * the rules: the client's next SYN packet, a second after its first, then goes to another endpoint instead of following the
 * entry.
 */
export interface UnansweredCleaner {
  /** Notes a delta that is about to be applied to the known service ports. */
  noteDelta(known: Pick<KnownServicePorts, "servicePort">, delta: FamilyDelta): void;
  /**
   * Removes the entries of the noted endpoints; to be called when the rules are in effect. Starts no tool if none was noted.
   * A failure is logged and not retried: the attempts end by themselves.
   */
  clean(): Promise<void>;
}

/** Inputs of `createUnansweredCleaner`. */
export interface UnansweredCleanerOptions {
  readonly family: Family;
  readonly runner: Runner;
  readonly logger: Logger;
}

/** Creates a cleaner without notes. */
export function createUnansweredCleaner({ family, runner, logger }: UnansweredCleanerOptions): UnansweredCleaner {
  const noted = new Set<string>();
  return {
    noteDelta(known, { set }) {
      for (const { name, protocol, unreachableEndpoints } of set) {
        if (!unreachableEndpoints) continue;
        const before = new Set(known.servicePort(servicePortKey(name, protocol))?.unreachableEndpoints);
        for (const endpoint of unreachableEndpoints) if (!before.has(endpoint)) noted.add(endpoint);
      }
    },
    async clean() {
      if (noted.size === 0) return;
      const endpoints = [...noted];
      noted.clear();
      try {
        await deleteUnansweredAttempts(family, runner, endpoints);
      } catch (error) {
        logger.warn("cannot move unanswered connection attempts to other endpoints", { error: errorText(error) });
      }
    },
  };
}
