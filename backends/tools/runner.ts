/** The one place that starts tools. */
import type { PlaceChange } from "./change.ts";

/** One run of a tool. */
export interface ToolCall {
  /** The name of the tool, found on the PATH: `iptables-restore`. */
  readonly tool: string;
  readonly args: readonly string[];
  /** The whole environment of the tool; by default the PATH and what makes a tool speak English and keep nothing. */
  readonly env?: Readonly<Record<string, string>>;
  /** What it reads on standard input, in pieces of any size. */
  readonly stdin?: Iterable<string>;
  /** Called when the tool has taken all of its input, or will take no more of it; it may go on for a while then. */
  readonly onInputTaken?: () => void;
  /** Takes each line of standard output, without its newline, as it comes; `stdout` of the result is then empty. */
  readonly onLine?: (line: string) => void;
  /** After this it is killed; 60,000 by default. */
  readonly timeoutMs?: number;
  /**
   * The places in the kernel that a sync changes by this run: a dry run collects such runs in place of starting the tool.
   * Undefined for a run that only reads, or that cleans up.
   */
  readonly changes?: () => Iterable<PlaceChange>;
}

/** An input that is printed each time it is read, so that a call can be repeated and no whole text stays in memory. */
export function printedInput(print: () => Iterator<string>): Iterable<string> {
  return { [Symbol.iterator]: print };
}

/** What a tool that ran has left behind. */
export interface ToolResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A tool that goes on running and does what it is told, a line at a time. */
export interface Conversation {
  /**
   * Writes the text and resolves with what the tool says on standard error until it says a line that is `end`, without
   * that line. One question at a time.
   * @throws {ToolEndedError} where it ended before it said so; whether it did what it was told is then not known
   * @throws {ToolTimeoutError} where it did not say so in time and was killed
   */
  ask(text: string, end: string, timeoutMs: number): Promise<string>;
  /** Whether it can be asked: it has neither ended nor been closed. */
  isOpen(): boolean;
  /** Ends its input, which ends the tool. */
  close(): void;
}

/** Runs tools. */
export interface Runner {
  /**
   * Runs a tool to its end, whatever its exit code.
   * @throws {ToolMissingError} where the tool is not installed
   * @throws {ToolMovedError} where only a restart of this program can run it
   * @throws {ToolTimeoutError} where it had to be killed
   */
  run(call: ToolCall): Promise<ToolResult>;
  /**
   * Starts a tool to talk with; its standard output is nobody's. Not there on a runner that cannot.
   * @throws {ToolMissingError} where the tool is not installed
   */
  converse?(call: Pick<ToolCall, "tool" | "args">): Conversation;
  /** True on a runner that carries out no change: what reads the kernel then keeps the rules that a difference shows. */
  readonly isDry?: boolean;
}

/** A tool that this host does not have. */
export class ToolMissingError extends Error {
  override readonly name = "ToolMissingError";
  constructor(readonly tool: string) {
    super(`${tool} is not installed, or not on the PATH`);
  }
}

/** A tool that appeared at its path after this program had started, which may only run what was there at its start. */
export class ToolMovedError extends Error {
  override readonly name = "ToolMovedError";
  constructor(readonly tool: string) {
    super(`${tool} was installed or moved after Sluice had started, and can only be run after a restart of Sluice`);
  }
}

/** A tool that did not end in time. */
export class ToolTimeoutError extends Error {
  override readonly name = "ToolTimeoutError";
  constructor(readonly tool: string, readonly timeoutMs: number) {
    super(`${tool} did not end within ${timeoutMs / 1000} s and was killed`);
  }
}

/** A tool that ended in the middle of a conversation. */
export class ToolEndedError extends Error {
  override readonly name = "ToolEndedError";
  constructor(readonly tool: string) {
    super(`${tool} ended in the middle of what it was told`);
  }
}
