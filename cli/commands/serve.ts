import { option, text } from "../../config/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { feedStore } from "./feeding.ts";

const DEFAULT_LISTEN = "tcp://127.0.0.1:12090";

/** The state of the cluster, over gRPC, for other Sluices and for KPNG's programs. */
export const serveCommand: Command = {
  lasts: true,
  name: "serve",
  summary: "Serve the cluster's state over gRPC, as KPNG does: to nodes, to relays, to KPNG programs.",
  arguments: [],
  flags: [
    option(
      "listen",
      text(DEFAULT_LISTEN),
      `Where: tcp://HOST:PORT or unix://PATH; ${DEFAULT_LISTEN} by default, tcp://:PORT for every address.`,
    ),
    option("listen-tls-ca", text(), "The PEM file of the authority that clients' certificates must be signed by."),
    option("listen-tls-crt", text(), "The PEM file of the server's certificate."),
    option("listen-tls-key", text(), "The PEM file of its key."),
  ],
  examples: [
    { line: "sluice serve --kubeconfig kubeconfig", does: "one watcher at the API server, on loopback" },
    {
      line: "sluice serve --source grpc://10.0.0.1:12090 --listen tcp://:12090 --listen-tls-ca ca.pem " +
        "--listen-tls-crt relay.pem --listen-tls-key relay.key",
      does: "a relay for the nodes of a rack, which must have certificates",
    },
  ],
  async start(invocation) {
    const { logger, clock, signal } = invocation;
    const { startServing } = await import("../../kpng/server/mod.ts");
    const { readTlsFiles } = await import("../../kpng/transport/mod.ts");
    const { readWireAddress } = await import("../../kpng/transport/mod.ts");
    const given = flagText(invocation, "listen") ?? DEFAULT_LISTEN;
    const address = readWireAddress(given);
    if (address === undefined) {
      throw new Error(`--listen is ${JSON.stringify(given)}: must be tcp://HOST:PORT or unix://PATH`);
    }
    const file = (name: string) => flagText(invocation, `listen-tls-${name}`);
    const tls = readTlsFiles({ ca: file("ca"), crt: file("crt"), key: file("key") }, "--listen-tls");
    const { store, ended } = await feedStore(invocation, signal);
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
