/**
 * TLS before an API server, as a program of its own that is started anew with every change, so that no session is resumed:
 *
 *     tls_front.ts JSON        of FrontOrders; says the port when it listens
 */
import { connect } from "node:net";
import { createServer } from "node:tls";
import type { CertificatePair } from "../fakes/certificates.ts";
import { statusResponse } from "../fakes/api_server.ts";

/** What it shows, and whom it trusts. */
export interface TlsIdentity {
  readonly server: CertificatePair;
  /** The authority of clients (PEM). */
  readonly clientAuthority: string;
}

/** As with kube-apiserver, who shows no certificate that it trusts is answered with 401. */
export interface TlsFront {
  readonly url: string;
  /** Starts anew on the same port with another certificate, or trust in other clients; what was connected breaks. */
  restart(identity: TlsIdentity): Promise<void>;
  close(): Promise<void>;
}

interface FrontOrders extends TlsIdentity {
  readonly hostname: string;
  readonly port: number;
  /** The port of the API server. */
  readonly to: number;
}

/** Starts it on an address, before the server at `url`. */
export async function startTlsFront(hostname: string, url: string, identity: TlsIdentity): Promise<TlsFront> {
  const to = Number(new URL(url).port);
  const script = new URL(import.meta.url).pathname;
  const start = async (identity: TlsIdentity, port: number) => {
    const orders: FrontOrders = { ...identity, hostname, port, to };
    const args = ["run", "--quiet", "--cached-only", "--no-check", "--allow-net", script, JSON.stringify(orders)];
    const child = new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "piped" }).spawn();
    const { value } = await child.stdout.pipeThrough(new TextDecoderStream()).getReader().read();
    if (value === undefined) throw new Error("the TLS front does not start");
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

function serve({ server: { cert, key }, clientAuthority, hostname, port, to }: FrontOrders): void {
  const refusing = Deno.serve(
    { hostname, port: 0, onListen: () => {} },
    () => statusResponse(401, "Unauthorized", "Unauthorized"),
  );
  const tls = { cert, key, ca: clientAuthority, requestCert: true, rejectUnauthorized: false };
  const server = createServer(tls, (near) => {
    const far = connect({ host: hostname, port: near.authorized ? to : refusing.addr.port });
    for (const [one, other] of [[near, far], [far, near]] as const) {
      one.on("error", () => {});
      one.on("close", () => other.destroy());
      one.pipe(other);
    }
  });
  // A client that does not trust the certificate breaks off.
  server.on("tlsClientError", () => {});
  server.once("listening", () => console.log((server.address() as { readonly port: number }).port));
  server.listen({ port, host: hostname });
}

if (import.meta.main) serve(JSON.parse(Deno.args[0]!));
