/** A Status object of the API. */
export function statusResponse(code: number, reason: string, message: string, headers?: HeadersInit): Response {
  return Response.json({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", code, reason, message }, {
    status: code,
    headers,
  });
}
