import { readWireAddress, type WireAddress, wireAddressText } from "../kpng/address/mod.ts";
import { flagValue, type GivenFlags } from "./command_spec.ts";
import type { SourceChoice } from "./configuration.ts";
import { RUN_FLAGS } from "./run_flags.ts";

const FORMS = "kube, file:PATH, state:PATH, grpc://HOST:PORT[,HOST:PORT…] or unix://PATH";
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

/** Reads `--source` and the flags that apply only to some sources; there is no source if there are errors. */
export function readSource(
  given: GivenFlags,
): { readonly source: SourceChoice | undefined; readonly errors: readonly string[] } {
  const text = flagValue(given, RUN_FLAGS.source) ?? "kube";
  const source = sourceOf(text, given);
  if (typeof source === "string") {
    return { source: undefined, errors: [`--source is ${JSON.stringify(text)}: ${source}`] };
  }
  if (source.kind === "grpc") return { source, errors: [] };
  const { local, tlsCa, tlsCrt, tlsKey } = RUN_FLAGS;
  const errors = [local, tlsCa, tlsCrt, tlsKey].filter(({ name }) => given.get(name)).map(({ name }) =>
    `--${name} needs a server as the source: --source grpc://HOST:PORT or unix://PATH`
  );
  return { source: errors.length === 0 ? source : undefined, errors };
}

function sourceOf(text: string, given: GivenFlags): SourceChoice | string {
  if (text === "kube") return { kind: "kube" };
  const [, kind, path] = /^(file|state):(.+)$/s.exec(text) ?? [];
  if (kind !== undefined && path !== undefined) return { kind: kind as "file" | "state", path };
  if (!SCHEME.test(text)) return `must be ${FORMS}`;
  const addresses = readServers(text);
  if (typeof addresses === "string") return addresses;
  const { local, tlsCa, tlsCrt, tlsKey } = RUN_FLAGS;
  const file = (flag: typeof tlsCa) => flagValue(given, flag) || undefined;
  return {
    kind: "grpc",
    addresses,
    scope: flagValue(given, local) ? "local" : "global",
    tls: { ca: file(tlsCa), crt: file(tlsCrt), key: file(tlsKey) },
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
  return /^(?:unix:\/\/)?(\/.*[^/])$/s.exec(flagValue(given, RUN_FLAGS.runtimeEndpoint) ?? "")?.[1];
}

function checkRuntimeEndpoint(given: GivenFlags, source: SourceChoice | undefined): readonly string[] {
  const flag = RUN_FLAGS.runtimeEndpoint, text = flagValue(given, flag);
  if (!text) return [];
  if (runtimeSocketOf(given) === undefined) {
    const form = "must be a unix socket: unix:///run/containerd/containerd.sock or its path";
    return [`--${flag.name} is ${JSON.stringify(text)}: ${form}`];
  }
  if (source === undefined || source.kind === "kube") return [];
  return [`--${flag.name} needs the API server as the source: others do not name the pods of endpoints`];
}

/** Flags that are valid and have no effect. */
export function sourceFlagsWithoutEffect(given: GivenFlags): readonly string[] {
  const { runtimeEndpoint, stateDirectory } = RUN_FLAGS;
  if (runtimeSocketOf(given) === undefined || flagValue(given, stateDirectory)) return [];
  return [`--${runtimeEndpoint.name} has no effect without --${stateDirectory.name}`];
}

/** The name must be the value of a label, and only some sources have labels. */
function checkServiceProxyName(given: GivenFlags, source: SourceChoice | undefined): readonly string[] {
  const flag = RUN_FLAGS.serviceProxyName, name = flagValue(given, flag);
  if (!name) return [];
  if (!/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(name)) {
    return [`--${flag.name} is ${JSON.stringify(name)}: must be the value of a label, at most 63 characters`];
  }
  if (source === undefined || source.kind === "kube" || source.kind === "file") return [];
  return [`--${flag.name} needs the API server or manifests as the source: give it to the server instead`];
}

function checkMaxMsgSize(given: GivenFlags, source: SourceChoice | undefined): readonly string[] {
  const flag = RUN_FLAGS.maxMessageBytes, bytes = flagValue(given, flag);
  if (bytes === undefined) return [];
  if (bytes < 1) return [`--${flag.name} is ${bytes}: must be at least 1 byte`];
  if (source === undefined || source.kind === "grpc") return [];
  return [`--${flag.name} needs a server as the source: --source grpc://HOST:PORT or unix://PATH`];
}
