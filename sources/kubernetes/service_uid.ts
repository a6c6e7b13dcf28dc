import type { ApiClient } from "./http.ts";
import { listMetadata } from "./metadata_list.ts";

/**
 * Reads the UID of a Service; undefined if it does not exist. It lists, since a service proxy may not `get` Services.
 * Throws an ApiError, or the signal's reason.
 */
export async function readServiceUid(
  api: ApiClient,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  const selector = new URLSearchParams({ fieldSelector: `metadata.name=${name},metadata.namespace=${namespace}` });
  const { items } = await listMetadata(api, { resource: "services", path: `/api/v1/services?${selector}` }, signal);
  return items[0]?.metadata.uid;
}
