/** `sluice serve`, and its flags, which `sluice check --serve` checks. */
import type { Command, Invocation } from "./command.ts";
import { type Flag, flagValue, option, parseBindAddress, text, type TextsField } from "../../config/mod.ts";
import { readWireAddress } from "../../kpng/address/mod.ts";
import type { ServerOptions } from "../../serve/run.ts";
import type { DetailFilters, KeyFilter } from "../../core/objects/mod.ts";

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

const MOST_WORKERS = 64;

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

/** KPNG's default for the labels of nodes. */
const NODE_LABELS = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
/** The characters of the keys of labels and annotations, and the wildcards. */
const PATTERN = /^[A-Za-z0-9._/*?-]+$/;

const DETAILS: Readonly<Record<keyof DetailFilters, Flag<TextsField>>> = {
  serviceLabels: details("service-labels", "labels of services", []),
  serviceAnnotations: details("service-annotations", "annotations of services", []),
  nodeLabels: details("node-labels", "labels of nodes", NODE_LABELS),
  nodeAnnotations: details("node-annotations", "annotations of nodes", []),
};

/** The flags of the commands that pass on the cluster's state: the labels and annotations to include. */
export const DETAIL_FLAGS: readonly Flag[] = Object.values(DETAILS);

function details(name: string, what: string, initial: readonly string[]): Flag<TextsField> {
  const description =
    `The ${what} to include from the API server or manifests: keys, in which * stands for any text and ? ` +
    `for a character; ${initial.length === 0 ? "none" : initial.join(", ")} by default.`;
  return option(`with-${name}`, { kind: "texts", initial }, description);
}

/** Reads the flags. Throws an Error that names the invalid one. */
export function readDetailFilters({ flags }: Pick<Invocation, "flags">): DetailFilters {
  const filters = Object.entries(DETAILS).map(([detail, flag]) =>
    [detail, keyFilter(flag.name, flagValue(flags, flag) ?? flag.field.initial)] as const
  );
  return Object.fromEntries(filters) as Record<keyof DetailFilters, KeyFilter>;
}

function keyFilter(flag: string, patterns: readonly string[]): KeyFilter {
  const expressions = patterns.map((given) => {
    const pattern = given.trim();
    if (!PATTERN.test(pattern)) {
      throw new Error(`--${flag}: ${JSON.stringify(pattern)} must be a key, in which * and ? are wildcards`);
    }
    return new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", ".*").replaceAll("?", ".")}$`);
  });
  return (key) => expressions.some((expression) => expression.test(key));
}

/** `sluice serve`: the cluster's state over gRPC, for other instances and for KPNG programs. */
export const serveCommand: Command = {
  lasts: true,
  name: "serve",
  summary: "Serve the cluster's state over gRPC (KPNG's protocol) to nodes, relays and KPNG programs.",
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
