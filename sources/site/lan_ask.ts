/** Asks the nodes on the LAN who leads, and decides which of their statements to believe. */
import type { Clock } from "../../platform/mod.ts";
import { encodeQuestion, type Question, type Signed, type Statement } from "./lan_messages.ts";
import { type Asking, type Heard, type LanState, ownProofs } from "./lan_state.ts";

/** How long a node waits for answers. */
const ROUND_MS = 500;
/** How many more times it does so if it was itself too busy to read them in time. */
const EXTENSIONS = 3;
/** How long the answer to a question counts: both nodes may be busy. */
const FRESH_MS = 2_000;

/** Asks who leads. Resolves when the leader has answered, or after `ROUND_MS`. */
export function ask(
  state: LanState,
  { rank, isNew }: Pick<Question, "rank" | "isNew">,
  signal: AbortSignal,
): Promise<Heard> {
  const { site, node, clock } = state.options;
  const { promise, resolve } = Promise.withResolvers<Heard>();
  const nonce = newNonce(state);
  const asking: Asking = {
    rank,
    isNew,
    question: encodeQuestion({ site, node, nonce, rank, isNew }),
    heard: { isCandidate: false, isPreceded: false },
    end() {
      cancel();
      signal.removeEventListener("abort", asking.end);
      if (state.asking === asking) state.asking = undefined;
      resolve(asking.heard);
    },
  };
  const cancel = scheduleEnd(clock, asking.end);
  signal.addEventListener("abort", asking.end);
  state.asking = asking;
  state.socket?.sendToAll(asking.question);
  if (signal.aborted) asking.end();
  return promise;
}

/** Names a question, and forgets those whose answers count no more. */
function newNonce(state: LanState): string {
  const nonce = crypto.randomUUID();
  for (const earlier of state.asked.keys()) {
    if (!isFresh(state, earlier)) state.asked.delete(earlier);
  }
  state.asked.set(nonce, state.options.clock.monotonic());
  return nonce;
}

/** Whether an answer to this question still counts. */
function isFresh({ asked, options: { clock } }: LanState, nonce: string): boolean {
  return clock.monotonic() - (asked.get(nonce) ?? -Infinity) < FRESH_MS;
}

/** Calls `end` after a round, or some more rounds if this process was too busy in it. Returns a function that cancels that. */
function scheduleEnd(clock: Clock, end: () => void): () => void {
  let cancel = () => {};
  const wait = (extensions: number) => {
    const startMs = clock.monotonic();
    cancel = clock.schedule(ROUND_MS, () => {
      const isBusy = clock.monotonic() - startMs > 1.5 * ROUND_MS;
      if (isBusy && extensions > 0) wait(extensions - 1);
      else end();
    });
  };
  wait(EXTENSIONS);
  return () => cancel();
}

/** Hears a statement of another node if it answers a question, or is news, and is signed. Rejects if the certificate cannot be read. */
export async function hear(state: LanState, signed: Signed): Promise<void> {
  const { statement, nonces, body, node, proof } = signed;
  const { isNews, onRenewed, clock } = state.options;
  for (const nonce of nonces) state.questions.delete(nonce);
  const isAnswer = nonces.some((nonce) => isFresh(state, nonce));
  // Without a question, only the holder of the Lease is heard, about a later version.
  const isRenewal = nonces.length === 0 && statement.kind === "leader" && statement.record.node === node &&
    isNews(statement.record);
  if (!isAnswer && !isRenewal || !state.maySign()) return;
  if (!(await ownProofs(state)).isSigned(body, node, proof, clock.now())) return;
  state.heardMs = clock.monotonic();
  if (isAnswer) hearAnswer(state.asking, signed);
  else if (statement.kind === "leader") onRenewed(statement.record);
}

/** Adds an answer to what was heard. The leader's own ends the wait. */
function hearAnswer(asking: Asking | undefined, { statement, node }: Signed): void {
  if (asking === undefined) return;
  asking.heard = added(asking.heard, statement, node, asking.isNew);
  if (asking.heard.lease?.ageMs === 0) asking.end();
}

/** Adds a statement to those heard. Only a leader's own statement says that it leads. */
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
