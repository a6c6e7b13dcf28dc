import type { Family } from "../../core/model/mod.ts";
import type { Table } from "./chain_names.ts";
import {
  failureOf,
  type FailureTable,
  printedInput,
  type Runner,
  runOrThrow,
  type ToolCall,
  type ToolFailure,
} from "../tools/mod.ts";
import { changedPlaces, type RestoreInput, restoreLines } from "./restore.ts";

/** The iptables tools of one family. */
export interface IptablesTools {
  /** Whether rules that are read are kept, for a dry run to show; in a long-lived proxy their hashes are enough. */
  readonly keepsRules: boolean;
  /** Runs `iptables-restore --noflush` on an input. */
  restore(input: RestoreInput<string>): Promise<ToolFailure | undefined>;
  /** Runs `iptables-save` for all tables. Throws if it fails or its output is malformed or incomplete. */
  save(onLine: (line: string) => void): Promise<void>;
  /**
   * Prints the lines of `iptables -v -S` for a chain, or a table without one, with the counters of the rules. Throws if
   * there is no such chain. The lock keeps a restore of iptables-legacy, which sets all counters of the table to 0 for
   * a moment, from being read.
   */
  list(table: Table, chain: string | undefined, onLine: (line: string) => void): Promise<void>;
  /** The kernel interface that the tools use. Throws if they are missing. */
  flavour(): Promise<Flavour>;
}

/**
 * `nf_tables` applies one restore as one transaction whose time grows with the square of its chains; `legacy`
 * replaces the whole table with every restore.
 */
export type Flavour = "nf_tables" | "legacy";

/** The time that a tool waits for the xtables lock, in seconds. */
const LOCK_WAIT_SECONDS = 5;
/** The same for counters, which may be stale. */
const COUNT_WAIT_SECONDS = 1;
const COUNT_TIMEOUT_MS = 2_000;
/** The same for a whole table: 50,000 rules take 1 s. A sync may wait for it. */
const COUNT_ALL_TIMEOUT_MS = 10_000;

/** Messages of iptables 1.8 and its companions. */
const FAILURES: FailureTable = [["busy", /xtables lock/i]];

/**
 * The default tools of a family on this host, or those of a variant by its own names.
 * @param variant the variant; the host's default one if undefined
 */
export function createIptablesTools(family: Family, runner: Runner, variant?: Flavour): IptablesTools {
  const name = family === "IPv4" ? "iptables" : "ip6tables";
  const tool = variant === undefined ? name : `${name}-${variant === "legacy" ? "legacy" : "nft"}`;
  const run = (call: ToolCall) => runOrThrow(runner, call);
  return {
    keepsRules: runner.isDry === true,
    async restore(input) {
      const result = await runner.run({
        tool: `${tool}-restore`,
        args: ["--noflush", "-w", String(LOCK_WAIT_SECONDS)],
        stdin: printedInput(() => restoreLines(input)),
        changes: () => changedPlaces(input),
      });
      return failureOf("iptables-restore", result, FAILURES);
    },
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
        throw new Error(`${tool}-save succeeded, but its output ${flaw}`);
      }
    },
    async list(table, chain, onLine) {
      const args = ["-w", String(COUNT_WAIT_SECONDS), "-t", table, "-v", "-S", ...(chain === undefined ? [] : [chain])];
      await run({ tool, args, onLine, timeoutMs: chain === undefined ? COUNT_ALL_TIMEOUT_MS : COUNT_TIMEOUT_MS });
    },
    async flavour() {
      const { stdout } = await run({ tool, args: ["--version"] });
      if (!/^ip6?tables /.test(stdout)) {
        throw new Error(`${tool} --version printed no version: ${stdout.slice(0, 80)}`);
      }
      return stdout.includes("nf_tables") ? "nf_tables" : "legacy";
    },
  };
}

/**
 * Checks that an output of iptables-save is complete and well-formed. If a truncated one were accepted as the kernel's
 * state, all rules would be rewritten and jumps duplicated.
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
    /** The flaw of the output; undefined if there is none. */
    flaw(): string | undefined {
      if (strange !== undefined) return `is malformed (${JSON.stringify(strange.slice(0, 80))})`;
      return isOpen ? "ends in the middle of a table" : undefined;
    },
  };
}
