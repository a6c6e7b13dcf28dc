/** `sluice serve`, and its flags, which `sluice check --serve` checks. */
import type { Command, Invocation } from "./command.ts";
import { type Flag, flagValue, option, parseBindAddress, text } from "../../config/mod.ts";
import { DETAIL_FLAGS, readDetailFilters } from "./detail_flags.ts";
import { readWireAddress } from "../../kpng/address/mod.ts";
import type { ServerOptions } from "../../serve/run.ts";

const DEFAULT_LISTEN = "tcp://127.0.0.1:12090";
const DEFAULT_HOST = "127.0.0.1";
/** The default ports of the health server and the metrics server: the two ports after the gRPC port. */
const PORTS = { healthz: 12091, metrics: 12092 } as const;

const LISTEN = {
  address: option(
    "listen",
    text(DEFAULT_LISTEN),
    `Listen address: tcp://HOST:PORT, tcp://:PORT for all addresses, or unix://PATH; ${DEFAULT_LISTEN} by default.`,
  ),
  ca: option("listen-tls-ca", text(), "PEM file of the CA that must have signed client certificates."),
  crt: option("listen-tls-crt", text(), "PEM file of the server certificate."),
  key: option("listen-tls-key", text(), "PEM file of the server key."),
};

/** The flags of the gRPC server. */
export const LISTEN_FLAGS: readonly Flag[] = Object.values(LISTEN);

/** The maximum number of workers of a server. */
const MOST_WORKERS = 64;

/** The number of workers that write to the watchers. */
const WORKERS_FLAG = option(
  "serve-workers",
  text(),
  "The number of workers that write to the watchers, each on one core; by default one less than there are cores, at most 4. " +
    "0 writes from the main thread, as for a unix socket.",
);

/** The flags of the servers for the operator; they replace the flags of `run`. */
const BIND = {
  healthz: bindFlag("healthz", "health", "/healthz, /readyz and /livez"),
  metrics: bindFlag("metrics", "metrics", "/metrics"),
};

function bindFlag(name: keyof typeof PORTS, server: string, paths: string) {
  const address = `${DEFAULT_HOST}:${PORTS[name]}`;
  const description = `The IP:port of the ${server} server (${paths}); ${address} by default, empty to disable it.`;
  return option(`${name}-bind-address`, text(address), description);
}

/** Reads where a server listens, and the paths of its certificates. Throws an Error that names the invalid flag. */
export function readServeAddresses(
  { flags }: Pick<Invocation, "flags">,
): Pick<ServerOptions, "listen" | "tls" | "healthzBindAddress" | "metricsBindAddress"> {
  const listen = flagValue(flags, LISTEN.address) || DEFAULT_LISTEN;
  const address = readWireAddress(listen);
  if (address === undefined) {
    throw new Error(`--listen is ${JSON.stringify(listen)}: must be tcp://HOST:PORT or unix://PATH`);
  }
  const file = (name: "ca" | "crt" | "key") => flagValue(flags, LISTEN[name]) || undefined;
  const bindAddress = (name: keyof typeof PORTS) => {
    const text = flagValue(flags, BIND[name]) ?? DEFAULT_HOST;
    if (text === "") return undefined;
    const parsed = parseBindAddress(text, PORTS[name]);
    if ("joined" in parsed) return parsed.joined;
    throw new Error(`--${BIND[name].name} is ${JSON.stringify(text)}: must be ${parsed.must}`);
  };
  return {
    listen: address,
    tls: { ca: file("ca"), crt: file("crt"), key: file("key") },
    healthzBindAddress: bindAddress("healthz"),
    metricsBindAddress: bindAddress("metrics"),
  };
}

/** Reads the number of workers; undefined for the default. Throws an Error if it is invalid. */
function readWorkerCount({ flags }: Pick<Invocation, "flags">): number | undefined {
  const given = flagValue(flags, WORKERS_FLAG) || undefined;
  if (given === undefined) return undefined;
  if (/^\d{1,2}$/.test(given) && Number(given) <= MOST_WORKERS) return Number(given);
  throw new Error(`--${WORKERS_FLAG.name} is ${JSON.stringify(given)}: must be a number from 0 to ${MOST_WORKERS}`);
}

/** `sluice serve`: the cluster's state over gRPC, for other instances and for KPNG programs. */
export const serveCommand: Command = {
  lasts: true,
  name: "serve",
  summary: "Serve the cluster's state over gRPC (KPNG's protocol) to nodes, relays and KPNG programs.",
  arguments: [],
  flags: [...LISTEN_FLAGS, WORKERS_FLAG, ...Object.values(BIND), ...DETAIL_FLAGS],
  examples: {
    "sluice serve --kubeconfig kubeconfig": "watch the API server once, serve on loopback",
    [
      "sluice serve --source grpc://10.0.0.1:12090 --listen tcp://:12090 --listen-tls-ca ca.pem " +
      "--listen-tls-crt relay.pem --listen-tls-key relay.key"
    ]: "a relay for the nodes of a rack, with client certificates",
  },
  async start(invocation) {
    const addresses = readServeAddresses(invocation);
    const workers = readWorkerCount(invocation);
    const { runServer } = await import("../../serve/run.ts");
    await runServer({ ...invocation, ...addresses, workers, details: readDetailFilters(invocation) });
    return 0;
  },
};
