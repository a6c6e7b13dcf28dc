import { internString } from "./intern.ts";
import { isNamespaced, type Kind, type ObjectRef } from "./cluster_object.ts";
import { isLabel, isObjectName, NAME_RULE } from "./names.ts";
import { isAbsent, quote, type RawObject, rawObject } from "./raw.ts";

/** Who an object says it is. */
export interface Identity {
  /** Undefined where its name or namespace cannot be used. */
  readonly ref: ObjectRef | undefined;
  readonly labels: RawObject;
  readonly annotations: RawObject;
  readonly metadata: RawObject;
  /** Why there is no `ref`. */
  readonly problem: string | undefined;
}

/** Reads the metadata of an object. */
export function readIdentity(kind: Kind, raw: RawObject): Identity {
  const metadata = rawObject(raw.metadata);
  const labels = rawObject(metadata.labels);
  const annotations = rawObject(metadata.annotations);
  const refused = (problem: string): Identity => ({ ref: undefined, labels, annotations, metadata, problem });

  const { name, namespace } = metadata;
  const nameFits = kind === "Service" ? isLabel(name) : isObjectName(name);
  if (!nameFits) return refused(misnamed(kind, "name", name));
  if (!isNamespaced(kind)) {
    return { ref: { kind, namespace: "", name: name as string }, labels, annotations, metadata, problem: undefined };
  }
  if (!isLabel(namespace)) return refused(misnamed(`${kind} ${name}`, "namespace", namespace));
  const ref = { kind, namespace: internString(namespace), name: name as string };
  return { ref, labels, annotations, metadata, problem: undefined };
}

function misnamed(who: string, field: string, value: unknown): string {
  return isAbsent(value) || value === ""
    ? `a ${who} has no ${field}; it is left out`
    : `a ${who} has the ${field} ${quote(value)}, which may only hold ${NAME_RULE}; it is left out`;
}
