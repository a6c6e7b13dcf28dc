/**
 * Addresses of gRPC servers and the files of their TLS, as on the command line. Every command loads this, nothing else of `kpng`.
 *
 * In: texts and paths. Out: addresses and certificates. May touch: PEM files.
 */
import { canonicalAddress, fileErrorText, isLoopback, readTextWithinSync } from "../../platform/mod.ts";

/** The address of a gRPC server. */
export type WireAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** The longest message that gRPC clients accept by default. */
export const DEFAULT_MESSAGE_BYTES: number = 4 * 1024 * 1024;

const MOST_PEM_BYTES = 16 * 2 ** 20;

/** KPNG's port. */
const DEFAULT_PORT = 12090;

/** Whether only this host can connect to an address. */
export function isOfThisHost(address: WireAddress): boolean {
  return address.kind === "unix" || address.host === "localhost" || isLoopback(address.host);
}

/** Parses `tcp://HOST:PORT`, `grpc://HOST:PORT`, `HOST:PORT` or `unix://PATH`, IPv6 in brackets; else undefined. */
export function readWireAddress(text: string): WireAddress | undefined {
  const path = /^unix:(?:\/\/)?(\/?[^/].*)$/s.exec(text)?.[1];
  if (path !== undefined) return { kind: "unix", path };
  const found = /^(?:(?:tcp|grpc):\/\/)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::(\d{1,5}))?\/?$/.exec(text);
  if (found === null) return undefined;
  const port = found[2] === undefined ? DEFAULT_PORT : Number(found[2]);
  const host = found[1]!.replace(/^\[(.*)\]$/, "$1");
  if (port > 65535 || (host === "" && found[2] === undefined)) return undefined;
  if (found[1]!.startsWith("[") && canonicalAddress(host) === undefined) return undefined;
  return { kind: "tcp", host, port };
}

/** Formats an address as on the command line. */
export function wireAddressText(address: WireAddress): string {
  if (address.kind === "unix") return `unix://${address.path}`;
  return `${address.host.includes(":") ? `[${address.host}]` : address.host}:${address.port}`;
}

/** The paths of PEM files, from flags. */
export interface TlsPaths {
  /** The CA that must have signed the peer's certificate. */
  readonly ca: string | undefined;
  readonly crt: string | undefined;
  readonly key: string | undefined;
}

/** The contents of PEM files. */
export interface TlsFiles {
  readonly ca: string | undefined;
  readonly crt: string | undefined;
  readonly key: string | undefined;
  /** The name that the server's certificate must have; its host by default. For clients. */
  readonly serverName?: string;
}

/**
 * Reads the files; undefined without any, which means no TLS. `flags` is the prefix of the flags (`--listen-tls`), for errors.
 * Throws an Error that names the missing file.
 */
export function readTlsFiles(paths: TlsPaths, flags: string): TlsFiles | undefined {
  if (!paths.ca && !paths.crt && !paths.key) return undefined;
  if (!paths.crt !== !paths.key) {
    throw new Error(
      `${flags}-crt and ${flags}-key belong together: ${paths.crt ? "the key" : "the certificate"} is missing`,
    );
  }
  const read = (name: keyof TlsPaths) => {
    const path = paths[name];
    if (!path) return undefined;
    try {
      return readTextWithinSync(path, MOST_PEM_BYTES);
    } catch (error) {
      throw new Error(`${flags}-${name}: cannot read ${path}: ${fileErrorText(error)}`);
    }
  };
  return { ca: read("ca"), crt: read("crt"), key: read("key") };
}
