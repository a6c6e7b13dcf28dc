import { suggestion } from "../../config/mod.ts";
import { isObjectName } from "../../core/objects/mod.ts";
import type { ApiClient } from "./http.ts";

/** The names of a cluster's Nodes. */
export interface NodeNames {
  /** The first of them, in the order of the API. */
  readonly names: readonly string[];
  /** How many more there are. */
  readonly more: number;
}

/** The metadata alone, where the server can give it: a Node has some 10 kB. */
const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const MOST_READ = 500;
const MOST_TOLD = 10;
const READ_DEADLINE_MS = 10_000;

/** Reads the names of up to 500 Nodes. Throws an ApiError, or the signal's reason. */
export async function listNodeNames(api: ApiClient, signal: AbortSignal): Promise<NodeNames> {
  const decoder = new TextDecoder();
  let text = "";
  const path = `/api/v1/nodes?limit=${MOST_READ}`;
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

/** The end of a sentence about a Node that is not there: which ones are, and which was perhaps meant. */
export function otherNodesText(nodeName: string, { names, more }: NodeNames): string {
  if (names.length === 0) return "the cluster has no Node at all";
  const told = names.slice(0, MOST_TOLD);
  const untold = names.length - told.length + more;
  const rest = untold > 0 ? ` and ${untold} more` : "";
  return `the cluster has ${told.join(", ")}${rest}${suggestion(nodeName, names)}`;
}
