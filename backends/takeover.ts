import { completesState } from "../core/model/mod.ts";
import { errorText } from "../platform/mod.ts";
import type { Backend, BackendOptions, SyncResult } from "./contract/mod.ts";
import type { Layout } from "./xtables/mod.ts";
import { ToolMissingError } from "./tools/mod.ts";

/** A mode: how its backend is made, and what it may find of others. */
export interface Mode {
  readonly create: (options: BackendOptions) => Backend;
  /**
   * What stays in the tables of iptables when it takes over from another mode: what it has there itself, since two modes
   * may have chains of the same name, and what drops martians, since the kernel goes on routing loopback addresses.
   */
  readonly layout: Layout;
  /**
   * Removes every trace of Sluice's and of kube-proxy's this mode, but for what belongs to the layout of another mode
   * that is in effect. Throws where something could not be removed.
   */
  readonly removeTraces: (options: BackendOptions, stays?: Layout) => Promise<void>;
  /** Removes what kube-proxy's same mode leaves behind that the backend does not take over as its own. */
  readonly removeLeftovers?: (options: BackendOptions) => Promise<void>;
}

/**
 * The backend of a mode that, once its own rules are in effect, removes what other modes have left behind: packets of
 * open connections go by their connection tracking entries and meet neither. What cannot be removed holds nothing up,
 * and is tried again with the next comparison. Its `cleanup` removes the traces of all modes.
 */
export function withTakeover(chosen: Mode, others: readonly Mode[], options: BackendOptions): Backend {
  const { logger } = options;
  const backend = chosen.create(options);
  let leftovers = [
    ...others.map(({ removeTraces }) => (options: BackendOptions) => removeTraces(options, chosen.layout)),
    ...(chosen.removeLeftovers ? [chosen.removeLeftovers] : []),
  ];

  /** Removes them and returns the figures of that. */
  async function removeLeftovers(): Promise<SyncResult["figures"]> {
    const failed: typeof leftovers = [];
    for (const remove of leftovers) {
      const failure = await failureOf(() => remove(options));
      if (failure === undefined) continue;
      failed.push(remove);
      logger.warn(
        "what another mode may have left behind was not removed, which is tried again with the next comparison",
        {
          error: errorText(failure),
        },
      );
    }
    leftovers = failed;
    return { cleanup_failures: failed.length };
  }

  return {
    setup: () => backend.setup(),
    configure: backend.configure,
    async sync(delta) {
      const result = await backend.sync(delta);
      if (!completesState(delta)) return result;
      return { ...result, figures: { ...result.figures, ...await removeLeftovers() } };
    },
    async resync() {
      const result = await backend.resync();
      return { ...result, figures: { ...result.figures, ...await removeLeftovers() } };
    },
    async cleanup() {
      const failures: string[] = [];
      const removals = [() => backend.cleanup(), ...others.map((mode) => () => mode.removeTraces(options))];
      for (const remove of removals) {
        const failure = await failureOf(remove);
        if (failure !== undefined) failures.push(errorText(failure));
      }
      if (failures.length > 0) throw new Error(failures.join("; "));
    },
    describe: backend.describe,
    packetCounts: backend.packetCounts,
  };
}

/** Why a removal failed; undefined where it did not, or where the tool is not installed: then nothing was made with it. */
async function failureOf(remove: () => Promise<void>): Promise<unknown> {
  try {
    await remove();
    return undefined;
  } catch (error) {
    return error instanceof ToolMissingError ? undefined : error;
  }
}
