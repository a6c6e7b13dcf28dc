import { canonicalAddress, isLoopback, joinHostPort, splitHostPort } from "../mod.ts";
import { type HttpAnswer, type HttpHandler, type HttpRequest, textAnswer } from "./http.ts";

/**
 * Answers only who asks from this host, under a name that can mean no other: `localhost`, a loopback address, or the
 * address that the server is bound to. A page of somewhere else whose name was made to lead here (DNS rebinding) sends
 * that name, and is refused; so is everybody on the network, and every request that is to change something.
 */
export function localOnly(bindAddress: string, handler: HttpHandler): HttpHandler {
  const { address: own, port } = splitHostPort(bindAddress);
  return (request) => refusal(request, own, port) ?? handler(request);
}

function refusal({ method, host, isFromThisHost }: HttpRequest, own: string, port: number): HttpAnswer | undefined {
  if (method !== "GET" && method !== "HEAD") return textAnswer(405, "this is only to be read: GET or HEAD\n");
  if (isFromThisHost && isLocalName(host, own)) return undefined;
  const isOwnAlone = canonicalAddress(own) === own && !isLoopback(own) && own !== "0.0.0.0" && own !== "::";
  const at = isOwnAlone ? joinHostPort(own, port) : `localhost:${port}`;
  const why = isFromThisHost
    ? `${JSON.stringify(host.slice(0, 100))} is no name of this host alone`
    : "you ask from elsewhere";
  return textAnswer(
    403,
    `The status page is shown on the node itself only, and ${why}.\n` +
      `Ask for http://${at}/ there, or from elsewhere for http://localhost:${port}/ through a tunnel:\n\n` +
      `  ssh -L ${port}:${at} NODE\n`,
  );
}

/** Whether a Host field, with or without a port, names this host and cannot name another. */
function isLocalName(host: string, own: string): boolean {
  const name = host.toLowerCase().replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
  if (name === "localhost") return true;
  const address = canonicalAddress(name);
  return address !== undefined && (isLoopback(address) || address === own);
}
