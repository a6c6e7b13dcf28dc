/** The one place that starts tools. */

/** One run of a tool. */
export interface ToolCall {
  /** The name of the tool, found on the PATH: `iptables-restore`. */
  readonly tool: string;
  readonly args: readonly string[];
  /** What it reads on standard input, in pieces of any size. */
  readonly stdin?: Iterable<string>;
  /** Called when the tool has taken all of its input, or will take no more of it; it may go on for a while then. */
  readonly onInputTaken?: () => void;
  /** Takes each line of standard output, without its newline, as it comes; `stdout` of the result is then empty. */
  readonly onLine?: (line: string) => void;
  /** After this it is killed; 60,000 by default. */
  readonly timeoutMs?: number;
}

/** What a tool that ran has left behind. */
export interface ToolResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs tools. */
export interface Runner {
  /**
   * Runs a tool to its end, whatever its exit code.
   * @throws {ToolMissingError} where the tool is not installed
   * @throws {ToolTimeoutError} where it had to be killed
   */
  run(call: ToolCall): Promise<ToolResult>;
}

/** A tool that this host does not have. */
export class ToolMissingError extends Error {
  override readonly name = "ToolMissingError";
  constructor(readonly tool: string) {
    super(`${tool} is not installed, or not on the PATH`);
  }
}

/** A tool that did not end in time. */
export class ToolTimeoutError extends Error {
  override readonly name = "ToolTimeoutError";
  constructor(readonly tool: string, readonly timeoutMs: number) {
    super(`${tool} did not end within ${timeoutMs / 1000} s and was killed`);
  }
}

/** A tool's failure in one line: its name, its exit status, and what it said on standard error. */
export function failureText(tool: string, result: ToolResult): string {
  const said = result.stderr.split("\n").map((line) => line.trim()).filter((line) => line !== "").join("; ");
  return `${tool} failed with exit status ${result.exitCode}: ${said || "it said nothing"}`;
}

/**
 * Whether a tool's standard error says that memory, room or a right was missing: the host's failure and not that of the
 * input, in which nothing would be found by taking it apart.
 */
export function lacksMeans(stderr: string): boolean {
  return /Resource temporarily unavailable|No buffer space|Cannot allocate memory|not permitted|Permission denied/i
    .test(stderr);
}

/** Whether a tool's exit status is that of one that a signal ended, by the out-of-memory killer, say. */
export function wasKilled(exitCode: number): boolean {
  return exitCode > 128;
}
