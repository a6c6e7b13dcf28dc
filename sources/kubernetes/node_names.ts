import { suggestion } from "../../config/mod.ts";
import { isObjectName } from "../../core/objects/mod.ts";
import type { ApiClient } from "./http.ts";

/** The names of a cluster's Nodes. */
export interface NodeNames {
  /** The first names, in the order of the API. */
  readonly names: readonly string[];
  /** The number of further Nodes. */
  readonly more: number;
}

/** Requests only the metadata if the server supports it: a Node has about 10 kB. */
const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const READ_LIMIT = 500;
const LISTED_LIMIT = 10;
const READ_DEADLINE_MS = 10_000;

/** Reads the names of up to 500 Nodes. Throws an ApiError, or the signal's reason. */
export async function listNodeNames(api: ApiClient, signal: AbortSignal): Promise<NodeNames> {
  const decoder = new TextDecoder();
  let text = "";
  const path = `/api/v1/nodes?limit=${READ_LIMIT}`;
  await api.send(
    { verb: "list", resource: "nodes", path, accept: METADATA, readDeadlineMs: READ_DEADLINE_MS },
    (chunk) => {
      text += decoder.decode(chunk, { stream: true });
    },
    signal,
  );
  const list: unknown = JSON.parse(text);
  const { items = [], metadata } = list as {
    readonly items?: readonly { readonly metadata: { readonly name: string } }[];
    readonly metadata?: { readonly remainingItemCount?: number };
  };
  return {
    names: items.map((item) => item.metadata.name).filter(isObjectName),
    more: metadata?.remainingItemCount ?? 0,
  };
}

/** The end of a sentence about a missing Node: the existing ones and the most similar name. */
export function otherNodesText(nodeName: string, { names, more }: NodeNames): string {
  if (names.length === 0) return "the cluster has no Nodes";
  const listed = names.slice(0, LISTED_LIMIT);
  const others = names.length - listed.length + more;
  const rest = others > 0 ? ` and ${others} more` : "";
  return `the cluster has ${listed.join(", ")}${rest}${suggestion(nodeName, names)}`;
}
