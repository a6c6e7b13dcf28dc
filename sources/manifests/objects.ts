import {
  type ClusterObject,
  type Decode,
  decodeObject,
  isNamespaced,
  isRawObject,
  type Kind,
  KINDS,
  quote,
  type RawObject,
  rawObject,
} from "../../core/objects/mod.ts";
import { DocumentError, type DocumentValue, lineOfItem, parseDocument } from "./document.ts";

/** An object in a document. */
export interface FoundObject {
  readonly object: ClusterObject;
  /** Its line, from 1 at the start of the document's text; parses the text again for objects of a list. */
  line(): number;
}

/** The contents of one document. */
export interface DocumentObjects {
  readonly objects: readonly FoundObject[];
  /** Its problems, with the line from 1 at the start of the document's text. */
  readonly problems: readonly { readonly line: number; readonly message: string }[];
  /** The kinds of objects that Sluice does not use. */
  readonly ignored: readonly string[];
}

const API_VERSIONS: Readonly<Record<typeof KINDS[number], string>> = {
  Service: "v1",
  EndpointSlice: "discovery.k8s.io/v1",
  Node: "v1",
  ServiceCIDR: "networking.k8s.io/v1",
};

/**
 * Reads a document: a Service, an EndpointSlice, a Node, a ServiceCIDR, or a list of them. As in kubectl, the default namespace
 * is `default`. Throws DocumentError if it is not a Kubernetes object.
 */
export function readObjects(text: string, decode: Decode = decodeObject): DocumentObjects {
  const found = {
    objects: [] as FoundObject[],
    problems: [] as { line: number; message: string }[],
    ignored: [] as string[],
  };

  const addObject = (raw: RawObject, line: () => number) => {
    const kind = kindOf(raw);
    if (kind === undefined) {
      found.ignored.push(describe(raw));
      return;
    }
    const { ref, object, problems } = decode(kind, isNamespaced(kind) ? inNamespace(raw) : raw);
    const subject = ref === undefined ? "" : `${kind} ${ref.namespace === "" ? "" : `${ref.namespace}/`}${ref.name}: `;
    for (const problem of problems) found.problems.push({ line: line(), message: `${subject}${problem}` });
    if (object !== undefined) found.objects.push({ object, line });
  };

  for (const { value, line } of parseDocument(text)) {
    const raw = kubernetesObject(value, line);
    if (isList(raw)) {
      raw.items.forEach((item, index) => {
        const itemLine = () => lineOfItem(text, index);
        if (isRawObject(item)) addObject(listItem(raw, item), itemLine);
        else {found.problems.push({
            line: itemLine(),
            message: `item ${index + 1} is ${quote(item)}, not an object; ignored`,
          });}
      });
    } else {
      addObject(raw, () => line);
    }
  }
  return found;
}

function kubernetesObject(value: DocumentValue["value"], line: number): RawObject {
  if (!isRawObject(value)) throw new DocumentError(`${quote(value)} is not a Kubernetes object`, line);
  if (typeof value.kind !== "string" || value.kind === "") {
    throw new DocumentError("not a Kubernetes object: it has no kind", line);
  }
  return value;
}

function isList(raw: RawObject): raw is RawObject & { readonly items: readonly unknown[] } {
  return typeof raw.kind === "string" && raw.kind.endsWith("List") && Array.isArray(raw.items);
}

/** Completes an item of a typed list (ServiceList), which the API sends without kind and version. */
function listItem(list: RawObject, item: RawObject): RawObject {
  if (item.kind !== undefined || list.kind === "List") return item;
  return { apiVersion: list.apiVersion, ...item, kind: String(list.kind).slice(0, -"List".length) };
}

/** The kind of an object that Sluice uses; undefined for others, such as Knative's Service. */
function kindOf(raw: RawObject): Kind | undefined {
  const kind = KINDS.find((kind) => kind === raw.kind);
  if (kind === undefined) return undefined;
  return raw.apiVersion === undefined || raw.apiVersion === API_VERSIONS[kind] ? kind : undefined;
}

function describe(raw: RawObject): string {
  return `${typeof raw.apiVersion === "string" ? `${raw.apiVersion} ` : ""}${
    typeof raw.kind === "string" ? raw.kind : "?"
  }`;
}

function inNamespace(raw: RawObject): RawObject {
  const metadata = rawObject(raw.metadata);
  const { namespace } = metadata;
  if (namespace !== undefined && namespace !== null && namespace !== "") return raw;
  return { ...raw, metadata: { ...metadata, namespace: "default" } };
}
