/** Contract of a command, and helpers that commands share. */
import { choice, type ChoiceFlag, type CommandLine, type CommandSpec } from "../../config/mod.ts";
import type { Configuration, GivenFlags } from "../../config/mod.ts";
import { FAMILIES, type Family, type RunProgram, writeToStderr } from "../../platform/mod.ts";
import type { ProxyOptions } from "../../proxy/mod.ts";
import type { CredentialPlugin } from "../../sources/kubernetes/mod.ts";

/** Input of a command. */
export interface Invocation extends Pick<ProxyOptions, "logger" | "logging" | "clock"> {
  readonly configuration: Configuration;
  /** Positional arguments, as many as the command's spec allows. */
  readonly arguments: readonly string[];
  /** Values of all flags given, including the command's own, by name. */
  readonly flags: GivenFlags;
  /** Whether the configuration is that of the installed service, since no flag selects another. */
  readonly isInstalled: boolean;
  /** Reads the command line and the configuration file again. */
  readonly reread: () => Promise<CommandLine>;
  /** Aborted by SIGTERM or SIGINT. */
  readonly signal: AbortSignal;
  /** Credential plugin of the kubeconfig's user, if there is one. */
  readonly plugin?: CredentialPlugin;
  /** Runs that plugin if it is a program. */
  readonly runProgram?: RunProgram;
  /** Aborted when something is lost that the command needs and cannot restart. */
  readonly lost: AbortController;
  /** Writes to standard output synchronously. */
  print(text: string): void;
}

/** One command, `sluice NAME`. Loads its dependencies when it starts, so that they cost the other commands nothing. */
export interface Command extends CommandSpec {
  /** Whether it runs tools, or workers that do. Other commands drop the permission to start programs before they start. */
  readonly startsPrograms?: boolean;
  /** Whether it runs until a signal and logs why it stops; other commands only print errors. */
  readonly lasts?: true;
  /** Resolves with the exit status. An error means status 1. */
  start(invocation: Invocation): Promise<number>;
}

/** Returns the value of a choice flag; its first value by default. */
export function chosen<C extends string>({ flags }: Invocation, { name, values }: ChoiceFlag<C>): C {
  const given = flags.get(name);
  return values.find((value) => value === given) ?? values[0];
}

/** Flag that selects one IP family. */
export const FAMILY_FLAG = choice("family", ["IPv4", "IPv6"], "IPv4 or IPv6; both by default.");

/** Returns the families selected with FAMILY_FLAG. */
export function familiesOf(invocation: Invocation): readonly Family[] {
  return invocation.flags.has(FAMILY_FLAG.name) ? [chosen(invocation, FAMILY_FLAG)] : FAMILIES;
}

/** Prints a usage error and returns its exit status. */
export function usageError(message: string): 2 {
  writeToStderr(`sluice: ${message}\n`);
  return 2;
}

/** Formats data as indented JSON. */
export function jsonText(data: unknown): string {
  return `${JSON.stringify(data, null, 2)}\n`;
}
