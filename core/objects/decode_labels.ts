import type { LabelledObject } from "./cluster_object.ts";
import type { DecodeOptions } from "./decode_options.ts";
import { internString } from "./intern.ts";
import { type Decoded, readMetadata } from "./metadata.ts";
import type { RawObject } from "./raw.ts";

/** Decodes the labels of a Node that weights may refer to; nothing if it has none of them. */
export function decodeNodeLabels(raw: RawObject, { labelKeys }: DecodeOptions): Decoded {
  return decodeLabels("NodeLabels", raw, labelKeys?.nodes ?? []);
}

/** Decodes the labels of a Pod that weights may refer to; nothing if it has none of them. */
export function decodePodLabels(raw: RawObject, { labelKeys }: DecodeOptions): Decoded {
  return decodeLabels("PodLabels", raw, labelKeys?.pods ?? []);
}

function decodeLabels(kind: LabelledObject["kind"], raw: RawObject, keys: readonly string[]): Decoded {
  const { ref, labels: all, problem } = readMetadata(kind, raw);
  if (ref === undefined) return { ref, object: undefined, problems: [problem!] };
  const found: Record<string, string> = {};
  for (const key of keys) {
    const value = all[key];
    if (typeof value === "string") found[key] = internString(value);
  }
  if (Object.keys(found).length === 0) return { ref, object: undefined, problems: [] };
  const { namespace, name } = ref;
  const object: LabelledObject = kind === "NodeLabels"
    ? { kind, name, labels: found }
    : { kind, namespace, name, labels: found };
  return { ref, object, problems: [] };
}
