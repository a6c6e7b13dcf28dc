import * as shape from "../../platform/shapes/mod.ts";
import { isAbsent, type RawObject } from "./raw.ts";

/** The annotations of Services that are Sluice's own. One that is listed here is read, kept and passed on. */
export const OWN_ANNOTATIONS = {
  balance: "sluice.dev/balance",
  affinityHash: "sluice.dev/affinity-hash",
  weights: "sluice.dev/weights",
  nodePortAddresses: "sluice.dev/node-port-addresses",
} as const;

/** The name of one of these annotations. */
export type OwnAnnotation = keyof typeof OWN_ANNOTATIONS;

const NAMES = Object.keys(OWN_ANNOTATIONS) as OwnAnnotation[];

/** The annotations of a Service, unparsed; the planner reads them. */
export type OwnTexts = Readonly<Partial<Record<OwnAnnotation, string>>>;

/** See `OwnTexts`. */
export const OWN_TEXTS: shape.Shape<OwnTexts> = shape.record(
  Object.fromEntries(NAMES.map((name) => [name, shape.optional(shape.TEXT)])),
);

/** The maximum length of an annotation that Sluice reads, in characters. */
export const LONGEST_ANNOTATION = 4_096;

const TOO_LONG = " ".repeat(LONGEST_ANNOTATION + 1);

/** Reads Sluice's own annotations; undefined without any. One that is too long becomes as many spaces: its length is reported. */
export function readOwnAnnotations(annotations: RawObject): OwnTexts | undefined {
  let found: Partial<Record<OwnAnnotation, string>> | undefined;
  for (const name of NAMES) {
    const value = annotations[OWN_ANNOTATIONS[name]];
    if (isAbsent(value)) continue;
    // The API only accepts strings; a manifest may have a number.
    const text = typeof value === "string" ? value : JSON.stringify(value);
    (found ??= {})[name] = text.length > LONGEST_ANNOTATION ? TOO_LONG : text;
  }
  return found;
}

/** The annotations by key. */
export function ownAnnotations(
  own: OwnTexts,
  names: readonly OwnAnnotation[] = NAMES,
): Readonly<Record<string, string>> {
  return Object.fromEntries(names.flatMap((name) => {
    const text = own[name];
    return text === undefined ? [] : [[OWN_ANNOTATIONS[name], text]];
  }));
}
