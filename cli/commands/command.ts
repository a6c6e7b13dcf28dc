import type { CommandLine, CommandSpec, Configuration, GivenFlags } from "../../config/mod.ts";
import type { ProxyOptions } from "../../proxy/mod.ts";
import type { RunProgram } from "../../platform/mod.ts";
import type { CredentialPlugin } from "../../sources/kubernetes/mod.ts";

/** What a command is started with. */
export interface Invocation extends Pick<ProxyOptions, "logger" | "logging" | "clock"> {
  readonly configuration: Configuration;
  /** What was given beside flags: as many as the command's spec asks for. */
  readonly arguments: readonly string[];
  /** The values of all flags that were given, by name; those of the command itself among them. */
  readonly flags: GivenFlags;
  /** Reads the command line again, and with it the configuration file. */
  readonly reread: () => Promise<CommandLine>;
  /** Ends the command: SIGTERM or SIGINT came. */
  readonly signal: AbortSignal;
  /** What gives the kubeconfig's user its credentials. */
  readonly plugin?: CredentialPlugin;
  /** Runs the credential plugin that the kubeconfig names. */
  readonly runProgram?: RunProgram;
  /** Aborted when something is gone that the command cannot do without, nor start anew. */
  readonly lost: AbortController;
  /** Writes to standard output, at once. */
  print(text: string): void;
}

/** A command: what `sluice NAME` does. What it needs is loaded when it starts, so that it costs the others nothing. */
export interface Command extends CommandSpec {
  /** It starts tools, or workers that do; other commands give up the right to start programs before they begin. */
  readonly startsPrograms?: boolean;
  /** Whether it goes on until it is told to end, and logs why it ends; others say what went wrong and no more. */
  readonly lasts?: true;
  /** Resolves with the exit status; what it throws is logged as the reason of status 1. */
  start(invocation: Invocation): Promise<number>;
}
