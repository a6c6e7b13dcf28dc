/**
 * A TLS proxy in front of an API server. It runs as a separate process that restarts at every change of certificates, so
 * that no TLS session is resumed:
 *
 *     tls_proxy.ts JSON        of TlsProxyOptions; prints a line once it listens
 */
import { connect, type Socket } from "node:net";
import { createServer } from "node:tls";
import { endChild } from "../children.ts";
import { statusResponse } from "../fakes/api_server.ts";
import type { CertificatePair } from "../fakes/certificates.ts";
import { reservePort } from "../fakes/sockets.ts";
import { waitFor } from "./wait.ts";

/** The server certificate and the trusted clients. */
export interface TlsIdentity {
  readonly server: CertificatePair;
  /** The certificate authority of clients (PEM). */
  readonly clientAuthority: string;
}

/** Clients without a trusted certificate get 401, as from kube-apiserver. */
export interface TlsProxy {
  readonly url: string;
  /** Restarts on the same port with other certificates; open connections break. */
  restart(identity: TlsIdentity): Promise<void>;
  close(): Promise<void>;
}

interface TlsProxyOptions extends TlsIdentity {
  readonly hostname: string;
  readonly port: number;
  /** The port of the API server. */
  readonly to: number;
}

const START_LIMIT_MS = 20_000;

/** Starts a TLS proxy on an address, in front of the server at `url`. */
export async function startTlsProxy(hostname: string, url: string, identity: TlsIdentity): Promise<TlsProxy> {
  const to = Number(new URL(url).port);
  const script = new URL(import.meta.url).pathname;
  const port = reservePort(hostname);
  let running: Deno.ChildProcess | undefined;
  const stop = async () => {
    if (running) await endChild(running);
  };
  const start = async (identity: TlsIdentity) => {
    const options: TlsProxyOptions = { ...identity, hostname, port, to };
    const flags = ["--quiet", "--cached-only", "--no-check", "--allow-net", "--allow-env=LAB_PATIENCE"];
    const args = ["run", ...flags, script, JSON.stringify(options)];
    const child = new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "piped" }).spawn();
    running = child;
    let isListening = false, hasEnded = false;
    child.stdout.pipeTo(new WritableStream({ write: () => void (isListening = true) })).catch(() => {});
    child.status.then(() => hasEnded = true);
    await waitFor("the TLS proxy listens", START_LIMIT_MS, () => isListening || hasEnded);
    if (hasEnded) throw new Error(`the TLS proxy ended with status ${(await child.status).code}`);
  };
  await start(identity);
  return {
    url: `https://${hostname}:${port}`,
    async restart(next) {
      await stop();
      await start(next);
    },
    close: stop,
  };
}

function serve({ server: { cert, key }, clientAuthority, hostname, port, to }: TlsProxyOptions): void {
  const refusing = Deno.serve(
    { hostname, port: 0, onListen: () => {} },
    () => statusResponse(401, "Unauthorized", "Unauthorized"),
  );
  const tls = { cert, key, ca: clientAuthority, requestCert: true, rejectUnauthorized: false };
  // Deno counts a resumed session as authorized whatever its first handshake found.
  const refused = new Set<string | undefined>();
  const server = createServer(tls, (near) => {
    near.on("error", () => {});
    // null if the client has closed the connection already.
    const certificate = near.getPeerCertificate() as { readonly fingerprint256?: string } | null;
    if (certificate === null) return near.destroy();
    const { fingerprint256 } = certificate;
    if (!near.authorized) refused.add(fingerprint256);
    const far = connect({ host: hostname, port: refused.has(fingerprint256) ? refusing.addr.port : to });
    far.on("error", () => {});
    const join = (one: Socket, other: Socket) => {
      one.on("close", () => other.destroy());
      one.pipe(other);
    };
    join(near, far);
    join(far, near);
  });
  // A client that does not trust the certificate aborts the handshake.
  server.on("tlsClientError", () => {});
  server.once("listening", () => console.log("listening"));
  server.listen({ port, host: hostname });
}

if (import.meta.main) serve(JSON.parse(Deno.args[0]!));
