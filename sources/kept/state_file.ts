import { createTurns, errorText, pathIn, readUpTo, sameData } from "../../platform/mod.ts";

/** The source that a state is from. A state of another source, node or proxy name is not served. */
export interface StateOrigin {
  readonly node: string;
  /** As on the command line, with the URL of the API server: `kube https://10.0.0.1:6443`. */
  readonly source: string;
  /** The value of the label `service.kubernetes.io/service-proxy-name`; empty for services without it. */
  readonly proxyName: string;
}

/** The header of a state: where it is in the file, and how it is verified. */
interface SlotHeader {
  /** Higher in the newer state. */
  readonly sequence: number;
  /** When the source had this state, in milliseconds since 1970. */
  readonly atMs: number;
  readonly offset: number;
  readonly length: number;
  /** The SHA-256 of the payload, in hexadecimal. */
  readonly sha256: string;
  readonly origin: StateOrigin;
}

type Slot =
  | { readonly kind: "state"; readonly header: SlotHeader }
  | { readonly kind: "empty" }
  /** Its last write was interrupted, or its bytes were changed. */
  | { readonly kind: "torn" }
  /** A later version of Sluice wrote it. */
  | { readonly kind: "newer"; readonly version: number }
  /** Not a state. */
  | { readonly kind: "foreign" };

/** The size of a slot's header in bytes: a block of the usual file systems, so that a torn write of one spares the other. */
export const SLOT_BYTES = 4096;

const MOST_PAYLOAD_BYTES = 256 * 2 ** 20;

