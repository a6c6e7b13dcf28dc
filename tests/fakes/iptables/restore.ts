import type { Family } from "../../../platform/address.ts";
import { applyCommand, parseCommand, splitWords } from "./command_line.ts";
import { CommandRefused, ParameterProblem } from "./errors.ts";
import { banner, helpHint } from "./messages.ts";
import { checkChainName, type TableChange, type Tables } from "./tables.ts";

/** Options of iptables-restore. */
export interface RestoreOptions {
  /** The name of the program. */
  readonly program: string;
  readonly family: Family;
  /** Keep chains that the input does not mention. */
  readonly noFlush: boolean;
  /** Change nothing. */
  readonly test: boolean;
  /** The only table to restore. */
  readonly table: string | undefined;
}

/** The result of a restore. */
export interface RestoreOutcome {
  readonly exitCode: number;
  readonly stderr: string;
}

const OK: RestoreOutcome = { exitCode: 0, stderr: "" };

/**
 * Applies input like iptables-restore 1.8.9. Each table is committed atomically at its COMMIT; tables before a failing one
 * stay committed. nf_tables parses a whole table before applying it, legacy applies line by line.
 */
export function restore(tables: Tables, input: string, options: RestoreOptions): RestoreOutcome {
  const { program, family } = options;
  const isNft = tables.flavour === "nf_tables";
  let part:
    | { readonly table: string; readonly change: TableChange; readonly steps: [number, () => void][] }
    | undefined;
  let isSkipped = false;
  let number = 0;
  /** The line of the current step; with nf_tables the steps run at COMMIT. */
  let stepLine = 0;

  const failedAt = (line: number, why: string): RestoreOutcome => ({
    exitCode: 1,
    stderr: why.startsWith("Can't set policy")
      ? `${banner(program, tables.flavour)}${why} line ${line}: Bad built-in chain name\n`
      : `${program}: line ${line} failed${isNft && why !== "" ? `: ${why}.` : ""}\n`,
  });
  const step = (apply: () => void) => {
    stepLine = number;
    if (isNft) part!.steps.push([number, apply]);
    else apply();
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
    if (!part) return failedAt(number, "");
    const { table, change, steps } = part;
    // The legacy tool only recognizes COMMIT with a newline.
    if (text === "COMMIT" && (isNft || isEnded)) {
      for (const [at, apply] of steps) {
        stepLine = at;
        apply();
      }
      stepLine = number;
      part = undefined;
      const refusals = change.commit();
      if (options.test || (isNft && steps.length === 0)) change.undo();
      if (refusals.length === 0) return undefined;
      if (!isNft) return failedAt(number, "");
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
    if (error instanceof CommandRefused) return failedAt(stepLine, error.message);
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
