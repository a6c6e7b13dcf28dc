import { suggestion } from "../../config/mod.ts";
import { isObjectName } from "../../core/objects/mod.ts";
import type { ApiClient } from "./http.ts";
import { listMetadata } from "./metadata_list.ts";

/** The names of a cluster's Nodes. */
export interface NodeNames {
  /** The first names, in the order of the API. */
  readonly names: readonly string[];
  /** The number of further Nodes. */
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
