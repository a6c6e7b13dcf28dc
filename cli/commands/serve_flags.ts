/** The flags of `sluice serve`, which `sluice check --serve` checks. */
import { type Flag, option, parseBindAddress, text } from "../../config/mod.ts";
import type { TlsPaths, WireAddress } from "../../kpng/transport/mod.ts";
import type { Invocation } from "./command.ts";

const DEFAULT_LISTEN = "tcp://127.0.0.1:12090";
const DEFAULT_HOST = "127.0.0.1";
/** The default ports of the health server and the metrics server: the next ones after that of gRPC. */
const PORTS = { healthz: 12091, metrics: 12092 } as const;

/** The flags of the gRPC server. */
export const LISTEN_FLAGS: readonly Flag[] = [
  option(
    "listen",
    text(DEFAULT_LISTEN),
    `Listen address: tcp://HOST:PORT, tcp://:PORT for all addresses, or unix://PATH; ${DEFAULT_LISTEN} by default.`,
  ),
  option("listen-tls-ca", text(), "PEM file of the CA that must have signed client certificates."),
  option("listen-tls-crt", text(), "PEM file of the server certificate."),
  option("listen-tls-key", text(), "PEM file of the server key."),
];

/** The most workers that a server may have. */
const MOST_WORKERS = 64;

/** The number of workers that write to the watchers. */
export const WORKERS_FLAG: Flag = option(
  "serve-workers",
  text(),
  "The number of workers that write to the watchers, each on one core; by default one less than there are cores, at most 4. " +
    "0 writes from the main thread, as for a unix socket.",
);

/** The flags of the servers for the operator; they replace those of `run`. */
export const OPERATOR_FLAGS: readonly Flag[] = [
  bindFlag("healthz", "health", "/healthz, /readyz and /livez"),
  bindFlag("metrics", "metrics", "/metrics"),
];

function bindFlag(name: keyof typeof PORTS, server: string, paths: string): Flag {
  const address = `${DEFAULT_HOST}:${PORTS[name]}`;
  const description = `The IP:port of the ${server} server (${paths}); ${address} by default, empty to disable it.`;
  return option(`${name}-bind-address`, text(address), description);
}

/** Where a server listens, and with which certificates. */
export interface ServeAddresses {
  readonly listen: WireAddress;
  /** The paths of the PEM files. */
  readonly tls: TlsPaths;
  /** `address:port`; undefined for none. */
  readonly healthzBindAddress: string | undefined;
  readonly metricsBindAddress: string | undefined;
}

/** Reads the flags. Throws an Error that names the invalid one. */
export async function readServeAddresses({ flags }: Pick<Invocation, "flags">): Promise<ServeAddresses> {
  const { readWireAddress } = await import("../../kpng/transport/mod.ts");
  const given = (name: string) => flags.get(name) as string | undefined;
  const listen = given("listen") || DEFAULT_LISTEN;
  const address = readWireAddress(listen);
  if (address === undefined) {
    throw new Error(`--listen is ${JSON.stringify(listen)}: must be tcp://HOST:PORT or unix://PATH`);
  }
  const file = (name: string) => given(`listen-tls-${name}`) || undefined;
  const bindAddress = (name: keyof typeof PORTS) => {
    const flag = `${name}-bind-address`, text = given(flag) ?? DEFAULT_HOST;
    if (text === "") return undefined;
    const parsed = parseBindAddress(text, PORTS[name]);
    if ("joined" in parsed) return parsed.joined;
    throw new Error(`--${flag} is ${JSON.stringify(text)}: must be ${parsed.must}`);
  };
  return {
    listen: address,
    tls: { ca: file("ca"), crt: file("crt"), key: file("key") },
    healthzBindAddress: bindAddress("healthz"),
    metricsBindAddress: bindAddress("metrics"),
  };
}

/** Reads the number of workers; undefined for the default. Throws an Error if it is invalid. */
export function readWorkerCount({ flags }: Pick<Invocation, "flags">): number | undefined {
  const given = flags.get(WORKERS_FLAG.name) as string | undefined || undefined;
  if (given === undefined) return undefined;
  if (/^\d{1,2}$/.test(given) && Number(given) <= MOST_WORKERS) return Number(given);
  throw new Error(`--${WORKERS_FLAG.name} is ${JSON.stringify(given)}: must be a number from 0 to ${MOST_WORKERS}`);
}
