import { decodeSlot, encodeSlot, isSameOrigin, sha256Of, type Slot, SLOT_BYTES, type SlotHeader } from "./slot.ts";
import type { StateOrigin } from "./slot.ts";
import type { Storage } from "./storage.ts";

/** A state on disk. */
export interface KeptState {
  readonly payload: Uint8Array<ArrayBuffer>;
  /** When it was the state of the source, in milliseconds since 1970. */
  readonly atMs: number;
}

/** The result of reading the file. */
export interface ReadState {
  /** The newest intact state of the origin. */
  readonly state: KeptState | undefined;
  /** What was ignored, each as a sentence. */
  readonly ignored: readonly string[];
}

/**
 * The file of the kept state: the headers of two slots, and their payloads. A write touches neither header nor payload of the
 * newest state, so one that is interrupted at any byte leaves that state readable. Calls wait for each other.
 */
export interface StateFile {
  readonly path: string;
  read(origin: StateOrigin): Promise<ReadState>;
  /**
   * Replaces the older state. A payload that the file has already is not written again, only its time.
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
  let last: Promise<unknown> = Promise.resolve();

  const inTurn = <T>(act: () => Promise<T>): Promise<T> => {
    const turn = last.then(act);
    last = turn.catch(() => {});
    return turn;
  };

  const load = async () => {
    const { slots, states } = await readSlots(storage);
    newest = states[0];
    isForeign = slots.some(({ kind }) => kind === "foreign") && !slots.some(({ kind }) => isOurs(kind));
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
      inTurn(async () => {
        const { states, ignored } = await load();
        const found = states.find(({ header }) => isSameOrigin(header.origin, origin));
        if (found !== undefined) return { state: { payload: found.payload, atMs: found.header.atMs }, ignored };
        return {
          state: undefined,
          ignored: [...ignored, ...states.slice(0, 1).map(({ header }) => otherOrigin(header.origin, origin))],
        };
      }),
    write: (origin, state) => inTurn(() => write(origin, state)),
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
    const payload = await storage.read(header.offset, header.length);
    const isIntact = await sha256Of(payload) === header.sha256;
    slots.push(isIntact ? read : { kind: "torn" });
    if (isIntact) states.push({ slot, header, payload });
  }
  return { slots, states: states.sort((a, b) => b.header.sequence - a.header.sequence) };
}

/** The place of a payload that does not overlap that of the newest state: before it if there is room, else after it. */
function freeOffset(newest: SlotHeader | undefined, length: number): number {
  const first = 2 * SLOT_BYTES;
  if (newest === undefined || first + length <= newest.offset) return first;
  return newest.offset + newest.length;
}

function isOurs(kind: Slot["kind"]): boolean {
  return kind === "state" || kind === "newer" || kind === "torn";
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

function otherOrigin(found: StateOrigin, wanted: StateOrigin): string {
  return `its state is of another origin (${originText(found)}; this is ${originText(wanted)})`;
}

function originText({ node, source, proxyName }: StateOrigin): string {
  return `node ${node}, source ${source}${proxyName === "" ? "" : `, service proxy name ${proxyName}`}`;
}
