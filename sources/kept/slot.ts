import { sameData } from "../../platform/mod.ts";

/** The source that a state is from. A state of another source, node or proxy name is not served. */
export interface StateOrigin {
  readonly node: string;
  /** As on the command line, with the URL of the API server: `kube https://10.0.0.1:6443`. */
  readonly source: string;
  /** The value of the label `service.kubernetes.io/service-proxy-name`; empty for services without it. */
  readonly proxyName: string;
}

/** The header of a state: where it is in the file, and how it is verified. */
export interface SlotHeader {
  /** Higher in the newer state. */
  readonly sequence: number;
  /** When the state was that of the source, in milliseconds since 1970. */
  readonly atMs: number;
  readonly offset: number;
  readonly length: number;
  /** The SHA-256 of the payload, in hexadecimal. */
  readonly sha256: string;
  readonly origin: StateOrigin;
}

/** The content of a slot. */
export type Slot =
  | { readonly kind: "state"; readonly header: SlotHeader }
  | { readonly kind: "empty" }
  /** Its last write was interrupted, or its bytes were changed. */
  | { readonly kind: "torn" }
  /** A later version of Sluice wrote it. */
  | { readonly kind: "newer"; readonly version: number }
  /** Something else than a state. */
  | { readonly kind: "foreign" };

/** The size of a slot's header in bytes: a block of the usual file systems, so that a torn write of one spares the other. */
export const SLOT_BYTES = 4096;

/** The version of the format, to be raised with every change that earlier versions of Sluice cannot read. */
const VERSION = 1;
const MAGIC = "sluice state ";

/** Returns the bytes of a header: three lines of text (magic and version, JSON, its SHA-256), filled up with zeros. */
export async function encodeSlot(header: SlotHeader): Promise<Uint8Array> {
  const text = `${MAGIC}${VERSION}\n${JSON.stringify(header)}\n`;
  const bytes = new Uint8Array(SLOT_BYTES);
  const line = new TextEncoder().encode(`${text}${await sha256Of(new TextEncoder().encode(text))}\n`);
  if (line.length > SLOT_BYTES) throw new Error("the names of node and source are too long for the header of a state");
  bytes.set(line);
  return bytes;
}

/** Reads a header from the bytes at its place; `bytes` is shorter where the file ends. */
export async function decodeSlot(bytes: Uint8Array): Promise<Slot> {
  if (bytes.every((byte) => byte === 0)) return { kind: "empty" };
  const text = new TextDecoder().decode(bytes).replace(/\0+$/, "");
  if (!text.startsWith(MAGIC)) return { kind: MAGIC.startsWith(text) ? "torn" : "foreign" };
  const version = Number(/^\d+(?=\n)/.exec(text.slice(MAGIC.length))?.[0]);
  if (version > VERSION) return { kind: "newer", version };
  const lines = text.split("\n");
  const checked = new TextEncoder().encode(`${lines[0]}\n${lines[1]}\n`);
  if (version !== VERSION || lines.length !== 4 || lines[2] !== await sha256Of(checked)) return { kind: "torn" };
  return { kind: "state", header: JSON.parse(lines[1]!) };
}

/** Whether two states are from the same source. */
export function isSameOrigin(a: StateOrigin, b: StateOrigin): boolean {
  return sameData(a, b);
}

/** Returns the SHA-256 of bytes, in hexadecimal. */
export async function sha256Of(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
