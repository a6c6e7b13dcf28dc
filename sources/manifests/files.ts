import { dirname, ifMissing, nearest, pathIn } from "../../platform/mod.ts";
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
  refText,
  SERVICE_NAME,
} from "../../core/objects/mod.ts";
import type { Problem } from "../../core/problems/mod.ts";
import {
  DocumentError,
  type DocumentText,
  type DocumentValue,
  linesOfItems,
  parseDocument,
  splitDocuments,
} from "./document.ts";

/** A file that may hold manifests. */
export interface FoundFile {
  /** Its path, which starts with the source's path. */
  readonly path: string;
  /** False for what is in the place of a file in a folder, such as another folder or a pipe. */
  readonly isFile: boolean;
  /** Changes whenever the file is replaced, and nearly always when it is written. */
  readonly fingerprint: string;
}

const MANIFEST_NAME = /^[^.].*\.(ya?ml|json)$/;

/**
 * Finds the file at a path, or the `*.yaml`, `*.yml` and `*.json` files directly in a folder, except hidden ones (editors and
 * mounted ConfigMaps keep other versions there), sorted by name, and the folder to watch for changes. Follows links. Throws
 * Deno's error if the path cannot be accessed.
 */
export async function findFiles(path: string): Promise<{ files: readonly FoundFile[]; folder: string }> {
  const info = await Deno.stat(path);
  if (!info.isDirectory) {
    return { files: [{ path, isFile: true, fingerprint: fingerprintOf(info) }], folder: dirname(path) };
  }
  const names: string[] = [];
  for await (const entry of Deno.readDir(path)) if (MANIFEST_NAME.test(entry.name)) names.push(entry.name);
  const files: FoundFile[] = [];
  for (const name of names.sort()) {
    const file = pathIn(path, name);
    const fileInfo = await Deno.stat(file).catch(ifMissing);
    // A folder that disappears meanwhile does not look like one without files.
    if (fileInfo === undefined) await Deno.stat(path);
    else files.push({ path: file, isFile: fileInfo.isFile, fingerprint: fingerprintOf(fileInfo) });
  }
  return { files, folder: path };
}

function fingerprintOf(info: Deno.FileInfo): string {
  return `${info.dev}:${info.ino}:${info.size}:${info.mtime?.getTime()}:${info.ctime?.getTime()}`;
}

/** An object and its position in a file. */
export interface PlacedObject {
  readonly object: ClusterObject;
  /** `FILE:LINE`. */
  where(): Promise<string>;
}

/** The contents of a valid file: its documents. */
export type ManifestFile = readonly ReadDocument[];

interface ReadDocument extends DocumentText {
  readonly content: DocumentObjects;
}

/** The objects of the file `name`. */
export function* objectsOf(name: string, file: ManifestFile): Iterable<PlacedObject> {
  for (const { text, line, content } of file) {
    const lineOf = lineFinder(text);
    for (const found of content.objects) {
      const where = async () => `${name}:${line + await lineOf(found) - 1}`;
      yield { object: found.object, where };
    }
  }
}

/** The contents of a manifest file. */
interface FileReading {
  /** Undefined if a document is invalid: the file's last valid version then stays in effect. */
  readonly valid: ManifestFile | undefined;
  /** Every problem in the file; the subjects are `FILE:LINE`. */
  readonly problems: readonly Problem[];
  /** The kinds of new objects that Sluice does not use. */
  readonly ignored: readonly string[];
}

/**
 * Parses the file `name`, reusing unchanged documents of `before`. Awaits `yieldTurn` between documents, so that a large file
 * does not block other work.
 */
export async function readFile(
  name: string,
  text: string,
  before: ManifestFile | undefined,
  decode: Decode,
  yieldTurn: () => Promise<void>,
): Promise<FileReading> {
  const known = new Map(before?.map(({ text, content }) => [text, content]));
  const documents: ReadDocument[] = [];
  const problems: Problem[] = [];
  const errors: Problem[] = [];
  const ignored: string[] = [];

  for (const document of splitDocuments(text)) {
    const at = (line: number) => `${name}:${document.line + line - 1}`;
    let content = known.get(document.text);
    if (content === undefined) {
      try {
        content = await readObjects(document.text, decode);
      } catch (error) {
        if (!(error instanceof DocumentError)) throw error;
        const detail = `${error.message}; ${consequence(before)}`;
        errors.push({ code: "file-unreadable", subject: at(error.line), detail });
        continue;
      }
      ignored.push(...content.ignored);
      await yieldTurn();
    }
    known.set(document.text, content);
    documents.push({ ...document, content });
    for (const { line, message: detail } of content.problems) {
      problems.push({ code: "object-invalid", subject: at(line), detail });
    }
  }
  if (errors.length > 0) return { valid: undefined, problems: errors, ignored: [] };
  return { valid: documents, problems, ignored };
}

