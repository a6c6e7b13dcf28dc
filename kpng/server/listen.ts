import type { Http2Server } from "node:http2";
import type { AddressInfo, ListenOptions, Server } from "node:net";
import { errorText } from "../../platform/mod.ts";
import { type TlsFiles, type WireAddress, wireAddressText } from "../transport/mod.ts";
import type { Limits } from "./limits.ts";

/** An address that several isolates can listen on. */
export type TcpAddress = Extract<WireAddress, { readonly kind: "tcp" }>;

/** Starts an HTTP/2 server. Throws an Error that names the problem and the fix. */
export async function listen(
  address: WireAddress,
  tls: TlsFiles | undefined,
  limits: Limits,
  reusePort: boolean,
): Promise<Http2Server> {
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
  await listening(
    server,
    address,
    address.kind === "unix"
      ? { path: address.path }
      : { host: address.host || undefined, port: address.port, reusePort },
  );
  // Access to the socket is access to the cluster's state, so only the owner gets it.
  if (address.kind === "unix") Deno.chmodSync(address.path, 0o600);
  return server;
}

function listening(server: Server, address: WireAddress, options: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      reject(new Error(`--listen ${wireAddressText(address)}: cannot listen: ${errorText(error)}`));
    };
    server.once("error", fail);
    server.listen(options, () => {
      server.off("error", fail);
      resolve();
    });
  });
}

/**
 * Returns the address with a port that is free now. Throws an Error if another program listens on it: workers that share a port
 * would share it with another server of the same user, too.
 */
export async function freeAddress(address: TcpAddress): Promise<TcpAddress> {
  const { createServer } = await import("node:net");
  const server = createServer();
  await listening(server, address, { host: address.host || undefined, port: address.port });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return { ...address, port };
}

/** Removes a socket left behind by an earlier server, but nothing else. */
function removeStaleSocket(path: string): void {
  try {
    if (Deno.lstatSync(path).isSocket) Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
