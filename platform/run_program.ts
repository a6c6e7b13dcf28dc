/** Seam for running a credential plugin or a hook from an isolate that may not start programs itself. */

/** One run of a program, in the environment of this process. */
export interface ProgramCall {
  /** Name on the PATH, or path. */
  readonly program: string;
  readonly args: readonly string[];
  /** Added to the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Its standard input; none if undefined. */
  readonly stdin?: string;
  /** The program is killed after this time. */
  readonly timeoutMs: number;
}

/** Result of a program that exited. */
export interface ProgramResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program. Rejects if it cannot be started or was killed. */
export type RunProgram = (call: ProgramCall) => Promise<ProgramResult>;
