import { parseDocument } from "yaml";
import { fieldAt, FIELDS, FLAGS, formatDuration, type GivenFlags } from "../../config/mod.ts";
import { sameData } from "../../platform/mod.ts";

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
    const value = isDuration ? formatDuration(given.get(name) as number) : given.get(name);
    const keys = path.split(".");
    const held = document.getIn(keys);
    const plain = typeof held === "object" && held !== null && "toJSON" in held ? (held as YamlNode).toJSON() : held;
    if (sameData(plain, value)) continue;
    document.setIn(keys, value);
    isChanged = true;
  }
  return isChanged ? document.toString({ lineWidth: 0, flowCollectionPadding: false }) : text;
}

interface YamlNode {
  toJSON(): unknown;
}

/** Returns the given flags that have no configuration field, except those in `without`, as command-line words. */
export function flagsBesideFile(given: GivenFlags, without: readonly string[]): readonly string[] {
  return FLAGS.filter(({ name, setting }) => setting === undefined && given.has(name) && !without.includes(name))
    .map(({ name }) => `--${name}=${given.get(name)}`);
}
