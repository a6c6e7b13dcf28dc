import { readWireAddress, wireAddressText } from "../kpng/transport/mod.ts";
import type { GivenFlags } from "./arguments.ts";
import type { SourceChoice } from "./configuration.ts";

/** The result of reading the source flags. */
export interface SourceReading {
  /** Undefined if there are errors. */
  readonly source: SourceChoice | undefined;
  readonly errors: readonly string[];
}

const FORMS = "kube, file:PATH, state:PATH, grpc://HOST:PORT or unix://PATH";
const TLS = "api-client-tls";

/** Whether a source is a server, to which there is a link that can fail. */
export function isServer({ kind }: SourceChoice): boolean {
  return kind === "kube" || kind === "grpc";
}

/** Formats a source as on the command line. */
export function sourceText(source: SourceChoice): string {
  if (source.kind === "kube") return source.kind;
  if (source.kind !== "grpc") return `${source.kind}:${source.path}`;
  const text = wireAddressText(source.address);
  return source.address.kind === "unix" ? text : `grpc://${text}`;
}

/** Reads `--source` and the flags that apply only to some sources. */
export function readSource(given: GivenFlags): SourceReading {
  const text = (given.get("source") as string | undefined) ?? "kube";
  const source = sourceOf(text, given);
  if (source === undefined) {
    return { source, errors: [`--source is ${JSON.stringify(text)}: must be ${FORMS}`] };
  }
  if (source.kind === "grpc") return { source, errors: [] };
  const useless = ["local", `${TLS}-ca`, `${TLS}-crt`, `${TLS}-key`].filter((name) => given.get(name));
  const errors = useless.map((name) =>
    `--${name} needs a server as the source: --source grpc://HOST:PORT or unix://PATH`
  );
  return { source: errors.length === 0 ? source : undefined, errors };
}

function sourceOf(text: string, given: GivenFlags): SourceChoice | undefined {
  if (text === "kube") return { kind: "kube" };
  const [, kind, path] = /^(file|state):(.+)$/s.exec(text) ?? [];
  if (kind !== undefined && path !== undefined) return { kind: kind as "file" | "state", path };
  const address = /^(grpc:\/\/|unix:)/.test(text) ? readWireAddress(text) : undefined;
  if (address === undefined) return undefined;
  const file = (name: string) => (given.get(`${TLS}-${name}`) as string | undefined) || undefined;
  return {
    kind: "grpc",
    address,
    scope: given.get("local") === true ? "local" : "global",
    tls: { ca: file("ca"), crt: file("crt"), key: file("key") },
  };
}
