import { suggestion } from "../../platform/mod.ts";
/** Requests for single objects and short lists, besides the watched ones. */
import { errorOfGarbage } from "./api_error.ts";
import type { ApiClient, ApiRequest } from "./http.ts";
import { createObjectLimit } from "./object_limit.ts";
import { type ApiWrite, isObjectName } from "../../core/objects/mod.ts";

const READ_DEADLINE_MS = 10_000;

/** A request for one object or a short list, to `get` unless it has another verb. */
type ReadRequest = Omit<ApiRequest, "verb" | "readDeadlineMs"> & Partial<Pick<ApiRequest, "verb">>;

/** Returns the answer to a request, as plain data. Throws an ApiError, or the signal's reason. */
export async function readObject(api: ApiClient, request: ReadRequest, signal: AbortSignal): Promise<unknown> {
  const decoder = new TextDecoder();
  const sent: ApiRequest = { verb: "get", ...request, readDeadlineMs: READ_DEADLINE_MS };
  const limit = createObjectLimit();
  let text = "";
  const onChunk = (chunk: Uint8Array) => {
    limit.add(chunk.length);
    text += decoder.decode(chunk, { stream: true });
  };
  try {
    await api.send(sent, onChunk, signal);
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw errorOfGarbage({ ...sent, server: api.server }, "broken", text, error);
  }
}

/** Reads a Node and returns it as plain data. Throws an ApiError, or the signal's reason. */
export async function readNode(api: ApiClient, name: string, signal: AbortSignal): Promise<unknown> {
  return await readObject(api, { resource: "nodes", path: `/api/v1/nodes/${encodeURIComponent(name)}` }, signal);
}

const PATCH_TYPES = {
  "": "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
} as const;

/** Creates or patches an object and returns the API server's version of it. Throws an ApiError, or the signal's reason. */
export async function sendObject(api: ApiClient, request: ApiWrite, signal: AbortSignal): Promise<unknown> {
  const { verb, resource, path, object, patch = "" } = request;
  const how = verb === "create"
    ? { method: "POST", contentType: "application/json" } as const
    : { method: "PATCH", contentType: PATCH_TYPES[patch] } as const;
  const body = { ...how, text: JSON.stringify(object) };
  return await readObject(api, { verb, resource, path, body }, signal);
}

/** The metadata of listed objects. */
interface MetadataList {
  readonly items: readonly { readonly metadata: { readonly name: string; readonly uid?: string } }[];
  /** The number of objects after the last one listed. */
  readonly remaining: number;
}

/** Requests only the metadata if the server supports it: a Node has about 10 kB. */
const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/** Lists the metadata of objects. Throws an ApiError, or the signal's reason. */
async function listMetadata(
  api: ApiClient,
  { resource, path }: { readonly resource: string; readonly path: string },
  signal: AbortSignal,
): Promise<MetadataList> {
  const list = await readObject(api, { verb: "list", resource, path, accept: METADATA }, signal);
  const { items, metadata } = list as {
    // Kubernetes 1.36 answers null for an empty list of metadata, [] for one of whole objects.
    readonly items?: MetadataList["items"] | null;
    readonly metadata?: { readonly remainingItemCount?: number };
  };
  return { items: items ?? [], remaining: metadata?.remainingItemCount ?? 0 };
}

/** The names of a cluster's Nodes. */
interface NodeNames {
  /** The first names, in the order of the API. */
  readonly names: readonly string[];
  readonly more: number;
}

const READ_LIMIT = 500;
const LISTED_LIMIT = 10;

/** Reads the names of up to 500 Nodes. Throws an ApiError, or the signal's reason. */
export async function listNodeNames(api: ApiClient, signal: AbortSignal): Promise<NodeNames> {
  const path = `/api/v1/nodes?limit=${READ_LIMIT}`;
  const { items, remaining } = await listMetadata(api, { resource: "nodes", path }, signal);
  return { names: items.map((item) => item.metadata.name).filter(isObjectName), more: remaining };
}

/** The end of a sentence about a missing Node: the existing ones and the most similar name. */
export function otherNodesText(nodeName: string, { names, more }: NodeNames): string {
  if (names.length === 0) return "the cluster has no Nodes";
  const listed = names.slice(0, LISTED_LIMIT);
  const others = names.length - listed.length + more;
  const rest = others > 0 ? ` and ${others} more` : "";
  return `the cluster has ${listed.join(", ")}${rest}${suggestion(nodeName, names)}`;
}

/** The UID of a Service, by a list since a proxy may not `get` Services; undefined if it does not exist. */
export async function readServiceUid(
  api: ApiClient,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  const selector = new URLSearchParams({ fieldSelector: `metadata.name=${name},metadata.namespace=${namespace}` });
  const { items } = await listMetadata(api, { resource: "services", path: `/api/v1/services?${selector}` }, signal);
  return items[0]?.metadata.uid;
}
