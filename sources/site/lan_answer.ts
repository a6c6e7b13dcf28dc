/** Answers the questions of the nodes on the LAN, several at once, with signed statements. */
import { encodeSigned, MOST_NONCES, type Question, type Statement, statementText } from "./lan_messages.ts";
import { type LanState, ownProofs } from "./lan_state.ts";

/** How long questions are collected, to answer them all at once. */
const COLLECT_MS = 50;
/** The longest wait before the answer of a node that does not lead: one such answer is enough. */
const SUPPRESS_MS = 250;

/** Notes a question of another node, and answers it soon if this node has an answer. */
export function receive(state: LanState, question: Question): void {
  const { asking, questions, options: { answer, clock, random } } = state;
  state.heardMs = clock.monotonic();
  if (asking !== undefined && question.rank < asking.rank) asking.heard = { ...asking.heard, isPreceded: true };
  const statement = answer(question);
  if (statement === undefined) return;
  questions.set(question.nonce, question);
  if (questions.size > 1) return;
  const waitMs = COLLECT_MS + (statement.kind === "seen" ? random() * SUPPRESS_MS : 0);
  clock.schedule(waitMs, () => void answerAll(state).catch(() => {}));
}

/** Answers the collected questions that this node can answer by now. */
async function answerAll(state: LanState): Promise<void> {
  const { questions, maySign, options: { answer } } = state;
  const unanswered = [...questions.values()];
  questions.clear();
  const toAll = answer({ isNew: false });
  const statement = toAll ?? answer({ isNew: true });
  if (statement === undefined) return;
  const nonces = unanswered.filter(({ isNew }) => isNew || toAll !== undefined).map(({ nonce }) => nonce);
  while (nonces.length > 0 && maySign()) await tell(state, nonces.splice(0, MOST_NONCES), statement);
}

/**
 * Signs a statement and sends it to all nodes: an answer that goes nowhere else cannot be used against another host. Rejects if the
 * certificate cannot be read.
 */
export async function tell(state: LanState, nonces: readonly string[], statement: Statement): Promise<void> {
  const { site, node } = state.options;
  const body = statementText({ site, node, nonces }, statement);
  const proof = (await ownProofs(state)).sign(body);
  state.socket?.sendToAll(encodeSigned(body, proof));
}
