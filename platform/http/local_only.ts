import { canonicalAddress, isLoopback, joinHostPort, splitHostPort } from "../mod.ts";
import { type HttpAnswer, type HttpHandler, type HttpRequest, textAnswer } from "./http.ts";

/**
 * Restricts a handler to read requests from this host whose Host header unambiguously names it: `localhost`, a loopback
 * address, or the server's bind address. That stops DNS rebinding (a foreign page whose name resolves to this host),
 * clients on the network and requests that could change something.
 */
export function localOnly(bindAddress: string, handler: HttpHandler): HttpHandler {
  const { address: own, port } = splitHostPort(bindAddress);
  return (request) => refusal(request, own, port) ?? handler(request);
}

function refusal({ method, host, isFromThisHost }: HttpRequest, own: string, port: number): HttpAnswer | undefined {
  if (method !== "GET" && method !== "HEAD") return textAnswer(405, "read-only: use GET or HEAD\n");
  if (isFromThisHost && isLocalName(host, own)) return undefined;
  const isSpecific = canonicalAddress(own) === own && !isLoopback(own) && own !== "0.0.0.0" && own !== "::";
  const at = isSpecific ? joinHostPort(own, port) : `localhost:${port}`;
  const why = isFromThisHost
    ? `the Host header is ${JSON.stringify(host.slice(0, 100))}`
    : "the request comes from another host";
  return textAnswer(
    403,
    `The status page is available on the node itself only, and ${why}.\n` +
      `Open http://${at}/ there, or http://localhost:${port}/ elsewhere through a tunnel:\n\n` +
      `  ssh -L ${port}:${at} NODE\n`,
  );
}

/** Whether a Host header, with or without a port, names this host and cannot name another. */
function isLocalName(host: string, own: string): boolean {
  const name = host.toLowerCase().replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
  if (name === "localhost") return true;
  const address = canonicalAddress(name);
  return address !== undefined && (isLoopback(address) || address === own);
}
