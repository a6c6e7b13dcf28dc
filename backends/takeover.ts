import { completesState } from "../core/model/mod.ts";
import { errorText } from "../platform/mod.ts";
import {
  type Backend,
  type BackendOptions,
  type DepartureQuestion,
  type Difference,
  type HostQuestion,
  soonest,
  type SyncResult,
} from "./contract/mod.ts";
import { bothLayouts, type Layout, NO_LAYOUT, removeMartians, removeTracesOfOtherVariant } from "./xtables/mod.ts";
import { type Runner, ToolMissingError } from "./tools/mod.ts";

/** The code of a mode. */
export interface ModeCode {
  readonly create: (options: BackendOptions) => Backend;
  /** Runs the checks of a backend's setup and leaves nothing behind. Throws an `UnsupportedHostError` if the host cannot serve. */
  readonly examine: (host: HostQuestion) => Promise<unknown>;
  /** The chains and jumps that the mode has in the tables of iptables; none by default. */
  readonly layout?: Layout;
  /**
   * Removes every trace of Sluice's and kube-proxy's mode of this name, except the martian rules and what belongs to the layout
   * of another mode that is in effect. Throws if something could not be removed.
   */
  readonly removeTraces: (options: BackendOptions, stays?: Layout) => Promise<void>;
  /** Removes traces of kube-proxy's mode of this name that the backend does not take over as its own. */
  readonly removeLeftovers?: (options: BackendOptions) => Promise<void>;
  /** Absent in modes whose open connections need nothing of the mode but their conntrack entries. */
  readonly drain?: ModeDrain;
  /** Deletes Sluice's rules once other proxies serve everything in them; returns their names. Throws before that. */
  readonly removeOwn?: (runner: Runner) => Promise<readonly string[]>;
  /** Reads what another mode will do differently on a node in this one. Absent if nobody needs such a list. */
  readonly differences?: (question: DepartureQuestion) => Promise<readonly Difference[]>;
}

/** How the open connections of a mode end after a takeover. */
interface ModeDrain {
  /** The chains and jumps that stay meanwhile. */
  readonly layout: Layout;
  readonly start: (options: BackendOptions) => Drain;
}

/** The end of a mode's open connections. */
interface Drain {
  /** Prepares the node before the first rules of the other mode. */
  prepare(): Promise<void>;
  /**
   * Removes what no open connection needs; returns the time until the next call, undefined once nothing is left. Throws if
   * something could not be removed.
   * @param stays the layout of the other mode
   */
  run(stays?: Layout): Promise<number | undefined>;
}

/** A mode that may have left traces. */
interface Leftover {
  readonly drain?: Drain;
  /** The chains and jumps that stay while it drains. */
  readonly layout: Layout;
  readonly remove: (stays: Layout) => Promise<void>;
}

/**
 * Wraps the backend of a mode: once its own rules are in effect, leftovers of other modes are removed. Packets of open
 * connections follow their conntrack entries and pass no rules of either mode; a mode whose connections need more drains first.
 * A failed removal delays nothing and is retried with the next comparison. `cleanup` removes the traces of all modes at once,
 * from both variants of iptables.
 */
