/** The flags of the commands that pass on the cluster's state: the labels and annotations to include. */
import type { Invocation } from "./command.ts";
import { type Flag, option } from "../../config/mod.ts";
import type { DetailFilters, KeyFilter } from "../../core/objects/mod.ts";

/** KPNG's default for the labels of nodes. */
const NODE_LABELS = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
/** The characters of the keys of labels and annotations, and the wildcards. */
const PATTERN = /^[A-Za-z0-9._/*?-]+$/;

/** The flags, each with a list of patterns. */
export const DETAIL_FLAGS: readonly Flag[] = [
  details("service-labels", "labels of services", []),
  details("service-annotations", "annotations of services", []),
  details("node-labels", "labels of nodes", NODE_LABELS),
  details("node-annotations", "annotations of nodes", []),
];

function details(name: string, what: string, initial: readonly string[]): Flag {
  const description =
    `The ${what} to include from the API server or manifests: keys, in which * stands for any text and ? ` +
    `for a character; ${initial.length === 0 ? "none" : initial.join(", ")} by default.`;
  return option(`with-${name}`, { kind: "texts", initial }, description);
}

/** Reads the flags. Throws an Error that names the invalid one. */
export function readDetailFilters({ flags }: Pick<Invocation, "flags">): DetailFilters {
  const filter = (name: string): KeyFilter => {
    const { field } = DETAIL_FLAGS.find((flag) => flag.name === name)!;
    return keyFilter(name, (flags.get(name) ?? field.initial) as readonly string[]);
  };
  return {
    serviceLabels: filter("with-service-labels"),
    serviceAnnotations: filter("with-service-annotations"),
    nodeLabels: filter("with-node-labels"),
    nodeAnnotations: filter("with-node-annotations"),
  };
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