/** The version of the format, to be raised with every change that earlier versions of Sluice cannot read. */
const VERSION = 2;
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
async function decodeSlot(bytes: Uint8Array): Promise<Slot> {
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

async function sha256Of(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

/** Random access to an open file. */
export interface Storage {
  /** Returns up to `length` bytes from `offset`; fewer at the end of the file. */
  read(offset: number, length: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Writes all bytes at `offset`. */
  write(offset: number, bytes: Uint8Array): Promise<void>;
  /** Resolves when everything written is on the disk. */
  sync(): Promise<void>;
}

/** The storage of an open file. Needs no permission. Calls must not overlap: a read or write first sets the file's position. */
export function storageOf(file: Deno.FsFile): Storage {
  return {
    async read(offset, length) {
      await file.seek(offset, Deno.SeekMode.Start);
      return await readUpTo(file, length);
    },
    async write(offset, bytes) {
      await file.seek(offset, Deno.SeekMode.Start);
      let written = 0;
      while (written < bytes.length) written += await file.write(bytes.subarray(written));
    },
    sync: () => file.sync(),
  };
}

/** A state on disk. */
export interface KeptState {
  readonly payload: Uint8Array<ArrayBuffer>;
  /** When the source had this state, in milliseconds since 1970. */
  readonly atMs: number;
}

/** The result of reading the file. */
interface ReadState {
  /** The newest intact state of the origin. */
  readonly state: KeptState | undefined;
  /** The reasons why states were ignored, one sentence each. */
  readonly ignored: readonly string[];
}

/**
 * The file with the cached state: the headers of two slots, and their payloads. A write never touches the header or payload of
 * the newest state, which stays readable if the write is interrupted at any byte. Calls are serialized.
 */
export interface StateFile {
  readonly path: string;
  read(origin: StateOrigin): Promise<ReadState>;
  /**
   * Replaces the older state. If the payload is unchanged, only its time is written.
   * @throws {Error} if the file cannot be written, or is not a state file
   */
  write(origin: StateOrigin, state: KeptState): Promise<void>;
}

/** An intact state, and its slot: 0 or 1. */
interface Found {
  readonly slot: number;
  readonly header: SlotHeader;
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** Creates a state file; `readOnly` is why it cannot be written, if it cannot. */
export function createStateFile(path: string, storage: Storage, readOnly?: string): StateFile {
  let newest: Omit<Found, "payload"> | undefined;
  let isForeign: boolean | undefined;
  const turns = createTurns();

  const load = async () => {
    const { slots, states } = await readSlots(storage);
    newest = states[0];
    const has = (...kinds: readonly Slot["kind"][]) => slots.some(({ kind }) => kinds.includes(kind));
    isForeign = has("foreign") && !has("state", "newer", "torn");
    return { states, ignored: slots.flatMap(whyIgnored) };
  };

  const write = async (origin: StateOrigin, { payload, atMs }: KeptState) => {
    if (readOnly !== undefined) throw new Error(readOnly);
    if (isForeign === undefined) await load();
    if (isForeign) throw new Error("it is not a state file of Sluice (move it away, or set another --state-directory)");
    const sha256 = await sha256Of(payload);
    const isWritten = newest?.header.sha256 === sha256;
    const offset = isWritten ? newest!.header.offset : freeOffset(newest?.header, payload.length);
    if (!isWritten) {
      await storage.write(offset, payload);
      await storage.sync();
    }
    const sequence = (newest?.header.sequence ?? 0) + 1;
    const header: SlotHeader = { sequence, atMs, offset, length: payload.length, sha256, origin };
    const slot = newest?.slot === 0 ? 1 : 0;
    await storage.write(slot * SLOT_BYTES, await encodeSlot(header));
    await storage.sync();
    newest = { slot, header };
  };

  return {
    path,
    read: (origin) =>
      turns.take(async () => {
        const { states, ignored } = await load();
        const found = states.find(({ header }) => sameData(header.origin, origin));
        if (found !== undefined) return { state: { payload: found.payload, atMs: found.header.atMs }, ignored };
        const others = states.slice(0, 1).map(({ header }) =>
          `its state is of another origin (${originText(header.origin)}; this is ${originText(origin)})`
        );
        return { state: undefined, ignored: [...ignored, ...others] };
      }),
    write: (origin, state) => turns.take(() => write(origin, state)),
  };
}

/** Reads both slots, and the payloads of the intact states, the newest first. */
async function readSlots(storage: Storage): Promise<{ slots: readonly Slot[]; states: readonly Found[] }> {
  const slots: Slot[] = [];
  const states: Found[] = [];
  for (const slot of [0, 1]) {
    const read = await decodeSlot(await storage.read(slot * SLOT_BYTES, SLOT_BYTES));
    if (read.kind !== "state") {
      slots.push(read);
      continue;
    }
    const { header } = read;
    if (header.length > MOST_PAYLOAD_BYTES) {
      slots.push({ kind: "torn" });
      continue;
    }
    const payload = await storage.read(header.offset, header.length);
    const isIntact = await sha256Of(payload) === header.sha256;
    slots.push(isIntact ? read : { kind: "torn" });
    if (isIntact) states.push({ slot, header, payload });
  }
  return { slots, states: states.sort((a, b) => b.header.sequence - a.header.sequence) };
}

/** A place for a payload that does not overlap the newest one: before it if there is room, otherwise after it. */
function freeOffset(newest: SlotHeader | undefined, length: number): number {
  const first = 2 * SLOT_BYTES;
  if (newest === undefined || first + length <= newest.offset) return first;
  return newest.offset + newest.length;
}

function whyIgnored(slot: Slot, index: number): string[] {
  const which = index === 0 ? "its first slot" : "its second slot";
  switch (slot.kind) {
    case "newer":
      return [`${which} is of a later version of Sluice (format ${slot.version})`];
    case "torn":
      return [`${which} is torn: a write was interrupted, or the disk has changed it`];
    case "foreign":
      return [`${which} is not a state of Sluice`];
    default:
      return [];
  }
}

function originText({ node, source, proxyName }: StateOrigin): string {
  return `node ${node}, source ${source}${proxyName === "" ? "" : `, service proxy name ${proxyName}`}`;
}

/** A state that another user may have written: it must not decide where connections go. */
export class UntrustedStateError extends Error {}

/**
 * Opens a state file of a folder, `state` unless another name is given. Both are created if missing, for their owner alone
 * (modes 0700 and 0600); the file stays open for as long as the process runs. One that cannot be written is opened for reading.
 * @throws {UntrustedStateError} if the folder or the file belongs to another user, or others may write it
 * @throws {Error} if it can neither be written nor read, or another process uses it
 */
export function openStateDirectory(folder: string, name = "state"): StateFile {
  const path = pathIn(folder, name);
  try {
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new Error(`cannot open ${path}: ${errorText(error)}`);
  }
  // Before the file is created: in a folder of others, its name may be a link.
  requirePrivate(Deno.statSync(folder), folder, "0700");
  let readOnly: string | undefined;
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
  } catch (error) {
    readOnly = errorText(error);
    file = openForReading(path, readOnly);
  }
  try {
    requirePrivate(file.statSync(), path, "0600");
    if (readOnly === undefined && !file.tryLockSync(true)) throw new Error(`${path} is in use by another process`);
    return createStateFile(path, storageOf(file), readOnly);
  } catch (error) {
    file.close();
    throw error;
  }
}

function openForReading(path: string, reason: string): Deno.FsFile {
  try {
    return Deno.openSync(path, { read: true });
  } catch {
    throw new Error(`cannot open ${path}: ${reason}`);
  }
}

function requirePrivate({ uid, mode }: Deno.FileInfo, path: string, wanted: string): void {
  if (uid !== Deno.uid()) {
    throw new UntrustedStateError(`${path} belongs to user ${uid}, this process is user ${Deno.uid()}`);
  }
  if (((mode ?? 0) & 0o022) !== 0) {
    const is = ((mode ?? 0) & 0o7777).toString(8).padStart(4, "0");
    throw new UntrustedStateError(`${path} has mode ${is}, so other users can write it; it needs ${wanted}`);
  }
}
