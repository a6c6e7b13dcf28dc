import type { Http2Server } from "node:http2";
import { errorText } from "../../platform/mod.ts";
import { type TlsFiles, type WireAddress, wireAddressText } from "../transport/mod.ts";
import type { Limits } from "./limits.ts";

/** Starts an HTTP/2 server. Throws an Error that names the problem and the fix. */
export async function listen(address: WireAddress, tls: TlsFiles | undefined, limits: Limits): Promise<Http2Server> {
  const { createServer, createSecureServer } = await import("node:http2");
  const options = {
    settings: {
      maxConcurrentStreams: limits.streamsPerConnection,
      maxHeaderListSize: limits.headerBytes,
      enablePush: false,
    },
    maxHeaderListPairs: limits.headers,
  };
  if (tls !== undefined && tls.crt === undefined) {
    throw new Error(
      "--listen-tls-ca needs --listen-tls-crt and --listen-tls-key: a server that requires certificates needs its own",
    );
  }
  const server = tls === undefined ? createServer(options) : createSecureServer({
    ...options,
    cert: tls.crt,
    key: tls.key,
    ...tls.ca !== undefined && { ca: tls.ca, requestCert: true, rejectUnauthorized: true },
  });
  if (address.kind === "unix") removeStaleSocket(address.path);
  await new Promise<void>((resolve, reject) => {
    const fail = (error: Error) => {
      reject(new Error(`--listen ${wireAddressText(address)}: cannot listen: ${errorText(error)}`));
    };
    server.once("error", fail);
    const done = () => {
      server.off("error", fail);
      resolve();
    };
    if (address.kind === "unix") server.listen({ path: address.path }, done);
    else server.listen({ host: address.host || undefined, port: address.port }, done);
  });
  // Access to the socket is access to the cluster's state, so only the owner gets it.
  if (address.kind === "unix") Deno.chmodSync(address.path, 0o600);
  return server;
}

/** Removes a socket left behind by an earlier server, but nothing else. */
function removeStaleSocket(path: string): void {
  try {
    if (Deno.lstatSync(path).isSocket) Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
