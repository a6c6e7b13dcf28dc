/** Parses command lines in tests, with files given as texts by name. */
import type { ModeDescription } from "../../../backends/contract/mod.ts";
import { MODE_DESCRIPTIONS } from "../../../backends/mod.ts";
import assert from "node:assert/strict";
import { COMMANDS } from "../../../cli/commands/mod.ts";
import { type CommandLine, type CommandSpec, type Configuration, parseCommandLine } from "../../../config/mod.ts";
import { helpText } from "../../../cli/manual/pages.ts";
import { loadYaml } from "../../../platform/mod.ts";

const { parseTree } = await loadYaml();

/** The environment of a command line in a test. */
export interface Given {
  readonly files?: Readonly<Record<string, string>>;
  readonly modes?: readonly ModeDescription[];
  readonly hostname?: string;
  readonly commands?: readonly CommandSpec[];
}

/** The beginning of every configuration file: two lines. */
export const HEADER = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

/** Parses the arguments, by default with a backend for every mode. */
export function parse(args: readonly string[], given: Given = {}): CommandLine {
  return parseCommandLine(args, {
    readFile: (path) => {
      const content = given.files?.[path];
      if (content === undefined) throw new Error(`no such file: ${path}`);
      return content;
    },
    hostname: () => given.hostname ?? "node-a",
    kernelRelease: () => "6.1.0",
    modes: given.modes ?? MODE_DESCRIPTIONS,
    commands: given.commands ?? COMMANDS,
  }, parseTree);
}

/** Parses a command line that must be accepted. */
export function accepted(
  args: readonly string[],
  given?: Given,
): { configuration: Configuration; warnings: readonly string[] } {
  const command = parse(args, given);
  assert.equal(command.kind, "start", command.kind === "errors" ? command.errors.join("\n") : undefined);
  assert(command.kind === "start");
  return command;
}

/** The errors of a command line that must be refused with status 2. */
export function refused(args: readonly string[], given?: Given): readonly string[] {
  const command = parse(args, given);
  assert(command.kind === "errors", `accepted as ${command.kind}`);
  assert.equal(command.exitCode, 2);
  return command.errors;
}

/** Parses a file whose `body` follows the header, from line 3. */
export function fromFile(body: string, args: readonly string[] = [], given: Given = {}): CommandLine {
  return parse(["--config", "kp.yaml", ...args], { ...given, files: { "kp.yaml": HEADER + body } });
}

/** The warnings other than those about missing effects. */
export function beyondEffect(warnings: readonly string[]): readonly string[] {
  return warnings.filter((warning) =>
    !/no effect in Sluice($|,)|mode \w+ (counts no |cannot count traffic)/.test(warning)
  );
}

/** The help requested by the arguments. */
export function helpOf(args: readonly string[], given: Given = {}): string {
  const command = parse(args, given);
  assert(command.kind === "help", `accepted as ${command.kind}`);
  return helpText(command.command, given.commands ?? COMMANDS);
}
