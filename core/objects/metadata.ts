import { type ClusterObject, isNamespaced, type Kind, type ObjectRef } from "./cluster_object.ts";
import { internString } from "./intern.ts";
import { isAbsent, quote, type RawObject, rawObject } from "./raw.ts";

/** The result of decoding an object of the API or of a manifest. */
export interface Decoded {
  /** Undefined if the object has no usable name or namespace. */
  readonly ref: ObjectRef | undefined;
  /** Undefined if the object is irrelevant (a slice of FQDNs) or cannot be used at all. */
  readonly object: ClusterObject | undefined;
  /** One sentence for each part that is ignored; the rest of the object is used. */
  readonly problems: readonly string[];
}

/** Decodes the JSON of an object to the fields that Sluice uses; never throws. */
export type Decode = (kind: Kind, raw: unknown) => Decoded;

// Names of services, namespaces and ports are written, quoted, into the input of kernel tools. The API allows DNS names
// only; a name with anything else (quotes, spaces, newlines) has not been through the API and is refused.
const LABEL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const SUBDOMAIN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/;

/** The characters that a name may contain, for a problem's sentence. */
export const NAME_RULE = "letters, digits, '.', '_' and '-', starting with a letter or digit";

/** Whether a value can be the name of a service, namespace or port: at most 63 characters. */
export function isLabel(value: unknown): value is string {
  return typeof value === "string" && LABEL.test(value);
}

/** Whether a value can be the name of a slice or node: at most 253 characters. */
export function isObjectName(value: unknown): value is string {
  return typeof value === "string" && SUBDOMAIN.test(value);
}

/** The metadata of an object. */
export interface Metadata {
  readonly ref: ObjectRef;
  readonly labels: RawObject;
  readonly annotations: RawObject;
  readonly metadata: RawObject;
}

/** Reads the metadata of an object, or returns the problem of a name or namespace that cannot be used. */
export function readMetadata(kind: Kind, raw: RawObject): Metadata | string {
  const metadata = rawObject(raw.metadata), { name, namespace } = metadata;
  const isService = kind === "Service";
  if (!(isService ? isLabel(name) : isObjectName(name))) return misnamed(kind, "name", name, isService ? 63 : 253);
  if (isNamespaced(kind) && !isLabel(namespace)) return misnamed(`${kind} ${name}`, "namespace", namespace, 63);
  return {
    ref: { kind, namespace: isNamespaced(kind) ? internString(namespace as string) : "", name: name as string },
    labels: rawObject(metadata.labels),
    annotations: rawObject(metadata.annotations),
    metadata,
  };
}

function misnamed(subject: string, field: string, value: unknown, longest: number): string {
  if (isAbsent(value) || value === "") return `${subject} has no ${field}; ignored`;
  const isLong = typeof value === "string" && value.length > longest;
  const rule = isLong ? `is longer than ${longest} characters` : `may only contain ${NAME_RULE}`;
  return `${subject}: ${field} ${quote(value)} ${rule}; ignored`;
}
