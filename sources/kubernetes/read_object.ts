import type { ApiClient, ApiRequest } from "./http.ts";

const READ_DEADLINE_MS = 10_000;

/** A request that reads one object or a short list. */
export type ReadRequest =
  & Pick<ApiRequest, "resource" | "path" | "accept" | "onHeaders">
  & Partial<Pick<ApiRequest, "verb">>;

/** Reads an object and returns its JSON. Throws an ApiError, or the signal's reason. */
export async function readText(api: ApiClient, request: ReadRequest, signal: AbortSignal): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  await api.send({ verb: "get", ...request, readDeadlineMs: READ_DEADLINE_MS }, (chunk) => {
    text += decoder.decode(chunk, { stream: true });
  }, signal);
  return text;
}
