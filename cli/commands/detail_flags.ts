/** The flags of the commands that pass on the cluster's state: the labels and annotations to include. */
import type { Invocation } from "./command.ts";
import { type Flag, flagValue, option, type TextsField } from "../../config/mod.ts";
import type { DetailFilters, KeyFilter } from "../../core/objects/mod.ts";

/** KPNG's default for the labels of nodes. */
const NODE_LABELS = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
/** The characters of the keys of labels and annotations, and the wildcards. */
const PATTERN = /^[A-Za-z0-9._/*?-]+$/;

/** The flag of each filter, with a list of patterns. */
const DETAILS: Readonly<Record<keyof DetailFilters, Flag<TextsField>>> = {
  serviceLabels: details("service-labels", "labels of services", []),
  serviceAnnotations: details("service-annotations", "annotations of services", []),
  nodeLabels: details("node-labels", "labels of nodes", NODE_LABELS),
  nodeAnnotations: details("node-annotations", "annotations of nodes", []),
};

/** The flags. */
export const DETAIL_FLAGS: readonly Flag[] = Object.values(DETAILS);

function details(name: string, what: string, initial: readonly string[]): Flag<TextsField> {
  const description =
    `The ${what} to include from the API server or manifests: keys, in which * stands for any text and ? ` +
    `for a character; ${initial.length === 0 ? "none" : initial.join(", ")} by default.`;
  return option(`with-${name}`, { kind: "texts", initial }, description);
}

/** Reads the flags. Throws an Error that names the invalid one. */
export function readDetailFilters({ flags }: Pick<Invocation, "flags">): DetailFilters {
  const filters = Object.entries(DETAILS).map(([detail, flag]) =>
    [detail, keyFilter(flag.name, flagValue(flags, flag) ?? flag.field.initial)] as const
  );
  return Object.fromEntries(filters) as Record<keyof DetailFilters, KeyFilter>;
}

function keyFilter(flag: string, patterns: readonly string[]): KeyFilter {
  const expressions = patterns.map((given) => {
    const pattern = given.trim();
    if (!PATTERN.test(pattern)) {
      throw new Error(`--${flag}: ${JSON.stringify(pattern)} must be a key, in which * and ? are wildcards`);
    }
    return new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*").replaceAll("?", ".")}$`);
  });
  return (key) => expressions.some((expression) => expression.test(key));
}