export function withTakeover(
  chosen: ModeCode,
  others: readonly (() => Promise<ModeCode>)[],
  options: BackendOptions,
): Backend {
  const { logger } = options;
  const backend = chosen.create(options), leftovers = createLeftovers(chosen, others, options);

  /** The result of a sync; leftovers are removed first if it is their turn. */
  async function finish(result: SyncResult, isTurn: boolean): Promise<SyncResult> {
    const counts = isTurn ? { ...result.counts, cleanup_failures: await leftovers.remove() } : result.counts;
    const waitMs = leftovers.waitMs();
    if (waitMs === undefined) return { ...result, counts };
    return { ...result, counts, againAfterMs: soonest(waitMs, result.againAfterMs) };
  }

  return {
    ...backend,
    async setup() {
      await backend.setup();
      for (const { drain } of await leftovers.find()) {
        const error = await errorOf(async () => await drain?.prepare());
        if (error !== undefined) logger.warn("cannot prepare the takeover from another mode", { error });
      }
    },
    async sync(delta) {
      const result = await backend.sync(delta);
      return await finish(result, completesState(delta) || leftovers.waitMs() === 0);
    },
    resync: async (cause) => await finish(await backend.resync(cause), true),
    async cleanup() {
      const errors: string[] = [];
      for (
        const remove of [
          () => backend.cleanup(),
          ...others.map((load) => async () => (await load()).removeTraces(options)),
          () => removeTracesOfOtherVariant(options),
          () => removeMartians(options),
        ]
      ) {
        const error = await errorOf(remove);
        if (error !== undefined) errors.push(error);
      }
      if (errors.length > 0) throw new Error(errors.join("; "));
    },
  };
}

/** The leftovers of other modes. */
function createLeftovers(chosen: ModeCode, others: readonly (() => Promise<ModeCode>)[], options: BackendOptions) {
  const { family, clock, onProblems } = options;
  const state: {
    left?: readonly Leftover[];
    /** When a mode that drains wants its next turn, by the monotonic clock. */
    dueMs?: number;
  } = {};

  const find = async (): Promise<readonly Leftover[]> => {
    const codes = await Promise.all(others.map((load) => load()));
    const all = codes.map(({ drain, removeTraces }): Leftover => ({
      drain: drain?.start(options),
      layout: drain?.layout ?? NO_LAYOUT,
      remove: (stays) => removeTraces(options, stays),
    }));
    const own: Leftover[] = chosen.removeLeftovers
      ? [{ layout: NO_LAYOUT, remove: () => chosen.removeLeftovers!(options) }]
      : [];
    // Those that drain come first, so that the others keep their chains.
    return [...all.filter(({ drain }) => drain), ...all.filter(({ drain }) => !drain), ...own];
  };
  /** Removes leftovers; some are still there afterwards, because they drain or because of an error. */
  const removeSome = async (some: readonly Leftover[]) => {
    const left: Leftover[] = [], delays: number[] = [], errors: string[] = [];
    // Two modes may have chains with the same name.
    let stays = chosen.layout ?? NO_LAYOUT;
    for (const leftover of some) {
      const { drain, layout, remove } = leftover;
      let drains = false;
      const error = await errorOf(async () => {
        if (drain === undefined) return await remove(stays);
        const delayMs = await drain.run(stays);
        if (delayMs === undefined) return;
        delays.push(delayMs);
        drains = true;
      });
      if (error === undefined && !drains) continue;
      if (error !== undefined) errors.push(error);
      left.push(leftover);
      stays = bothLayouts(stays, layout);
    }
    return { left, delays, errors };
  };

  return {
    find: async () => state.left ??= await find(),
    /** The time until a mode that drains wants its next turn; undefined if none drains. */
    waitMs: () => state.dueMs === undefined ? undefined : Math.max(0, state.dueMs - clock.monotonic()),
    /** Removes what no open connection needs. Resolves with the number of failures, which are a problem. */
    async remove(): Promise<number> {
      state.left ??= await find();
      if (state.left.length === 0) return 0;
      const { left, delays, errors } = await removeSome(state.left);
      state.left = left;
      state.dueMs = delays.length > 0 ? clock.monotonic() + Math.min(...delays) : undefined;
      const detail = errors.join("; ");
      onProblems?.("takeover", errors.length === 0 ? [] : [{ code: "leftovers-kept", subject: family, detail }]);
      return errors.length;
    },
  };
}

/** Runs a step and returns its error; undefined if a tool is not installed, since it cannot have left anything then. */
async function errorOf(step: () => Promise<void>): Promise<string | undefined> {
  try {
    await step();
  } catch (error) {
    if (!(error instanceof ToolMissingError)) return errorText(error);
  }
  return undefined;
}