function consequence(before: ManifestFile | undefined): string {
  return before === undefined
    ? "the file is ignored until it is valid"
    : "the last valid version of the file stays in effect";
}

/** The position of a value in a document. A function that returns it would keep all that was parsed in memory. */
interface Place {
  /** The line of the value, or of the list that it is in, from 1 at the start of the document's text. */
  readonly line: number;
  /** Its index in that list, from 0. */
  readonly item?: number;
}

interface FoundObject extends Place {
  readonly object: ClusterObject;
}

/** Finds the lines of values in a document; parses the text again for the first item of a list. */
function lineFinder(text: string): (place: Place) => Promise<number> {
  let items: Promise<readonly number[]> | undefined;
  return async ({ line, item }) => item === undefined ? line : (await (items ??= linesOfItems(text)))[item] ?? 1;
}

interface DocumentObjects {
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
 * is `default`. Rejects with DocumentError if it is not a Kubernetes object.
 */
export async function readObjects(text: string, decode: Decode = decodeObject): Promise<DocumentObjects> {
  const found = {
    objects: [] as FoundObject[],
    problems: [] as { line: number; message: string }[],
    ignored: [] as string[],
  };

  const lineOf = lineFinder(text);
  const addProblem = async (message: string, place: Place) => {
    found.problems.push({ line: await lineOf(place), message });
  };
  const addObject = async (raw: RawObject, place: Place) => {
    const kind = kindOf(raw);
    if (kind === undefined) {
      const mistake = mistakeIn(raw);
      if (mistake === undefined) found.ignored.push(describe(raw));
      else await addProblem(mistake, place);
      return;
    }
    const { ref, object, problems } = decode(kind, isNamespaced(kind) ? inNamespace(raw) : raw);
    const subject = ref === undefined ? "" : `${refText(ref)}: `;
    for (const problem of problems) await addProblem(`${subject}${problem}`, place);
    if (object !== undefined) found.objects.push({ object, ...place });
    else if (
      kind === "EndpointSlice" && problems.length === 0 && !rawObject(rawObject(raw.metadata).labels)[SERVICE_NAME]
    ) {
      await addProblem(`${subject}without the label ${SERVICE_NAME} it belongs to no Service; ignored`, place);
    }
  };

  for (const { value, line } of await parseDocument(text)) {
    const raw = kubernetesObject(value, line);
    if (!isList(raw)) {
      await addObject(raw, { line });
      continue;
    }
    for (const [item, one] of raw.items.entries()) {
      if (isRawObject(one)) await addObject(listItem(raw, one), { line, item });
      else await addProblem(`item ${item + 1} is ${quote(one)}, not an object; ignored`, { line, item });
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

/** Kinds differ from misspelled ones in at most this part of their letters: `Pod` does not mean `Node`. */
const MISSPELLED = 1 / 3;

/** Why an object of another kind looks like a mistake; undefined if it does not. */
function mistakeIn(raw: RawObject): string | undefined {
  const { kind, apiVersion } = raw, versions = Object.values(API_VERSIONS);
  if (typeof kind !== "string") return undefined;
  const groupOf = (version: unknown) => String(version).replace(/(^|\/)v[^/]*$/, "");
  const isOfGroup = (known: string) => apiVersion === undefined || groupOf(apiVersion) === groupOf(known);
  if (kind === "Endpoints" && isOfGroup("v1")) {
    return "Endpoints are not read; write an EndpointSlice (discovery.k8s.io/v1) instead; ignored";
  }
  const exact = KINDS.find((known) => known === kind);
  if (exact !== undefined && isOfGroup(API_VERSIONS[exact])) {
    return `${kind} has apiVersion ${quote(apiVersion)}, not ${API_VERSIONS[exact]}; ignored`;
  }
  const meant = exact === undefined && versions.some(isOfGroup) ? nearest(kind, KINDS, MISSPELLED) : undefined;
  return meant && `kind ${quote(kind)} is not known; did you mean ${meant}? ignored`;
}

function describe(raw: RawObject): string {
  const version = typeof raw.apiVersion === "string" ? `${raw.apiVersion} ` : "";
  return version + (typeof raw.kind === "string" ? raw.kind : "?");
}

function inNamespace(raw: RawObject): RawObject {
  const metadata = rawObject(raw.metadata);
  const { namespace } = metadata;
  if (namespace !== undefined && namespace !== null && namespace !== "") return raw;
  return { ...raw, metadata: { ...metadata, namespace: "default" } };
}
