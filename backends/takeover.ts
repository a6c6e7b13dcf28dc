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
  /**
   * Runs the checks of a backend's setup, and leaves nothing behind.
   * @throws {UnsupportedHostError} if this host cannot serve the family in this mode
   */
  readonly examine: (host: HostQuestion) => Promise<void>;
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
  /**
   * Deletes Sluice's rules that other proxies do not take over, once they serve everything in these rules, and returns their
   * names. Throws before that. Absent in modes whose rules have kube-proxy's names.
   */
  readonly removeOwn?: (runner: Runner) => Promise<readonly string[]>;
  /**
   * Reads from the kernel what another mode will do differently on a node that is in this one. Absent in modes whose users
   * need no such list.
   */
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
  const { family, clock, logger, onProblems } = options;
  const backend = chosen.create(options);
  let leftovers: readonly Leftover[] | undefined;
  /** When a mode that drains wants its next turn. */
  let dueMs: number | undefined;

  async function findLeftovers(): Promise<readonly Leftover[]> {
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
  }

  /** Removes leftovers; some are still there afterwards, because they drain or because of an error. */
  async function removeSome(some: readonly Leftover[]) {
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
  }

  async function removeLeftovers(): Promise<Pick<SyncResult["figures"], "cleanup_failures">> {
    leftovers ??= await findLeftovers();
    if (leftovers.length === 0) return { cleanup_failures: 0 };
    const { left, delays, errors } = await removeSome(leftovers);
    leftovers = left;
    dueMs = delays.length > 0 ? clock.monotonic() + Math.min(...delays) : undefined;
    const detail = errors.join("; ");
    onProblems?.("takeover", errors.length === 0 ? [] : [{ code: "leftovers-kept", subject: family, detail }]);
    return { cleanup_failures: errors.length };
  }

  /** The result of a sync; leftovers are removed first if it is their turn. */
  async function finish(result: SyncResult, isTurn: boolean): Promise<SyncResult> {
    const figures = isTurn ? { ...result.figures, ...await removeLeftovers() } : result.figures;
    if (dueMs === undefined) return { ...result, figures };
    const waitMs = Math.max(0, dueMs - clock.monotonic());
    return { ...result, figures, againAfterMs: soonest(waitMs, result.againAfterMs) };
  }

  return {
    ...backend,
    async setup() {
      await backend.setup();
      leftovers ??= await findLeftovers();
      for (const { drain } of leftovers) {
        const error = await errorOf(async () => await drain?.prepare());
        if (error !== undefined) logger.warn("cannot prepare the takeover from another mode", { error });
      }
    },
    async sync(delta) {
      const result = await backend.sync(delta);
      return await finish(result, completesState(delta) || (dueMs !== undefined && dueMs <= clock.monotonic()));
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

/** Runs a step and returns its error; undefined if a tool is not installed, since it cannot have left anything then. */
async function errorOf(step: () => Promise<void>): Promise<string | undefined> {
  try {
    await step();
  } catch (error) {
    if (!(error instanceof ToolMissingError)) return errorText(error);
  }
  return undefined;
}
