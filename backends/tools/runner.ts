/** The interface through which backends run tools. */
import type { ProgramResult } from "../../platform/mod.ts";

/** One run of a tool. */
export interface ToolCall {
  /** The name of the tool, found on the PATH: `iptables-restore`. */
  readonly tool: string;
  readonly args: readonly string[];
  /** The whole environment of the tool; by default PATH, LC_ALL=C and no home. */
  readonly env?: Readonly<Record<string, string>>;
  /** Its standard input, in pieces of any size. */
  readonly stdin?: Iterable<string>;
  /** Called when the tool has read its input or reads no more of it; it may still be running. */
  readonly onInputTaken?: () => void;
  /** Called for each line of standard output, without its newline; `stdout` of the result is then empty. */
  readonly onLine?: (line: string) => void;
  /** The maximum of its standard output, or with `onLine` of a line, in characters; the tool is killed above it. 256 Mi by default. */
  readonly mostOutput?: number;
  /** The tool is killed after this time at the latest; 60,000 by default. See `RunLimits`. */
  readonly timeoutMs?: number;
  /** Aborting it kills the tool; the run then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /**
   * The places in the kernel that a sync changes with this run: a dry run collects such runs instead of starting the
   * tool. Undefined for a run that only reads, or that cleans up.
   */
  readonly changes?: () => Iterable<PlaceChange>;
}

/** An input that is printed again each time it is read, so that no whole text stays in memory. */
export function printedInput(print: () => Iterator<string>): Iterable<string> {
  return { [Symbol.iterator]: print };
}

/** The result of a run. */
export interface ToolResult extends ProgramResult {}

/** A tool that keeps running and reads commands, a line at a time. */
export interface Conversation {
  /**
   * Writes a text and resolves with the standard error of the tool up to a line that equals `end`, without that line.
   * One call at a time.
   * @throws {ToolEndedError} if the tool ended before that line, or printed too much and was killed; whether it applied the text
   *   is then unknown
   * @throws {ToolTimeoutError} if the line did not come in time, and the tool was killed
   */
  ask(text: string, end: string, timeoutMs: number): Promise<string>;
  /** Whether the tool is running and the conversation is not closed. */
  isOpen(): boolean;
  /** Closes the standard input of the tool, which ends it. */
  close(): void;
}

/** Runs tools. */
export interface Runner {
  /**
   * Runs a tool until it exits, with any exit code.
   * @throws {ToolMissingError} if the tool is not installed
   * @throws {ToolMovedError} if it can only be run after a restart of this program
   * @throws {ToolTimeoutError} if it had to be killed
   */
  run(call: ToolCall): Promise<ToolResult>;
  /**
   * Starts a tool for a conversation. The lines of its standard output are passed on until the conversation is closed, and may
   * arrive later than the answer to which they belong; without `onLine` they are discarded. The tool is killed if it prints
   * more than `mostOutput` between two questions. Undefined on a runner that does not support it.
   * @throws {ToolMissingError} if the tool is not installed
   */
  converse?(call: Pick<ToolCall, "tool" | "args" | "onLine" | "mostOutput">): Conversation;
  /** True for a runner that changes nothing: readers of the kernel then keep the rules that a difference shows. */
  readonly isDry?: boolean;
}

/** A tool is not installed on this host. */
export class ToolMissingError extends Error {
  override readonly name = "ToolMissingError";
  constructor(readonly tool: string) {
    super(`${tool} is not installed, or not on the PATH`);
  }
}

/** The result of running tools; undefined if one of them is not installed. */
export async function ifInstalled<Result>(running: Promise<Result>): Promise<Result | undefined> {
  try {
    return await running;
  } catch (error) {
    if (!(error instanceof ToolMissingError)) throw error;
    return undefined;
  }
}

/** A tool was installed after this program started, which can only run tools that existed at its start. */
export class ToolMovedError extends Error {
  override readonly name = "ToolMovedError";
  constructor(readonly tool: string) {
    super(`${tool} was installed or moved after Sluice had started, and can only be run after a restart of Sluice`);
  }
}

/** A tool did not end in time. */
export class ToolTimeoutError extends Error {
  override readonly name = "ToolTimeoutError";
  constructor(readonly tool: string, readonly timeoutMs: number) {
    super(`${tool} did not end within ${timeoutMs / 1000} s and was killed`);
  }
}

/** A tool ended in the middle of a conversation. */
export class ToolEndedError extends Error {
  override readonly name = "ToolEndedError";
  constructor(readonly tool: string) {
    super(`${tool} ended in the middle of a conversation`);
  }
}

/** The change of one place in the kernel by one run of a tool, as `sluice diff` shows it. */
export type PlaceChange = ChainChange | MembersChange;

/** A chain that is written or removed as a whole. */
export interface ChainChange {
  readonly kind: "chain";
  /** `nat KUBE-SERVICES`, `chain services`. */
  readonly place: string;
  /** The rules before, in order; undefined for a chain that does not exist. */
  readonly held: readonly string[] | undefined;
  /** The rules after, in order; undefined for a chain that is removed. */
  readonly wanted: readonly string[] | undefined;
}

/** Something that gains and loses members: a set, a virtual server, an interface, a built-in chain of iptables. */
interface MembersChange {
  readonly kind: "built-in chain" | "members";
  /** `nat PREROUTING`, `map services`, `virtual server -t 10.96.0.10:80`. */
  readonly place: string;
  readonly removed: readonly string[];
  readonly added: readonly string[];
  /** Set where the run creates or removes the place itself. */
  readonly what?: "missing" | "unwanted";
}
