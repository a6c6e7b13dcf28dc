import type { ApiClient } from "./http.ts";
import { readText } from "./read_object.ts";

/** The metadata of listed objects. */
export interface MetadataList {
  readonly items: readonly { readonly metadata: { readonly name: string; readonly uid?: string } }[];
  /** The number of objects after the last one listed. */
  readonly remaining: number;
}

/** Requests only the metadata if the server supports it: a Node has about 10 kB. */
const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/** Lists the metadata of objects. Throws an ApiError, or the signal's reason. */
export async function listMetadata(
  api: ApiClient,
  { resource, path }: { readonly resource: string; readonly path: string },
  signal: AbortSignal,
): Promise<MetadataList> {
  const text = await readText(api, { verb: "list", resource, path, accept: METADATA }, signal);
  const { items, metadata } = JSON.parse(text) as {
    // Kubernetes 1.36 answers null for an empty list of metadata, [] for one of whole objects.
    readonly items?: MetadataList["items"] | null;
    readonly metadata?: { readonly remainingItemCount?: number };
  };
  return { items: items ?? [], remaining: metadata?.remainingItemCount ?? 0 };
}
