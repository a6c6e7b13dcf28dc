import type { Family } from "../../core/model/mod.ts";
import type { Table } from "./chain_names.ts";
import { changedPlaces, type RestoreInput, restoreLines } from "./restore.ts";
import { failureText, printedInput, type Runner, type ToolCall, type ToolResult } from "../tools/mod.ts";

/** The iptables tools of one family, on the host as it is. */
export interface IptablesTools {
  /** Whether rules that are read are kept, for a dry run to show; in a long-lived proxy their hashes are enough. */
  readonly keepsRules: boolean;
  /** Runs `iptables-restore --noflush` on an input. */
  restore(input: RestoreInput<string>): Promise<ToolResult>;
  /** Runs `iptables-save` for all tables. Throws where it fails, or has printed what cannot be all of it. */
  save(onLine: (line: string) => void): Promise<void>;
  /** The lines of `iptables -v -S` for a chain, with what its rules have counted. Throws where there is no such chain. */
  list(table: Table, chain: string): Promise<readonly string[]>;
  /** Which kernel interface the tools use. Throws where they are missing. */
  flavour(): Promise<Flavour>;
}

/**
 * `nf_tables` applies one restore as one transaction whose time grows with the square of its chains; `legacy`
 * replaces the whole table with every restore.
 */
export type Flavour = "nf_tables" | "legacy";

/** How long a tool waits for the xtables lock, in seconds. */
const LOCK_WAIT_SECONDS = 5;
/** The same, and how long the tool may take, for figures that may be stale. */
const COUNT_WAIT_SECONDS = 1;
const COUNT_TIMEOUT_MS = 2_000;

/** The tools that are called by these names on this host. */
export function createIptablesTools(family: Family, runner: Runner): IptablesTools {
  const tool = family === "IPv4" ? "iptables" : "ip6tables";
  const run = async (call: ToolCall) => {
    const result = await runner.run(call);
    if (result.exitCode !== 0) throw new Error(failureText(call.tool, result));
    return result;
  };
  return {
    keepsRules: runner.isDry === true,
    restore: (input) =>
      runner.run({
        tool: `${tool}-restore`,
        args: ["--noflush", "-w", String(LOCK_WAIT_SECONDS)],
        stdin: printedInput(() => restoreLines(input)),
        changes: () => changedPlaces(input),
      }),
    async save(onLine) {
      const form = createSaveForm();
      await run({
        tool: `${tool}-save`,
        args: [],
        onLine(line) {
          form.check(line);
          onLine(line);
        },
      });
      const flaw = form.flaw();
      if (flaw !== undefined) {
        throw new Error(`${tool}-save ended well, but what it printed ${flaw}: it is not believed`);
      }
    },
    async list(table, chain) {
      const args = ["-w", String(COUNT_WAIT_SECONDS), "-t", table, "-v", "-S", chain];
      const { stdout } = await run({ tool, args, timeoutMs: COUNT_TIMEOUT_MS });
      return stdout.split("\n");
    },
    async flavour() {
      const { stdout } = await run({ tool, args: ["--version"] });
      if (!/^ip6?tables /.test(stdout)) {
        throw new Error(`${tool} --version says nothing of a version: ${stdout.slice(0, 80)}`);
      }
      return stdout.includes("nf_tables") ? "nf_tables" : "legacy";
    },
  };
}

/**
 * Tells a whole output of iptables-save from one that is cut off or is none: taken for the kernel's state, that would
 * have all rules written anew, and the jumps twice.
 */
function createSaveForm() {
  let isOpen = false;
  let strange: string | undefined;
  return {
    check(line: string) {
      if (line.startsWith("*")) {
        if (isOpen) strange ??= line;
        isOpen = true;
      } else if (line === "COMMIT") isOpen = false;
      else if (line !== "" && !line.startsWith("#") && !(isOpen && /^(:|-A )/.test(line))) strange ??= line;
    },
    /** What is wrong with it; undefined where nothing is. */
    flaw(): string | undefined {
      if (strange !== undefined) return `makes no sense (${JSON.stringify(strange.slice(0, 80))})`;
      return isOpen ? "breaks off in the middle of a table" : undefined;
    },
  };
}
