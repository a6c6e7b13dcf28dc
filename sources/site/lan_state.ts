/** The state of a node on the LAN of its site, and the limits of its work. */
import { type Clock, errorText, type Logger } from "../../platform/mod.ts";
import type { SiteCertificates } from "./certificates.ts";
import type { Datagrams, OpenDatagrams } from "./datagrams.ts";
import type { Question, Statement } from "./lan_messages.ts";
import type { Leader, LeaseRecord } from "./lease.ts";
import type { Proofs } from "./proof.ts";

/** Options of `createLan`. */
export interface LanOptions {
  readonly site: string;
  readonly node: string;
  readonly open: OpenDatagrams;
  readonly certificates: Pick<SiteCertificates, "proofs">;
  /** The answer to a question; none if undefined. */
  readonly answer: (question: Pick<Question, "isNew">) => Statement | undefined;
  /** Whether an announced renewal is later than what is known; its signature is not checked yet. */
  readonly isNews: (record: LeaseRecord) => boolean;
  /** Receives such a renewal; without the leader's address and certificate. */
  readonly onRenewed: (record: LeaseRecord) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

/** What other nodes have said since a question. */
export interface Heard {
  /** The Lease, as its holder or another node has seen it, `ageMs` milliseconds ago. */
  readonly lease?: { readonly record: LeaseRecord; readonly ageMs: number };
  /** The last leader, which cannot reach the API server. */
  readonly lastLeader?: Leader;
  /** Whether another node asks the API server. */
  readonly isCandidate: boolean;
  /** Whether a node of a lower rank asks the same question. */
  readonly isPreceded: boolean;
}

/** A question of this node that waits for answers. */
export interface Asking {
  readonly rank: number;
  readonly isNew: boolean;
  /** The datagram. */
  readonly question: Uint8Array;
  heard: Heard;
  /** Waits no longer. */
  end(): void;
}

/** Why the other nodes cannot be asked: no socket, or no certificate to sign with. */
type Cause = "socket" | "certificate";

/** The state of a node on the LAN. */
export interface LanState {
  readonly options: LanOptions;
  /** Whether one more datagram may be read now; counts it. */
  readonly mayRead: () => boolean;
  /** Whether one more signature may be made or checked now; counts it. */
  readonly maySign: () => boolean;
  socket: Datagrams | undefined;
  /** The latest question, while it waits for answers. */
  asking: Asking | undefined;
  /** The times of this node's latest questions, by nonce. */
  readonly asked: Map<string, number>;
  /** The questions of others without an answer yet, by nonce. */
  readonly questions: Map<string, Question>;
  /** When another node was heard. */
  heardMs: number;
  loaded: { readonly proofs: Promise<Proofs>; readonly atMs: number } | undefined;
  /** The causes that last, and have been logged. */
  readonly warned: Set<Cause>;
}

/** How often the certificate's files are read again. */
const RELOAD_MS = 60_000;
/** How many datagrams a second are read, which takes some 20 µs each. */
const READS = { rate: 500, burst: 1000 };
/** How many signatures a second are made or checked, which takes 1 to 5 ms each. */
const SIGNATURES = { rate: 20, burst: 40 };

/** Creates the state of a node without a socket that has heard no other node. */
export function createLanState(options: LanOptions): LanState {
  return {
    options,
    mayRead: createBudget(READS, options.clock),
    maySign: createBudget(SIGNATURES, options.clock),
    socket: undefined,
    asking: undefined,
    asked: new Map(),
    questions: new Map(),
    heardMs: -Infinity,
    loaded: undefined,
    warned: new Set(),
  };
}

/** Returns the signatures of this node's certificate, whose files are read from time to time. Rejects, and logs it, if they cannot be. */
export function ownProofs(state: LanState): Promise<Proofs> {
  const { certificates, clock } = state.options;
  if (state.loaded === undefined || clock.monotonic() - state.loaded.atMs > RELOAD_MS) {
    state.loaded = { proofs: certificates.proofs(), atMs: clock.monotonic() };
    state.loaded.proofs.then(
      () => noteSuccess(state, "certificate"),
      (error) => noteFailure(state, "certificate", error),
    );
  }
  return state.loaded.proofs;
}

/** Logs that the other nodes cannot be asked: the first time as a warning, then as a detail, until `noteSuccess`. */
export function noteFailure({ warned, options: { logger } }: LanState, cause: Cause, error: unknown): void {
  logger[warned.has(cause) ? "debug" : "warn"]("the nodes of the site cannot be asked on the LAN", {
    error: errorText(error),
  });
  warned.add(cause);
}

/** The cause has ended, if there was one: the next failure is a new one. */
export function noteSuccess({ warned }: LanState, cause: Cause): void {
  warned.delete(cause);
}

/** Limits the work that anybody on the LAN can cause: returns whether there may be one more piece of it. */
function createBudget({ rate, burst }: { readonly rate: number; readonly burst: number }, clock: Clock): () => boolean {
  let left = burst;
  let sinceMs = clock.monotonic();
  return () => {
    const nowMs = clock.monotonic();
    left = Math.min(burst, left + (nowMs - sinceMs) * rate / 1000);
    sinceMs = nowMs;
    if (left < 1) return false;
    left--;
    return true;
  };
}
