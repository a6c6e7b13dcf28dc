import { errorOfGarbage, type RequestSubject } from "./api_error.ts";
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

/** Reads a Node and returns it as plain data. Throws an ApiError, or the signal's reason. */
export async function readNode(api: ApiClient, name: string, signal: AbortSignal): Promise<unknown> {
  const subject = { verb: "get", resource: "nodes" };
  const text = await readText(api, { ...subject, path: `/api/v1/nodes/${encodeURIComponent(name)}` }, signal);
  return parseObject(text, { ...subject, server: api.server });
}

/** Parses the JSON of an object. Throws an ApiError. */
export function parseObject(text: string, subject: RequestSubject): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw errorOfGarbage(subject, "broken", text, error);
  }
}
