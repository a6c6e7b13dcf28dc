import type { Http2Server } from "node:http2";
import { errorText } from "../../platform/mod.ts";
import { type TlsFiles, type WireAddress, wireAddressText } from "../transport/mod.ts";
import type { Limits } from "./limits.ts";

/** Opens an HTTP/2 server. Throws an Error that says what is wrong and what to do about it. */
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
      "--listen-tls-ca needs --listen-tls-crt and --listen-tls-key: a server that asks for certificates has one",
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
      reject(new Error(`--listen ${wireAddressText(address)}: cannot listen there: ${errorText(error)}`));
    };
    server.once("error", fail);
    const done = () => {
      server.off("error", fail);
      resolve();
    };
    if (address.kind === "unix") server.listen({ path: address.path }, done);
    else server.listen({ host: address.host || undefined, port: address.port }, done);
  });
  // Who may open the socket may read the cluster's state: as with TLS, not everybody.
  if (address.kind === "unix") Deno.chmodSync(address.path, 0o600);
  return server;
}

/** A socket that an earlier server left behind would be in the way; anything else at that path is none of ours. */
function removeStaleSocket(path: string): void {
  try {
    if (Deno.lstatSync(path).isSocket) Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
