import { readWireAddress, type WireAddress, wireAddressText } from "../kpng/address/mod.ts";
import type { GivenFlags } from "./command_spec.ts";
import type { SourceChoice } from "./configuration.ts";

const FORMS = "kube, file:PATH, state:PATH, grpc://HOST:PORT[,HOST:PORT…] or unix://PATH";
const TLS = "api-client-tls";
const SCHEME = /^(grpc:\/\/|unix:)/;

/** Whether a source is a server, to which there is a link that can fail. */
export function isServer({ kind }: SourceChoice): boolean {
  return kind === "kube" || kind === "grpc";
}

/** Formats a source as on the command line. */
export function sourceText(source: SourceChoice): string {
  if (source.kind === "kube") return source.kind;
  if (source.kind !== "grpc") return `${source.kind}:${source.path}`;
  const text = (address: WireAddress, index: number) => {
    const isAfterHost = source.addresses[index - 1]?.kind === "tcp";
    return `${address.kind === "unix" || isAfterHost ? "" : "grpc://"}${wireAddressText(address)}`;
  };
  return source.addresses.map(text).join();
}

/** The flags for the folder of the cached state, and for the time after which it is served. */
export const STATE_DIRECTORY = "state-directory";
export const STATE_DELAY = "state-delay";
/** The flag of the container runtime's socket. */
export const RUNTIME_ENDPOINT = "container-runtime-endpoint";

/** Reads `--source` and the flags that apply only to some sources; there is no source if there are errors. */
export function readSource(
  given: GivenFlags,
): { readonly source: SourceChoice | undefined; readonly errors: readonly string[] } {
  const text = (given.get("source") as string | undefined) ?? "kube";
  const source = sourceOf(text, given);
  if (typeof source === "string") {
    return { source: undefined, errors: [`--source is ${JSON.stringify(text)}: ${source}`] };
  }
  if (source.kind === "grpc") return { source, errors: [] };
  const useless = ["local", `${TLS}-ca`, `${TLS}-crt`, `${TLS}-key`].filter((name) => given.get(name));
  const errors = useless.map((name) =>
    `--${name} needs a server as the source: --source grpc://HOST:PORT or unix://PATH`
  );
  return { source: errors.length === 0 ? source : undefined, errors };
}

/** The source, or the errors in it. */
function sourceOf(text: string, given: GivenFlags): SourceChoice | string {
  if (text === "kube") return { kind: "kube" };
  const [, kind, path] = /^(file|state):(.+)$/s.exec(text) ?? [];
  if (kind !== undefined && path !== undefined) return { kind: kind as "file" | "state", path };
  if (!SCHEME.test(text)) return `must be ${FORMS}`;
  const addresses = readServers(text);
  if (typeof addresses === "string") return addresses;
  const file = (name: string) => (given.get(`${TLS}-${name}`) as string | undefined) || undefined;
  return {
    kind: "grpc",
    addresses,
    scope: given.get("local") === true ? "local" : "global",
    tls: { ca: file("ca"), crt: file("crt"), key: file("key") },
  };
}

/**
 * Reads a list of servers, separated by commas: `grpc://a:12090,b:12090`. Only an entry after a HOST:PORT may omit its scheme,
 * so that the rest of a socket's path with a comma is not taken for a host. Returns an error message for an invalid list.
 */
function readServers(text: string): readonly WireAddress[] | string {
  const entries = text.split(",");
  const addresses: WireAddress[] = [];
  for (const entry of entries) {
    const quoted = JSON.stringify(entry);
    if (entry === "") return "a server in the list is empty (commas separate servers)";
    if (addresses.at(-1)?.kind === "unix" && !SCHEME.test(entry)) {
      return `${quoted} needs grpc:// or unix:// in front (commas separate servers)`;
    }
    const address = readWireAddress(entry);
    if (address === undefined) {
      return entries.length === 1 ? `must be ${FORMS}` : `${quoted} is not a server: must be HOST:PORT or unix://PATH`;
    }
    if (addresses.some((other) => wireAddressText(other) === wireAddressText(address))) {
      return `${wireAddressText(address)} is in the list twice`;
    }
    addresses.push(address);
  }
  return addresses;
}

/** The flag with the name of this proxy. */
export const SERVICE_PROXY_NAME = "service-proxy-name";
/** The flag with the longest message that is accepted from a server. */
export const MAX_MSG_SIZE = "max-msg-size";

/** The errors of the flags that apply to some sources only, apart from those that `readSource` reads. */
export function checkSourceFlags(given: GivenFlags, source: SourceChoice | undefined): readonly string[] {
  return [
    ...checkServiceProxyName(given, source),
    ...checkMaxMsgSize(given, source),
    ...checkRuntimeEndpoint(given, source),
  ];
}

/** The path of the container runtime's socket, from the kubelet's spelling or a plain path; undefined for anything else. */
export function runtimeSocketOf(given: GivenFlags): string | undefined {
  return /^(?:unix:\/\/)?(\/.*[^/])$/s.exec(given.get(RUNTIME_ENDPOINT) as string | undefined ?? "")?.[1];
}

function checkRuntimeEndpoint(given: GivenFlags, source: SourceChoice | undefined): readonly string[] {
  const text = given.get(RUNTIME_ENDPOINT) as string | undefined;
  if (!text) return [];
  if (runtimeSocketOf(given) === undefined) {
    const form = "must be a unix socket: unix:///run/containerd/containerd.sock or its path";
    return [`--${RUNTIME_ENDPOINT} is ${JSON.stringify(text)}: ${form}`];
  }
  if (source === undefined || source.kind === "kube") return [];
  return [`--${RUNTIME_ENDPOINT} needs the API server as the source: others do not name the pods of endpoints`];
}

/** Flags that are valid and have no effect. */
export function sourceFlagsWithoutEffect(given: GivenFlags): readonly string[] {
  if (runtimeSocketOf(given) === undefined || given.get(STATE_DIRECTORY)) return [];
  return [`--${RUNTIME_ENDPOINT} has no effect without --${STATE_DIRECTORY}`];
}

/** The name must be the value of a label, and only some sources have labels. */
function checkServiceProxyName(given: GivenFlags, source: SourceChoice | undefined): readonly string[] {
  const name = given.get(SERVICE_PROXY_NAME) as string | undefined;
  if (!name) return [];
  if (!/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(name)) {
    return [`--${SERVICE_PROXY_NAME} is ${JSON.stringify(name)}: must be the value of a label, at most 63 characters`];
  }
  if (source === undefined || source.kind === "kube" || source.kind === "file") return [];
  return [`--${SERVICE_PROXY_NAME} needs the API server or manifests as the source: give it to the server instead`];
}

function checkMaxMsgSize(given: GivenFlags, source: SourceChoice | undefined): readonly string[] {
  const bytes = given.get(MAX_MSG_SIZE) as number | undefined;
  if (bytes === undefined) return [];
  if (bytes < 1) return [`--${MAX_MSG_SIZE} is ${bytes}: must be at least 1 byte`];
  if (source === undefined || source.kind === "grpc") return [];
  return [`--${MAX_MSG_SIZE} needs a server as the source: --source grpc://HOST:PORT or unix://PATH`];
}
