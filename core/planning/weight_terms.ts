import { MAX_WEIGHT } from "../model/mod.ts";
import { type LabelKeys, quote, type SliceEndpoint } from "../objects/mod.ts";
import type { EndpointLabels } from "../tracking/mod.ts";

/** A term of the annotation of weights: `zone=a: 3`. */
export interface WeightTerm {
  /** The property of an endpoint that it matches; `any` is every endpoint (`*`). */
  readonly by: "zone" | "node" | "node-label" | "pod-label" | "any";
  /** The key of the label; empty for the others. */
  readonly key: string;
  /** The value that the property must have; empty for `any`. */
  readonly value: string;
  readonly weight: number;
}

/** The terms of an annotation, or the reason why it cannot be used. */
type WeightTerms =
  | { readonly terms: readonly WeightTerm[]; readonly problem?: undefined }
  | { readonly terms?: undefined; readonly problem: string };

const UNMATCHED = 1;

const TERM =
  /^(?:(zone|node|node-label|pod-label)(?:\/([A-Za-z0-9][A-Za-z0-9./_-]{0,316}))?\s*=\s*([A-Za-z0-9._-]{0,253})|\*)\s*:\s*(\d{1,9})$/;
const FORMS = "zone=NAME, node=NAME, node-label/KEY=VALUE, pod-label/KEY=VALUE or *, followed by : WEIGHT";

/** Reads the value of the annotation of weights: terms, separated by commas or line breaks. */
export function readWeightTerms(text: string, watched: LabelKeys): WeightTerms {
  const terms: WeightTerm[] = [];
  for (const part of text.split(/[,\n]/)) {
    const trimmed = part.trim();
    if (trimmed === "") continue;
    const match = TERM.exec(trimmed);
    const [, by = "any", key = "", value = "", digits = ""] = match ?? [];
    const isLabel = by === "node-label" || by === "pod-label";
    if (match === null || isLabel !== (key !== "")) return { problem: `${quote(trimmed)} is not ${FORMS}` };
    const weight = Number(digits);
    if (weight > MAX_WEIGHT) return { problem: `${quote(trimmed)} has a weight above ${MAX_WEIGHT}` };
    if (isLabel && !(by === "node-label" ? watched.nodes : watched.pods).includes(key)) {
      if (watched.areUnavailable) {
        return { problem: `${quote(trimmed)}: only the API server has labels, not this node's source` };
      }
      const setting = by === "node-label" ? "balance.nodeLabels" : "balance.podLabels";
      return { problem: `${quote(trimmed)} needs the label in the setting ${setting}` };
    }
    terms.push({ by: by as WeightTerm["by"], key, value, weight });
  }
  return terms.length === 0 ? { problem: "it has no term" } : { terms };
}

/** Whether weights may depend on labels. */
export function usesLabels(weights: string): boolean {
  return weights.includes("-label/");
}

/** The weight of an endpoint of a service in this namespace, from the first matching term. */
export function weightOf(
  endpoint: SliceEndpoint,
  namespace: string,
  terms: readonly WeightTerm[],
  labels: EndpointLabels,
): number {
  const found = terms.find(({ by, key, value }) => {
    switch (by) {
      case "zone":
        return endpoint.zone === value;
      case "node":
        return endpoint.nodeName === value;
      case "node-label":
        return labels.ofNode(endpoint.nodeName)?.[key] === value;
      case "pod-label":
        return endpoint.podName !== undefined && labels.ofPod(namespace, endpoint.podName)?.[key] === value;
      case "any":
        return true;
    }
  });
  return found?.weight ?? UNMATCHED;
}
