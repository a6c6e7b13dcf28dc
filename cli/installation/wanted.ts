/** The configuration and the command line that an installation should have, and how the installed ones differ. */
import { createTwoFilesPatch } from "diff";
import { FLAGS, type GivenFlags, type InstalledService } from "../../config/mod.ts";
import { flagsBesideFile, withFlags } from "./edited_configuration.ts";
import { CONFIGURATION, type Parts } from "./files.ts";
import { installedWords, serviceFile, type ServiceManager, textOf } from "./service_files.ts";

/** Flags of `run` that apply to one run only and are not installed. */
const ONE_RUN_FLAGS = ["config", "strict-config", "write-config-to", "init-only", "cleanup"];

/** Input of `wantedInstallation`. */
export interface WantedInput {
  readonly root: string;
  readonly manager: ServiceManager | undefined;
  /** The given flags, with absolute paths. */
  readonly flags: GivenFlags;
  /** Text of the file given with `--config`; undefined without one, or if that is the installed one. */
  readonly template: string | undefined;
  /** The configuration of a new installation, to which flags are applied. */
  readonly initial: string;
}

/** The wanted configuration and service. */
export interface Wanted extends Pick<Parts, "configuration" | "service" | "replacement"> {
  /** Flags on the proxy's command line beside `--config`. */
  readonly words: readonly string[];
  /** A unified diff of installed and wanted configuration and command line; empty if the flags change nothing. */
  readonly difference: string;
}

/**
 * Returns what flags and template make of the installed configuration and command line, or of a new one. Flags that were
 * installed before and are not given now stay.
 */
export function wantedInstallation({ root, manager, flags, template, initial }: WantedInput): Wanted {
  const installed = textOf(root + CONFIGURATION);
  // As with `run`, most flags are ignored beside a file.
  const applied = template === undefined ? flags : besideFile(flags);
  const configuration = withFlags(template ?? installed ?? initial, applied);
  const before = installedWords(root);
  const words = merged(before ?? [], flagsBesideFile(flags, ONE_RUN_FLAGS));
  const service = manager && serviceFile(manager, words);
  const changesWords = service !== undefined && before !== undefined && before.join("\n") !== words.join("\n");
  const changesFile = installed !== undefined && installed !== configuration;
  return {
    configuration,
    service,
    words,
    replacement: {
      configuration: changesFile ? "backup" : "never",
      service: changesWords ? "backup" : "unedited",
    },
    difference: (changesFile ? patch(root + CONFIGURATION, installed, configuration) : "") +
      (changesWords ? patch(`flags in ${root}${service.path}`, lines(before), lines(words)) : ""),
  };
}

/** Returns the command line of the service installed below a root; undefined if there is no configuration. */
export function installedService(root: string): InstalledService | undefined {
  const configuration = root + CONFIGURATION;
  if (textOf(configuration) === undefined) return undefined;
  return { configuration, words: installedWords(root) ?? [] };
}

function besideFile(flags: GivenFlags): GivenFlags {
  const names = new Set(FLAGS.filter(({ besideConfig }) => besideConfig).map(({ name }) => name));
  return new Map([...flags].filter(([name]) => names.has(name)));
}

/** Words with those of the same flag replaced, and other ones added. */
function merged(words: readonly string[], added: readonly string[]): readonly string[] {
  const nameOf = (word: string) => word.replace(/=.*/s, "");
  const replaced = words.map((word) => added.find((one) => nameOf(one) === nameOf(word)) ?? word);
  return [...replaced, ...added.filter((word) => !replaced.includes(word))];
}

function lines(words: readonly string[]): string {
  return words.map((word) => `${word}\n`).join("");
}

function patch(name: string, before: string, after: string): string {
  return createTwoFilesPatch(`${name} (installed)`, `${name} (wanted)`, before, after, undefined, undefined, {
    context: 2,
  }).replace(/^=+\n/, "");
}
