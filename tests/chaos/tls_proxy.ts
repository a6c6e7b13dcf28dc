/**
 * A TLS proxy in front of an API server. It runs as a separate process that restarts at every change of certificates, so
 * that no TLS session is resumed:
 *
 *     tls_proxy.ts JSON        of TlsProxyOptions; prints its port once it listens
 */
import { connect } from "node:net";
import { createServer } from "node:tls";
import type { CertificatePair } from "../fakes/certificates.ts";
import { statusResponse } from "../fakes/api_server.ts";

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

/** Starts a TLS proxy on an address, in front of the server at `url`. */
export async function startTlsProxy(hostname: string, url: string, identity: TlsIdentity): Promise<TlsProxy> {
  const to = Number(new URL(url).port);
  const script = new URL(import.meta.url).pathname;
  const start = async (identity: TlsIdentity, port: number) => {
    const options: TlsProxyOptions = { ...identity, hostname, port, to };
    const args = ["run", "--quiet", "--cached-only", "--no-check", "--allow-net", script, JSON.stringify(options)];
    const child = new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "piped" }).spawn();
    const { value } = await child.stdout.pipeThrough(new TextDecoderStream()).getReader().read();
    if (value === undefined) throw new Error("the TLS proxy did not start");
    return { child, port: Number(value) };
  };
  const stop = async ({ child }: { readonly child: Deno.ChildProcess }) => {
    child.kill("SIGKILL");
    await child.status;
  };
  let running = await start(identity, 0);
  const { port } = running;
  return {
    url: `https://${hostname}:${port}`,
    async restart(next) {
      await stop(running);
      running = await start(next, port);
    },
    close: () => stop(running),
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
    const { fingerprint256 } = near.getPeerCertificate();
    if (!near.authorized) refused.add(fingerprint256);
    const far = connect({ host: hostname, port: refused.has(fingerprint256) ? refusing.addr.port : to });
    for (const [one, other] of [[near, far], [far, near]] as const) {
      one.on("error", () => {});
      one.on("close", () => other.destroy());
      one.pipe(other);
    }
  });
  // A client that does not trust the certificate aborts the handshake.
  server.on("tlsClientError", () => {});
  server.once("listening", () => console.log((server.address() as { readonly port: number }).port));
  server.listen({ port, host: hostname });
}

if (import.meta.main) serve(JSON.parse(Deno.args[0]!));
