/** The configuration and the command line that an installation should have, and how the installed ones differ. */
import { fieldAt, FIELDS, FLAGS, formatDuration, type GivenFlags, type InstalledService } from "../../config/mod.ts";
import { sameData } from "../../platform/mod.ts";
import {
  CONFIGURATION,
  type InstalledFile,
  installedWords,
  serviceFile,
  type ServiceManager,
  textFile,
  textOf,
} from "./files.ts";
import { createTwoFilesPatch } from "diff";
import { parseDocument, type YAMLMap } from "yaml";

/** Flags of `run` that apply to one run only and are not installed. */
const ONE_RUN_FLAGS = ["config", "strict-config", "write-config-to", "init-only", "cleanup", "only-own"];

/** The wanted configuration and service. */
export interface Wanted {
  readonly configuration: string;
  /** Flags on the proxy's command line in addition to `--config`. */
  readonly words: readonly string[];
  /** The configuration's file, and the service's file if there is a supported service manager. */
  readonly files: readonly InstalledFile[];
  /** A unified diff of installed and wanted configuration and command line; empty if the flags change nothing. */
  readonly difference: string;
}

/**
 * Applies the flags to the installed configuration and command line, or to the template for a new installation. Installed flags
 * that are not given stay.
 * @param flags the given flags, with absolute paths
 * @param template the text of the file given with `--config`; undefined without one, or if that is the installed one
 * @param initial the configuration of a new installation, to which flags are applied
 */
export function wantedInstallation(
  root: string,
  manager: ServiceManager | undefined,
  flags: GivenFlags,
  template: string | undefined,
  initial: string,
): Wanted {
  const installed = textOf(root + CONFIGURATION);
  // As with `run`, most flags are ignored together with a file.
  const applied = template === undefined ? flags : besideFile(flags);
  const configuration = withFlags(template ?? installed ?? initial, applied);
  const before = installedWords(root);
  const words = merged(before ?? [], flagsBesideFile(flags));
  const changesWords = manager !== undefined && before !== undefined && before.join("\n") !== words.join("\n");
  const changesFile = installed !== undefined && installed !== configuration;
  const service = manager && serviceFile(manager, words, changesWords ? "backup" : "unedited");
  return {
    configuration,
    words,
    files: [
      ...(service === undefined ? [] : [service]),
      textFile(CONFIGURATION, configuration, changesFile ? "backup" : "never"),
    ],
    difference: (changesFile ? patch(root + CONFIGURATION, installed, configuration) : "") +
      (changesWords ? patch(`flags in ${root}${service!.path}`, lines(before), lines(words)) : ""),
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

/** The words with the given flags added, replacing existing values of the same flags. */
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

/**
 * Returns the text of a configuration file with the flags applied; comments stay. Fields that already have a flag's value do
 * not change.
 * @throws if the text is not YAML
 */
export function withFlags(text: string, given: GivenFlags): string {
  const flags = FLAGS.filter(({ name, setting }) => setting !== undefined && given.has(name));
  if (flags.length === 0) return text;
  const document = parseDocument(text);
  if (document.errors.length > 0) {
    throw new Error(`the configuration is not valid YAML: ${document.errors[0]!.message}`);
  }
  const mode = String(given.get("proxy-mode") ?? document.get("mode") ?? "");
  let isChanged = false;
  for (const { name, setting } of flags) {
    const path = setting!(mode);
    const isDuration = fieldAt(FIELDS, path).field.kind === "duration";
    const value = isDuration ? formatDuration(Number(given.get(name))) : given.get(name);
    const keys = path.split(".");
    const held = document.getIn(keys);
    const plain = typeof held === "object" && held !== null && "toJSON" in held ? (held as YAMLMap).toJSON() : held;
    if (sameData(plain, value)) continue;
    document.setIn(keys, value);
    isChanged = true;
  }
  return isChanged ? document.toString({ lineWidth: 0, flowCollectionPadding: false }) : text;
}

/** Returns the given flags that have no configuration field, except those for one run, as command-line words. */
export function flagsBesideFile(given: GivenFlags): readonly string[] {
  return FLAGS.filter(({ name, setting }) => setting === undefined && given.has(name) && !ONE_RUN_FLAGS.includes(name))
    .map(({ name }) => `--${name}=${given.get(name)}`);
}
