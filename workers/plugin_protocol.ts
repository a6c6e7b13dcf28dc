/** The messages between the main isolate and the worker that runs a credential plugin or a hook. */
import type { ProgramResult } from "../platform/mod.ts";

/**
 * The first message, which main sends before it has read anything from the network: the program that this worker runs,
 * its arguments and its environment. A later one is refused.
 */
export interface PluginRole {
  readonly program: string;
  readonly args: readonly string[];
  /** The whole environment, except for KUBERNETES_EXEC_INFO. */
  readonly env: Readonly<Record<string, string>>;
}

/** Requests a run of the program; answered with an outcome of the same number. */
export interface PluginRequest {
  readonly number: number;
  /** The value of the variable KUBERNETES_EXEC_INFO; undefined for a program that is no credential plugin. */
  readonly execInfo: string | undefined;
  /** The standard input; none if undefined. */
  readonly stdin: string | undefined;
  /** The time after which the program is killed, in milliseconds. */
  readonly timeoutMs: number;
}

/** The result of a run, or the reason why there is none. */
export type PluginOutcome =
  & { readonly number: number }
  & (
    | { readonly result: ProgramResult }
    | { readonly problem: string }
  );
