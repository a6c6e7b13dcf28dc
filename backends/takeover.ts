import { completesState } from "../core/model/mod.ts";
import { errorText } from "../platform/mod.ts";
import type {
  Backend,
  BackendOptions,
  DepartureQuestion,
  Difference,
  HostQuestion,
  SyncResult,
} from "./contract/mod.ts";
import { type Layout, removeMartians, removeTracesOfOtherVariant } from "./xtables/mod.ts";
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
   * Removes every trace of Sluice's and kube-proxy's mode of this name, except the martian rule and what belongs to the layout
   * of another mode that is in effect. Throws if something could not be removed.
   */
  readonly removeTraces: (options: BackendOptions, stays?: Layout) => Promise<void>;
  /** Removes traces of kube-proxy's mode of this name that the backend does not take over as its own. */
  readonly removeLeftovers?: (options: BackendOptions) => Promise<void>;
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

/**
 * Wraps the backend of a mode: once its own rules are in effect, leftovers of other modes are removed. Packets of open
 * connections follow their conntrack entries and pass no rules of either mode. A failed removal delays nothing and is retried
 * with the next comparison. `cleanup` removes the traces of all modes, from both variants of iptables.
 */
export function withTakeover(
  chosen: ModeCode,
  others: readonly (() => Promise<ModeCode>)[],
  options: BackendOptions,
): Backend {
  const { family, onProblems } = options;
  const backend = chosen.create(options);
  let leftovers = [
    // Two modes may have chains with the same name.
    ...others.map((load) => async () => (await load()).removeTraces(options, chosen.layout)),
    ...(chosen.removeLeftovers ? [() => chosen.removeLeftovers!(options)] : []),
  ];

  async function removeLeftovers(): Promise<Pick<SyncResult["figures"], "cleanup_failures">> {
    if (leftovers.length === 0) return { cleanup_failures: 0 };
    const failed = await runAll(leftovers);
    leftovers = failed.map(({ remove }) => remove);
    const detail = failed.map(({ error }) => error).join("; ");
    onProblems?.("takeover", failed.length === 0 ? [] : [{ code: "leftovers-kept", subject: family, detail }]);
    return { cleanup_failures: failed.length };
  }

  return {
    ...backend,
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
      const failed = await runAll([
        () => backend.cleanup(),
        ...others.map((load) => async () => (await load()).removeTraces(options)),
        () => removeTracesOfOtherVariant(options),
        () => removeMartians(options),
      ]);
      if (failed.length > 0) throw new Error(failed.map(({ error }) => error).join("; "));
    },
  };
}

/** Runs removals and returns those that failed, with their errors. A tool that is not installed cannot have left anything. */
async function runAll(removals: readonly (() => Promise<void>)[]) {
  const failed: { remove: () => Promise<void>; error: string }[] = [];
  for (const remove of removals) {
    try {
      await remove();
    } catch (error) {
      if (!(error instanceof ToolMissingError)) failed.push({ remove, error: errorText(error) });
    }
  }
  return failed;
}
