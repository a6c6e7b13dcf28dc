import type { Family } from "../../../platform/address.ts";
import { applyCommand, parseCommand, splitWords } from "./command_line.ts";
import { CommandRefused, ParameterProblem } from "./errors.ts";
import { banner, helpHint } from "./messages.ts";
import { checkChainName, type TableChange, type Tables } from "./tables.ts";

/** How a restore is asked for. */
export interface RestoreOptions {
  /** The name by which the tool was called. */
  readonly program: string;
  readonly family: Family;
  /** Keep what the input does not name. */
  readonly noFlush: boolean;
  /** Change nothing. */
  readonly test: boolean;
  /** The only table to restore. */
  readonly table: string | undefined;
}

/** How a restore ends. */
export interface RestoreOutcome {
  readonly exitCode: number;
  readonly stderr: string;
}

const OK: RestoreOutcome = { exitCode: 0, stderr: "" };

/**
 * What iptables-restore 1.8.9 does with an input. Each table's part happens as a whole at its COMMIT, or not at all;
 * parts before one that fails stay. nf_tables reads all of a part before it does any of it; legacy goes line by line.
 */
export function restore(tables: Tables, input: string, options: RestoreOptions): RestoreOutcome {
  const { program, family } = options;
  const isNft = tables.flavour === "nf_tables";
  let part:
    | { readonly table: string; readonly change: TableChange; readonly steps: [number, () => void][] }
    | undefined;
  let isSkipped = false;
  let number = 0;
  /** The line whose step is under way; a part's steps run when its COMMIT is read. */
  let stepLine = 0;

  const refusedAt = (line: number, why: string): RestoreOutcome => ({
    exitCode: 1,
    stderr: why.startsWith("Can't set policy")
      ? `${banner(program, tables.flavour)}${why} line ${line}: Bad built-in chain name\n`
      : `${program}: line ${line} failed${isNft && why !== "" ? `: ${why}.` : ""}\n`,
  });
  const step = (does: () => void) => {
    stepLine = number;
    if (isNft) part!.steps.push([number, does]);
    else does();
  };
  const line = (text: string, isEnded: boolean): RestoreOutcome | undefined => {
    if (text === "" || text.startsWith("#")) return undefined;
    if (text.startsWith("*") && !part) {
      const table = text.slice(1).trim();
      isSkipped = options.table !== undefined && table !== options.table;
      const change = isSkipped ? undefined : tables.begin(table);
      if (change) {
        part = { table, change, steps: [] };
        if (!options.noFlush) step(() => change.clear());
      } else if (!isSkipped) {
        throw new ParameterProblem(
          isNft
            ? `${program}: line ${number} table name '${table}' invalid`
            : `${program}: unable to initialize table '${table}'`,
        );
      }
      return undefined;
    }
    if (isSkipped) {
      if (text === "COMMIT") isSkipped = false;
      return undefined;
    }
    if (!part) return refusedAt(number, "");
    const { table, change, steps } = part;
    // The legacy tool knows a COMMIT by its newline.
    if (text === "COMMIT" && (isNft || isEnded)) {
      for (const [at, does] of steps) {
        stepLine = at;
        does();
      }
      stepLine = number;
      part = undefined;
      const refusals = change.commit();
      if (options.test || (isNft && steps.length === 0)) change.undo();
      if (refusals.length === 0) return undefined;
      if (!isNft) return refusedAt(number, "");
      const lines = refusals.map(({ line, refused }) => `line ${line}: ${refused.message}\n`);
      return { exitCode: 4, stderr: `${banner(program, tables.flavour)}\n${lines.join("")}` };
    }
    if (text.startsWith(":")) {
      const [chain = "", policy] = text.slice(1).split(/\s+/);
      if (policy === undefined) throw new ParameterProblem(`${program}: line ${number} policy invalid`);
      checkChainName(chain, tables.flavour);
      const at = number;
      step(() => change.declare(at, chain, policy));
      return undefined;
    }
    const words = splitWords(text.startsWith("[") ? text.slice(text.indexOf("]") + 1) : text);
    if (words.includes("-t")) throw new ParameterProblem(`The -t option cannot be used in ${program}.\n`);
    const command = parseCommand(words, family, table);
    const at = number;
    step(() => applyCommand(change, command, at));
    return undefined;
  };

  const undoPart = () => part?.change.undo();
  try {
    for (const { text, isEnded } of linesOf(input)) {
      number++;
      const failure = line(text, isEnded);
      if (failure) {
        undoPart();
        return failure;
      }
    }
  } catch (error) {
    undoPart();
    if (error instanceof CommandRefused) return refusedAt(stepLine, error.message);
    if (error instanceof ParameterProblem) {
      const prefix = error.bare ? "" : banner(program, tables.flavour);
      return {
        exitCode: 2,
        stderr: `${prefix}${error.message}\nError occurred at line: ${number}\n${helpHint(program)}`,
      };
    }
    throw error;
  }
  if (!part) return OK;
  undoPart();
  return { exitCode: 1, stderr: `${program}: COMMIT expected at line ${number + 1}\n` };
}

function* linesOf(input: string): Generator<{ readonly text: string; readonly isEnded: boolean }> {
  let start = 0;
  for (let end = input.indexOf("\n"); end !== -1; end = input.indexOf("\n", start)) {
    yield { text: input.slice(start, end), isEnded: true };
    start = end + 1;
  }
  if (start < input.length) yield { text: input.slice(start), isEnded: false };
}
