/** The part of an election on the LAN: what this node answers the others, and what it learns from them. */
import { createCandidacy } from "./candidacy.ts";
import { decideRole, type ElectionState, isConfirmed } from "./election_state.ts";
import type { Question, Statement } from "./lan_messages.ts";
import type { LeaseRecord } from "./lease.ts";

/** Opens the LAN, if the options say how; it is silent until it runs. */
export function openLan(state: ElectionState): void {
  const { elector, random, options: { clock } } = state;
  const lan = state.options.openLan?.({
    answer: (question) => answer(state, question),
    isNews: (record) => elector.isRenewal(record),
    onRenewed: (record) => hearRenewal(state, record),
  });
  state.lan = lan;
  state.candidacy = lan && createCandidacy({ lan, onLastLeader: () => decideRole(state), clock, random });
}

/** Whether the LAN works: only there it takes the place of random waits. */
export function isOnLan({ lan, options: { timing } }: ElectionState): boolean {
  return lan?.isHeard(timing.leaseMs) ?? false;
}

function answer(state: ElectionState, { isNew }: Pick<Question, "isNew">): Statement | undefined {
  const isCandidate = state.candidacy?.hasTurn() ?? false;
  const ownAnswer = state.role.kind === "leader" ? answerOfLeader(state, isCandidate) : undefined;
  if (ownAnswer !== undefined) return ownAnswer;
  if (isCandidate) return { kind: "candidate" };
  // Its leader itself answers, if it can.
  return isNew && state.isInDoubt ? answerOfWitness(state) : undefined;
}

/** The answer of a leader: the Lease that it holds, or that it was the last one to hold it. */
function answerOfLeader(state: ElectionState, isCandidate: boolean): Statement | undefined {
  const { elector, options: { node, memory } } = state;
  const known = elector.known();
  if (isConfirmed(state) && known?.record.node === node) return { kind: "leader", record: known.record };
  const leader = memory.leader();
  return leader?.node === node ? { kind: "last-leader", leader, isCandidate } : undefined;
}

/** The answer of a node that has seen another one's Lease, which has not ended. */
function answerOfWitness({ elector, options: { clock } }: ElectionState): Statement | undefined {
  const known = elector.known();
  if (known === undefined) return undefined;
  const { record, seenMs } = known;
  const ageMs = clock.monotonic() - seenMs;
  return ageMs < record.durationMs && record.node !== "" ? { kind: "seen", record, ageMs } : undefined;
}

function hearRenewal(state: ElectionState, record: LeaseRecord): void {
  const { elector, options: { clock } } = state;
  if (!elector.isRenewal(record)) return;
  elector.renewed(record, clock.monotonic());
  state.isInDoubt = false;
}
