/** How the cluster side has a credential plugin run, without the right to start programs and without knowing who does. */

/** One run of a program, which gets no input and the environment of this process. */
export interface ProgramCall {
  /** Its name on the PATH, or its path. */
  readonly program: string;
  readonly args: readonly string[];
  /** What is added to the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** After this it is killed. */
  readonly timeoutMs: number;
}

/** What a program that ran to its end has left behind. */
export interface ProgramResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program. Rejects where it may not be started, is not there, or had to be killed. */
export type RunProgram = (call: ProgramCall) => Promise<ProgramResult>;
