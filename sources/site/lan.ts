/** Finds the leader of a site on the LAN, without the API server, and answers the other nodes' questions. */
import { type Clock, errorText, type Logger, sleep } from "../../platform/mod.ts";
import type { SiteCertificates } from "./certificates.ts";
import type { Datagrams, OpenDatagrams } from "./datagrams.ts";
import {
  decodeDatagram,
  encodeQuestion,
  encodeSigned,
  MOST_NONCES,
  type Question,
  type Signed,
  type Statement,
  statementText,
} from "./lan_messages.ts";
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
  /** Whether a renewal that nobody asked for would be news, if its signature is right. */
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
  /** The Lease, as its holder or another node has seen it so long ago. */
  readonly lease?: { readonly record: LeaseRecord; readonly ageMs: number };
  /** The last leader, which cannot reach the API server. */
  readonly lastLeader?: Leader;
  /** Whether another node asks the API server. */
  readonly isCandidate: boolean;
  /** Whether a node of a lower rank asks the same question. */
  readonly isPreceded: boolean;
}

/** The nodes of the site on the LAN. */
export interface Lan {
  /** Asks who leads. Resolves when the leader has answered, or after `ROUND_MS`. */
  ask(question: Pick<Question, "rank" | "isNew">, signal: AbortSignal): Promise<Heard>;
  /** Tells the others of this version of the Lease, which this node holds. */
  announce(record: LeaseRecord): void;
  /** Whether another node was heard within this time. */
  isHeard(withinMs: number): boolean;
  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** How long a node waits for answers. */
export const ROUND_MS = 500;
/** How long the answer to a question counts: both nodes may be busy. */
const FRESH_MS = 2_000;
/** How many more times it does so if it was itself too busy to read them in time. */
const EXTENSIONS = 3;
/** How long questions are collected, to answer them all at once. */
const COLLECT_MS = 50;
/** The longest wait before the answer of a node that does not lead: one such answer is enough. */
const SUPPRESS_MS = 250;
/** How often the certificate's files are read again. */
const RELOAD_MS = 60_000;
/** The wait before a socket that could not be opened is opened again. */
const REOPEN_MS = 30_000;
/** How many datagrams a second are read, which takes some 20 µs each. */
const READS = { rate: 500, burst: 1000 };
/** How many signatures a second are made or checked, which takes 1 to 5 ms each. */
const SIGNATURES = { rate: 20, burst: 40 };

/** A question without its answers yet. */
interface Asking {
  readonly rank: number;
  readonly question: Uint8Array;
  hear(signed: Signed): void;
  precede(): void;
}

/** The nodes on the LAN, of which none is heard before it runs. */
export function createLan(options: LanOptions): Lan {
  const { site, node, open, certificates, clock, logger, random } = options;
  const mayRead = createBudget(READS, clock);
  const maySign = createBudget(SIGNATURES, clock);
  let socket: Datagrams | undefined;
  let asking: Asking | undefined;
  // The times of this node's latest questions, by nonce.
  const asked = new Map<string, number>();
  let heardMs = -Infinity;
  let loaded: { readonly proofs: Promise<Proofs>; readonly atMs: number } | undefined;
  // The questions of others without an answer yet, by nonce.
  const questions = new Map<string, Question>();

  const proofs = () => {
    if (loaded === undefined || clock.monotonic() - loaded.atMs > RELOAD_MS) {
      loaded = { proofs: certificates.proofs(), atMs: clock.monotonic() };
      loaded.proofs.catch((error) => {
        logger.warn("the nodes of the site cannot be asked on the LAN", { error: errorText(error) });
      });
    }
    return loaded.proofs;
  };

  /** Signs a statement and sends it to all nodes: an answer that goes nowhere else cannot be used against another host. */
  const tell = async (nonces: readonly string[], statement: Statement) => {
    const body = statementText({ site, node, nonces }, statement);
    const proof = (await proofs()).sign(body);
    socket?.sendToAll(encodeSigned(body, proof));
  };

  const answerAll = async () => {
    const unanswered = [...questions.values()];
    questions.clear();
    const toAll = options.answer({ isNew: false });
    const statement = toAll ?? options.answer({ isNew: true });
    if (statement === undefined) return;
    const nonces = unanswered.filter(({ isNew }) => isNew || toAll !== undefined).map(({ nonce }) => nonce);
    while (nonces.length > 0 && maySign()) await tell(nonces.splice(0, MOST_NONCES), statement);
  };

  const receive = (question: Question) => {
    heardMs = clock.monotonic();
    if (asking !== undefined && question.rank < asking.rank) asking.precede();
    const statement = options.answer(question);
    if (statement === undefined) return;
    questions.set(question.nonce, question);
    if (questions.size > 1) return;
    const waitMs = COLLECT_MS + (statement.kind === "seen" ? random() * SUPPRESS_MS : 0);
    clock.schedule(waitMs, () => void answerAll().catch(ignore));
  };

  const isFresh = (nonce: string) => clock.monotonic() - (asked.get(nonce) ?? -Infinity) < FRESH_MS;

  const hear = async (signed: Signed) => {
    const { statement, nonces, body, proof } = signed;
    for (const nonce of nonces) questions.delete(nonce);
    const isAnswer = nonces.some(isFresh);
    // Without a question, only the holder of the Lease is heard, about a later version.
    const isRenewal = nonces.length === 0 && statement.kind === "leader" && statement.record.node === signed.node &&
      options.isNews(statement.record);
    if (!isAnswer && !isRenewal || !maySign()) return;
    if (!(await proofs()).isSigned(body, signed.node, proof, clock.now())) return;
    heardMs = clock.monotonic();
    if (isAnswer) asking?.hear(signed);
    else if (statement.kind === "leader") options.onRenewed(statement.record);
  };

  const onDatagram = (data: Uint8Array) => {
    if (!mayRead()) return;
    const read = decodeDatagram(data);
    if (read === undefined) return;
    const { site: ofSite, node: sender } = "question" in read ? read.question : read.signed;
    if (ofSite !== site || sender === node) return;
    if ("question" in read) receive(read.question);
    else hear(read.signed).catch(ignore);
  };

  return {
    ask({ rank, isNew }, signal) {
      const { promise, resolve } = Promise.withResolvers<Heard>();
      const nonce = crypto.randomUUID();
      for (const earlier of asked.keys()) {
        if (!isFresh(earlier)) asked.delete(earlier);
      }
      asked.set(nonce, clock.monotonic());
      let heard: Heard = { isCandidate: false, isPreceded: false };
      let cancel = () => {};
      const end = () => {
        cancel();
        signal.removeEventListener("abort", end);
        if (asking === own) asking = undefined;
        resolve(heard);
      };
      const wait = (extensions: number) => {
        const startMs = clock.monotonic();
        cancel = clock.schedule(ROUND_MS, () => {
          const isBusy = clock.monotonic() - startMs > 1.5 * ROUND_MS;
          if (isBusy && extensions > 0) wait(extensions - 1);
          else end();
        });
      };
      wait(EXTENSIONS);
      signal.addEventListener("abort", end);
      const own: Asking = {
        rank,
        question: encodeQuestion({ site, node, nonce, rank, isNew }),
        hear({ statement, node: sender }) {
          heard = added(heard, statement, sender, isNew);
          if (heard.lease?.ageMs === 0) end();
        },
        precede() {
          heard = { ...heard, isPreceded: true };
        },
      };
      asking = own;
      socket?.sendToAll(own.question);
      if (signal.aborted) end();
      return promise;
    },
    announce(record) {
      // A follower knows the address and the certificate, which would not fit into one packet.
      tell([], { kind: "leader", record: { ...record, address: "", certificate: "" } }).catch(ignore);
    },
    isHeard: (withinMs) => clock.monotonic() - heardMs < withinMs,
    async run(signal) {
      while (!signal.aborted) {
        try {
          socket = await open(onDatagram);
          if (asking !== undefined) socket.sendToAll(asking.question);
          await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        } catch (error) {
          logger.warn("the nodes of the site cannot be asked on the LAN", { error: errorText(error) });
          await sleep(clock, REOPEN_MS, signal).catch(ignore);
        }
      }
      socket?.close();
      socket = undefined;
    },
  };
}

/** Files that cannot be read, which `proofs` logs, and waits that end early. */
const ignore = () => {};

/** What was heard, and one more statement. Nobody but a leader itself is heard to lead. */
function added(heard: Heard, statement: Statement, sender: string, isNew: boolean): Heard {
  switch (statement.kind) {
    case "leader":
      return statement.record.node === sender ? { ...heard, lease: { record: statement.record, ageMs: 0 } } : heard;
    case "last-leader": {
      const { leader, isCandidate } = statement;
      if (leader.node !== sender) return heard;
      return { ...heard, lastLeader: leader, isCandidate: heard.isCandidate || isCandidate };
    }
    case "candidate":
      return { ...heard, isCandidate: true };
    case "seen":
      return isNew ? { ...heard, lease: { record: statement.record, ageMs: statement.ageMs } } : heard;
  }
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
