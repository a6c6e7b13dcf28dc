import type { ToolResult } from "../../../backends/tools/runner.ts";
import type { Family } from "../../../platform/address.ts";
import { applyCommand, parseCommand } from "./command_line.ts";
import { CommandRefused, ParameterProblem, Unsupported } from "./errors.ts";
import { banner, helpHint, VERSION } from "./messages.ts";
import { restore } from "./restore.ts";
import { inOrder, listRules, saveLines } from "./save.ts";
import type { Chain, Table, Tables } from "./tables.ts";

/** A run of an iptables tool. */
export interface IptablesCall {
  /** The name of the program, e.g. `ip6tables-restore`. */
  readonly program: string;
  readonly family: Family;
  readonly args: readonly string[];
  readonly stdin: string;
  /** The date as the tools print it. */
  readonly date: string;
}

/** Runs `iptables`, `iptables-save` or `iptables-restore` (or `ip6tables…`), by the suffix of the name. */
export function runIptables(tables: Tables, call: IptablesCall): ToolResult {
  const name = call.program;
  if (call.args.includes("--version") || call.args.includes("-V")) {
    return succeeded(`${name} ${VERSION} (${tables.flavour})\n`);
  }
  if (name.endsWith("-save")) return runSave(tables, call);
  if (name.endsWith("-restore")) return runRestore(tables, call);
  return runPlain(tables, call);
}

function succeeded(stdout = ""): ToolResult {
  return { exitCode: 0, stdout, stderr: "" };
}

function failed(exitCode: number, stderr: string): ToolResult {
  return { exitCode, stdout: "", stderr };
}

function text(lines: Iterable<string>): string {
  let all = "";
  for (const line of lines) all += `${line}\n`;
  return all;
}

function runSave(tables: Tables, { program, args, date }: IptablesCall): ToolResult {
  let only: string | undefined;
  for (let i = 0; i < args.length; i++) {
    if (args[i] === "-t" || args[i] === "--table") only = args[++i];
    else throw new Unsupported(`${program} ${args[i]}`);
  }
  const known = only === undefined || tables.get(only) !== undefined;
  const created = known ? undefined : tables.begin(only!);
  if (!known && !created) throw new Unsupported(`${program} of a table ${only}`);
  const saved = text(saveLines(tables, program, only, date));
  if (tables.flavour === "nf_tables") created?.undo();
  return succeeded(saved);
}

function runRestore(tables: Tables, { program, family, args, stdin }: IptablesCall): ToolResult {
  let noFlush = false, test = false;
  let table: string | undefined;
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    switch (arg) {
      case "-n":
      case "--noflush":
        noFlush = true;
        break;
      case "-t":
      case "--test":
        test = true;
        break;
      // The fake ignores the counters of an input.
      case "-c":
      case "--counters":
      case "-v":
        break;
      case "-T":
      case "--table":
        table = args[++i];
        break;
      case "-w":
      case "--wait":
      case "-W":
      case "--wait-interval":
        if (isNumber(args[i + 1])) i++;
        break;
      default:
        if (/^(--wait(-interval)?=|-[wW])\d+$/.test(arg)) break;
        return failed(1, `${program}: unrecognized option '${arg}'\nTry \`${program} -h' for more information.\n`);
    }
  }
  const { exitCode, stderr } = restore(tables, stdin, { program, family, noFlush, test, table });
  return { exitCode, stdout: "", stderr };
}

function runPlain(tables: Tables, { program, family, args }: IptablesCall): ToolResult {
  const { words, table: name, isVerbose } = plainArguments(args);
  const isNft = tables.flavour === "nf_tables";
  try {
    const command = parseCommand(words, family, name);
    const before = tables.get(name);
    const change = tables.begin(name);
    if (!change) {
      return failed(
        3,
        isNft
          ? `${
            banner(program, "nf_tables")
          }table '${name}' does not exist\nPerhaps ${program} or your kernel needs to be upgraded.\n`
          : `${
            banner(program, "legacy")
          }can't initialize ${program} table \`${name}': Table does not exist (do you need to insmod?)\n` +
            `Perhaps ${program} or your kernel needs to be upgraded.\n`,
      );
    }
    if (command.verb === "print" || command.verb === "list") {
      const { table } = change;
      if (isNft && !before) change.undo();
      return show(tables, table, name, program, { how: command.verb, chainName: command.chain, isVerbose });
    }
    try {
      applyCommand(change, command, 0);
    } catch (error) {
      change.undo();
      throw error;
    }
    const [refusal] = change.commit();
    if (!refusal) return succeeded();
    if (isNft) return failed(4, `${banner(program, "nf_tables")} ${refusal.refused.message}\n`);
    return failed(1, `${program}: ${refusal.refused.reason}. Run \`dmesg' for more information.\n`);
  } catch (error) {
    if (error instanceof CommandRefused) return failed(1, `${program}: ${error.message}.\n`);
    if (!(error instanceof ParameterProblem)) throw error;
    return failed(2, `${error.bare ? "" : banner(program, tables.flavour)}${error.message}\n${helpHint(program)}`);
  }
}

/** The words of the command and its table, without the options for waiting and printing. */
function plainArguments(
  args: readonly string[],
): { readonly words: string[]; readonly table: string; readonly isVerbose: boolean } {
  const words: string[] = [];
  let isVerbose = false;
  let table = "filter";
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    if (arg === "-t" || arg === "--table") table = args[++i] ?? "";
    else if (arg === "-w" || arg === "--wait" || arg === "-W" || arg === "--wait-interval") {
      if (isNumber(args[i + 1])) i++;
    } else if (arg === "-v" || arg === "--verbose") isVerbose = true;
    else if (arg !== "-n" && arg !== "--numeric") words.push(arg);
  }
  return { words, table, isVerbose };
}

function isNumber(word: string | undefined): boolean {
  return word !== undefined && /^\d+$/.test(word);
}

function show(
  tables: Tables,
  table: Table,
  name: string,
  program: string,
  { how, chainName, isVerbose }: {
    readonly how: "print" | "list";
    readonly chainName: string | undefined;
    readonly isVerbose: boolean;
  },
): ToolResult {
  const only = chainName === undefined ? undefined : table.get(chainName);
  if (chainName !== undefined && !only) {
    return failed(
      1,
      tables.flavour === "nf_tables"
        ? `${banner(program, "nf_tables")}chain \`${chainName}' in table \`${name}' is incompatible, use 'nft' tool.\n`
        : `${program}: No chain/target/match by that name.\n`,
    );
  }
  if (how === "print") return succeeded(text(listRules(table, only, isVerbose)));
  return succeeded((only ? [only] : inOrder(table)).map(listing).join("\n"));
}

/** A chain as `iptables -L -n` prints it, with only the targets of its rules. */
function listing({ name, policy, references, rules }: Chain): string {
  const about = policy === undefined ? `${references} references` : `policy ${policy}`;
  const targets = rules.map(({ text }) => / -[jg] (\S+)/.exec(` ${text}`)?.[1] ?? "");
  return `Chain ${name} (${about})\ntarget     prot opt source               destination         \n${text(targets)}`;
}
