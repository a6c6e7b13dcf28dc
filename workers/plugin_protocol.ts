/** The messages between the main isolate and the worker that runs a credential plugin. */
import type { ProgramResult } from "../platform/mod.ts";

/**
 * The first message, which main sends before it has read anything from the network: the program that this worker runs,
 * with what arguments and in what environment. A later one is refused.
 */
export interface PluginRole {
  readonly program: string;
  readonly args: readonly string[];
  /** The whole environment but for what the request says. */
  readonly env: Readonly<Record<string, string>>;
}

/** Run the program; answered with an outcome of the same number. */
export interface PluginRequest {
  readonly number: number;
  /** What the program is told by the variable KUBERNETES_EXEC_INFO. */
  readonly execInfo: string;
  /** After so many milliseconds it is killed. */
  readonly timeoutMs: number;
}

/** What came of it: a result, or why there is none. */
export type PluginOutcome =
  & { readonly number: number }
  & (
    | { readonly result: ProgramResult }
    | { readonly problem: string }
  );
