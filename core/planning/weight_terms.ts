import { MAX_WEIGHT } from "../model/mod.ts";
import { quote, type SliceEndpoint } from "../objects/mod.ts";

/** A term of the annotation of weights: `zone=a: 3`. */
export interface WeightTerm {
  /** The property of an endpoint that it looks at; `any` is every endpoint (`*`). */
  readonly by: "zone" | "node" | "any";
  /** The value that the property must have; empty for `any`. */
  readonly value: string;
  readonly weight: number;
}

/** The terms of an annotation, or the reason why it cannot be used. */
export type WeightTerms =
  | { readonly terms: readonly WeightTerm[]; readonly problem?: undefined }
  | { readonly terms?: undefined; readonly problem: string };

/** The weight of an endpoint that no term matches. */
const UNMATCHED = 1;

const TERM = /^(?:(zone|node)\s*=\s*([A-Za-z0-9][A-Za-z0-9._-]{0,252})|\*)\s*:\s*(\d{1,9})$/;

/** Reads the value of the annotation of weights: terms, separated by commas or line breaks. */
export function readWeightTerms(text: string): WeightTerms {
  const terms: WeightTerm[] = [];
  for (const part of text.split(/[,\n]/)) {
    const trimmed = part.trim();
    if (trimmed === "") continue;
    const match = TERM.exec(trimmed);
    if (match === null) {
      return { problem: `${quote(trimmed)} is not zone=NAME: WEIGHT, node=NAME: WEIGHT or *: WEIGHT` };
    }
    const [, by = "any", value = "", digits] = match;
    const weight = Number(digits);
    if (weight > MAX_WEIGHT) return { problem: `${quote(trimmed)} has a weight above ${MAX_WEIGHT}` };
    terms.push({ by: by as WeightTerm["by"], value, weight });
  }
  return terms.length === 0 ? { problem: "it has no term" } : { terms };
}

/** The weight of an endpoint: that of the first term that matches it. */
export function weightOf(endpoint: SliceEndpoint, terms: readonly WeightTerm[]): number {
  return terms.find((term) => matches(endpoint, term))?.weight ?? UNMATCHED;
}

function matches(endpoint: SliceEndpoint, { by, value }: WeightTerm): boolean {
  switch (by) {
    case "zone":
      return endpoint.zone === value;
    case "node":
      return endpoint.nodeName === value;
    case "any":
      return true;
  }
}
