/** Rules of service proxies that are in the kernel. */
import type { ModeDescription } from "./contract/mod.ts";
import { failureText, ifInstalled, type Runner } from "./tools/mod.ts";

/** Traces of proxies on this node. */
export interface Traces {
  /** The names of the traces, by the mode that leaves them. */
  readonly byMode: ReadonlyMap<ModeDescription, readonly string[]>;
  /** The first failure of a tool: `iptables-save failed with …`; undefined if everything could be read. */
  readonly unreadable: string | undefined;
  /** Whether iptables-legacy has rules in addition to nf_tables. */
  readonly legacyBeside: boolean;
}

/**
 * Finds the traces of each mode on this node. Tools that are not installed have left none. All tools are started before this
 * returns, so that the caller can then drop the permission to start programs.
 */
export async function findTraces(modes: readonly ModeDescription[], runner: Runner): Promise<Traces> {
  const byMode = new Map<ModeDescription, readonly string[]>();
  let legacyBeside = false;
  const running = modes.flatMap((mode) => {
    const { calls, line: pattern, failsWithout } = mode.traces;
    const names: string[] = [];
    if (calls.length > 0) byMode.set(mode, names);
    const onLine = (line: string) => {
      const name = pattern.exec(line)?.[1];
      if (name !== undefined) names.push(name);
    };
    return calls.map(async (call): Promise<string | undefined> => {
      const result = await ifInstalled(runner.run({ ...call, onLine }));
      // iptables-save itself notices that the other variant of iptables has tables, too.
      if (/legacy tables present/.test(result?.stderr ?? "")) legacyBeside = true;
      return result === undefined || result.exitCode === 0 || failsWithout ? undefined : failureText(call.tool, result);
    });
  });
  const failures = await Promise.all(running);
  return { byMode, unreadable: failures.find((failure) => failure !== undefined), legacyBeside };
}

/**
 * Whether the kernel has no rules of a service proxy, as after a reboot; false if unknown. Starts tools like `findTraces`, and
 * never rejects.
 */
export async function isKernelEmpty(modes: readonly ModeDescription[], runner: Runner): Promise<boolean> {
  try {
    const { byMode, unreadable } = await findTraces(modes, runner);
    return unreadable === undefined && [...byMode.values()].every(({ length }) => length === 0);
  } catch {
    return false;
  }
}
