import { completesState } from "../core/model/mod.ts";
import { errorText } from "../platform/mod.ts";
import type { Backend, BackendOptions, HostQuestion, SyncResult } from "./contract/mod.ts";
import { type Layout, NO_LAYOUT, removeTracesOfOtherVariant, withMartians } from "./xtables/mod.ts";
import { ToolMissingError } from "./tools/mod.ts";

/** The code of a mode. */
export interface ModeCode {
  readonly create: (options: BackendOptions) => Backend;
  /**
   * Runs the checks of a backend's setup, and leaves nothing behind.
   * @throws {UnsupportedHostError} if this host cannot serve the family in this mode
   */
  readonly examine: (host: HostQuestion) => Promise<void>;
  /** The chains and jumps that the mode has in the tables of iptables; none by default. */
  readonly layout?: Layout;
  /**
   * Removes every trace of Sluice's and kube-proxy's mode of this name, except those that belong to the layout of
   * another mode that is in effect. Throws if something could not be removed.
   */
  readonly removeTraces: (options: BackendOptions, stays?: Layout) => Promise<void>;
  /** Removes traces of kube-proxy's mode of this name that the backend does not take over as its own. */
  readonly removeLeftovers?: (options: BackendOptions) => Promise<void>;
}

/**
 * Wraps the backend of a mode: once its own rules are in effect, it removes what other modes have left behind. Packets
 * of open connections follow their conntrack entries and reach no rules of either mode. A failed removal delays nothing
 * and is retried with the next comparison. `cleanup` removes the traces of all modes, from both variants of iptables.
 */
export function withTakeover(
  chosen: ModeCode,
  others: readonly (() => Promise<ModeCode>)[],
  options: BackendOptions,
): Backend {
  const { family, onProblems } = options;
  const backend = chosen.create(options);
  // Two modes may have chains with the same name. Martians stay dropped, since the kernel still routes loopback
  // addresses.
  const stays = withMartians(chosen.layout ?? NO_LAYOUT);
  let leftovers = [
    ...others.map((load) => async () => (await load()).removeTraces(options, stays)),
    ...(chosen.removeLeftovers ? [() => chosen.removeLeftovers!(options)] : []),
  ];

  async function removeLeftovers(): Promise<Pick<SyncResult["figures"], "cleanup_failures">> {
    if (leftovers.length === 0) return { cleanup_failures: 0 };
    const failed: typeof leftovers = [], errors: string[] = [];
    for (const remove of leftovers) {
      const failure = await failureOf(remove);
      if (failure === undefined) continue;
      failed.push(remove);
      errors.push(errorText(failure));
    }
    leftovers = failed;
    onProblems?.(
      "takeover",
      errors.length === 0 ? [] : [{ code: "leftovers-kept", subject: family, detail: errors.join("; ") }],
    );
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
    async resync(cause) {
      const result = await backend.resync(cause);
      return { ...result, figures: { ...result.figures, ...await removeLeftovers() } };
    },
    async cleanup() {
      const failures: string[] = [];
      const removals = [
        () => backend.cleanup(),
        ...others.map((load) => async () => (await load()).removeTraces(options)),
        () => removeTracesOfOtherVariant(options),
      ];
      for (const remove of removals) {
        const failure = await failureOf(remove);
        if (failure !== undefined) failures.push(errorText(failure));
      }
      if (failures.length > 0) throw new Error(failures.join("; "));
    },
    describe: backend.describe,
    packetCounts: backend.packetCounts,
    readTraffic: backend.readTraffic,
    attemptCounts: backend.attemptCounts,
  };
}

/**
 * The error of a removal; undefined if it succeeded, or if its tool is not installed and so cannot have left anything.
 */
async function failureOf(remove: () => Promise<void>): Promise<unknown> {
  try {
    await remove();
    return undefined;
  } catch (error) {
    return error instanceof ToolMissingError ? undefined : error;
  }
}
