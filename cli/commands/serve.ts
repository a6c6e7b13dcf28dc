import { option, text } from "../../config/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { openClusterStore } from "./cluster_store.ts";

const DEFAULT_LISTEN = "tcp://127.0.0.1:12090";

/** `sluice serve`: the cluster's state over gRPC, for other instances and for KPNG programs. */
export const serveCommand: Command = {
  lasts: true,
  name: "serve",
  summary: "Serve the cluster's state over gRPC (KPNG's protocol) to nodes, relays and KPNG programs.",
  arguments: [],
  flags: [
    option(
      "listen",
      text(DEFAULT_LISTEN),
      `Listen address: tcp://HOST:PORT, tcp://:PORT for all addresses, or unix://PATH; ${DEFAULT_LISTEN} by default.`,
    ),
    option("listen-tls-ca", text(), "PEM file of the CA that must have signed client certificates."),
    option("listen-tls-crt", text(), "PEM file of the server certificate."),
    option("listen-tls-key", text(), "PEM file of the server key."),
  ],
  examples: [
    { line: "sluice serve --kubeconfig kubeconfig", does: "watch the API server once, serve on loopback" },
    {
      line: "sluice serve --source grpc://10.0.0.1:12090 --listen tcp://:12090 --listen-tls-ca ca.pem " +
        "--listen-tls-crt relay.pem --listen-tls-key relay.key",
      does: "a relay for the nodes of a rack, with client certificates",
    },
  ],
  async start(invocation) {
    const { logger, clock, signal } = invocation;
    const { startServing } = await import("../../kpng/server/mod.ts");
    const { readTlsFiles, readWireAddress } = await import("../../kpng/transport/mod.ts");
    const given = flagText(invocation, "listen") ?? DEFAULT_LISTEN;
    const address = readWireAddress(given);
    if (address === undefined) {
      throw new Error(`--listen is ${JSON.stringify(given)}: must be tcp://HOST:PORT or unix://PATH`);
    }
    const file = (name: string) => flagText(invocation, `listen-tls-${name}`);
    const tls = readTlsFiles({ ca: file("ca"), crt: file("crt"), key: file("key") }, "--listen-tls");
    const { store, ended } = await openClusterStore(invocation, signal);
    const serving = await startServing({ address, tls, store, clock, logger });
    try {
      await ended;
      return 0;
    } finally {
      await serving.close();
    }
  },
};

function flagText({ flags }: Invocation, name: string): string | undefined {
  return (flags.get(name) as string | undefined) || undefined;
}
