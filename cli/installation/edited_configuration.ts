import { parseDocument } from "yaml";
import { fieldAt, FIELDS, FLAGS, formatDuration, type GivenFlags } from "../../config/mod.ts";

/** Returns the text of a configuration file with the flags applied; comments stay. */
export function withFlags(text: string, given: GivenFlags): string {
  const flags = FLAGS.filter(({ name, setting }) => setting !== undefined && given.has(name));
  if (flags.length === 0) return text;
  const document = parseDocument(text);
  const mode = given.get("proxy-mode") as string | undefined ?? "";
  for (const { name, setting } of flags) {
    const path = setting!(mode);
    const value = given.get(name);
    const isDuration = fieldAt(FIELDS, path).field.kind === "duration";
    document.setIn(path.split("."), isDuration ? formatDuration(value as number) : value);
  }
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** Returns the given flags that have no configuration field, except those in `without`, as command-line words. */
export function flagsBesideFile(given: GivenFlags, without: readonly string[]): readonly string[] {
  return FLAGS.filter(({ name, setting }) => setting === undefined && given.has(name) && !without.includes(name))
    .map(({ name }) => `--${name}=${given.get(name)}`);
}
