/** Finds the leader of a site on the LAN, without the API server, and answers the other nodes' questions. */
import { sleep } from "../../platform/mod.ts";
import { receive, tell } from "./lan_answer.ts";
import { ask, hear } from "./lan_ask.ts";
import { decodeDatagram, type Question } from "./lan_messages.ts";
import { createLanState, type Heard, type LanOptions, type LanState, noteFailure, noteSuccess } from "./lan_state.ts";
import type { LeaseRecord } from "./lease.ts";

/** The nodes of the site on the LAN. */
export interface Lan {
  /** Asks who leads. Resolves when the leader has answered, or after half a second. */
  ask(question: Pick<Question, "rank" | "isNew">, signal: AbortSignal): Promise<Heard>;
  /** Tells the others of this version of the Lease, which this node holds. */
  announce(record: LeaseRecord): void;
  /** Whether another node was heard within this time. */
  isHeard(withinMs: number): boolean;
  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** The wait before a socket that could not be opened is opened again. */
const REOPEN_MS = 30_000;

/** The nodes on the LAN, of which none is heard before it runs. */
export function createLan(options: LanOptions): Lan {
  const { clock } = options;
  const state = createLanState(options);
  return {
    ask: (question, signal) => ask(state, question, signal),
    announce(record) {
      // A follower knows the address and the certificate, which would not fit into one packet.
      tell(state, [], { kind: "leader", record: { ...record, address: "", certificate: "" } }).catch(ignore);
    },
    isHeard: (withinMs) => clock.monotonic() - state.heardMs < withinMs,
    run: (signal) => run(state, signal),
  };
}

async function run(state: LanState, signal: AbortSignal): Promise<void> {
  const { open, clock } = state.options;
  while (!signal.aborted) {
    try {
      state.socket = await open((data) => onDatagram(state, data));
      noteSuccess(state, "socket");
      if (state.asking !== undefined) state.socket.sendToAll(state.asking.question);
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    } catch (error) {
      noteFailure(state, "socket", error);
      await sleep(clock, REOPEN_MS, signal).catch(ignore);
    }
  }
  state.socket?.close();
  state.socket = undefined;
}

function onDatagram(state: LanState, data: Uint8Array): void {
  if (!state.mayRead()) return;
  const read = decodeDatagram(data);
  if (read === undefined) return;
  const { site, node } = "question" in read ? read.question : read.signed;
  if (site !== state.options.site || node === state.options.node) return;
  if ("question" in read) receive(state, read.question);
  else hear(state, read.signed).catch(ignore);
}

/** Files that cannot be read, which are logged where they are read, and waits that end early. */
const ignore = () => {};
