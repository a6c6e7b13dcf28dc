/** The messages between the main isolate and the worker that runs a credential plugin. */
import type { ProgramCall, ProgramResult } from "../core/run_program.ts";

/** Run this; answered with an outcome of the same number. */
export interface PluginRequest {
  readonly number: number;
  readonly call: ProgramCall;
}

/** What came of it: a result, or why there is none. */
export type PluginOutcome =
  & { readonly number: number }
  & (
    | { readonly result: ProgramResult }
    | { readonly problem: string }
  );
