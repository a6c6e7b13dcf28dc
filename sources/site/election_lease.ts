/** Reads, takes and renews the Lease of a site, and falls back to the last leader without it. */
import { type Backoff, errorText } from "../../platform/mod.ts";
import { ApiError, type ApiErrorKind } from "../kubernetes/mod.ts";
import type { SeenLease } from "./candidacy.ts";
import { isOnLan } from "./election_lan.ts";
import { type ElectionState, isConfirmed, pause, rememberedRole, setRole, spreadMs } from "./election_state.ts";
import type { ElectionStep } from "./elector.ts";
import type { LeaseRecord } from "./lease.ts";

/** The scope of its problems. */
const SCOPE = "site lease";

/** The errors for which the API server answers: no Lease can be used, but its objects may. */
const ANSWERED: readonly ApiErrorKind[] = ["unauthorized", "forbidden", "not-found", "rejected", "garbled"];

/** Reads the Lease, unless another node sends its version or reads it first. */
export async function read(state: ElectionState, signal: AbortSignal): Promise<void> {
  const { elector, candidacy, options: { lease, clock } } = state;
  const found = await candidacy?.find(elector.known() === undefined, () => false, signal);
  if (found !== undefined) return learn(state, found);
  if (signal.aborted) return;
  try {
    const before = elector.known()?.record.version;
    const record = await lease.read(signal);
    if (record?.version !== before) state.isInDoubt = false;
    elector.read(record, clock.monotonic());
    if (record !== undefined) noteSuccess(state, record);
  } catch (error) {
    if (signal.aborted) return;
    candidacy?.rest();
    fallBack(state, "cannot read the Lease of the site", error);
    await pause(state, (state.role.kind === "leader" ? state.retries : state.rereads).nextMs(), signal);
  }
}

/** Tries to take the Lease, after a random wait if other nodes may try at the same time. */
export async function acquire(
  state: ElectionState,
  { version, transitions }: Extract<ElectionStep, { kind: "acquire" }>,
  signal: AbortSignal,
): Promise<void> {
  const { elector, options: { lease, self, timing } } = state;
  if (!state.isSpread && state.role.kind !== "leader" && !(state.candidacy?.hasTurn() && isOnLan(state))) {
    state.isSpread = true;
    await pause(state, spreadMs(state), signal);
    return elector.forget();
  }
  const send = async () => {
    const claim = { ...await self(signal), durationMs: timing.leaseMs, transitions };
    return await (version === undefined ? lease.create(claim, signal) : lease.take(version, claim, signal));
  };
  await write(state, send, state.rereads, signal);
  state.isSpread = false;
}

/** Renews the Lease when it is time; takes it if this process has not taken it yet, or the server of this node has changed. */
export async function renew(
  state: ElectionState,
  { record, atMs }: Extract<ElectionStep, { kind: "renew" }>,
  signal: AbortSignal,
): Promise<void> {
  const { elector, options: { lease, self, timing, clock } } = state;
  const waitMs = atMs - clock.monotonic();
  if (waitMs > 0) return await pause(state, waitMs, signal);
  const { version, transitions, durationMs } = record;
  const send = async () => {
    const claim = await self(signal);
    const isSame = record.address === claim.address && record.certificate === claim.certificate;
    const isOwnTerm = elector.heldUntilMs() !== undefined;
    if (isOwnTerm && isSame && durationMs === timing.leaseMs) return await lease.renew(version, signal);
    return await lease.take(version, { ...claim, durationMs: timing.leaseMs, transitions }, signal);
  };
  await write(state, send, state.retries, signal);
}

async function write(
  state: ElectionState,
  send: () => Promise<LeaseRecord>,
  backoff: Backoff,
  signal: AbortSignal,
): Promise<void> {
  const { elector, options: { clock } } = state;
  const sentMs = clock.monotonic();
  try {
    const record = await send();
    elector.wrote(record, sentMs);
    lead(state, record);
  } catch (error) {
    if (signal.aborted) return;
    const isOutdated = error instanceof ApiError && (error.kind === "conflict" || error.kind === "not-found");
    if (isOutdated) return elector.forget();
    state.candidacy?.rest();
    fallBack(state, "cannot write the Lease of the site", error);
    await pause(state, backoff.nextMs(), signal);
    // The write may have arrived although its answer did not.
    if (state.role.kind !== "leader") elector.forget();
  }
}

function lead(state: ElectionState, record: LeaseRecord): void {
  noteSuccess(state, record);
  state.options.memory.remember(record);
  state.isSpread = false;
  state.candidacy?.rest();
  state.lan?.announce(record);
  setRole(state, { kind: "leader", isConfirmed: true });
}

/** Takes over a version of the Lease that another node has sent. */
export function learn(state: ElectionState, { record, ageMs }: SeenLease): void {
  if (ageMs === 0) state.isInDoubt = false;
  state.elector.heard(record, state.options.clock.monotonic() - ageMs);
  noteSuccess(state, record);
}

/** The Lease is known: its problem and its backoffs are over. */
function noteSuccess(state: ElectionState, { transitions }: LeaseRecord): void {
  state.transitions = transitions;
  state.options.onProblems(SCOPE, []);
  state.isWarned = false;
  state.retries.reset();
  state.rereads.reset();
}

/** Without the Lease, the last leader stays: this node, or the one that it remembers. */
function fallBack(state: ElectionState, failure: string, error: unknown): void {
  const { logger, onProblems } = state.options;
  const detail = errorText(error);
  logger[state.isWarned ? "debug" : "warn"](failure, { error: detail });
  state.isWarned = true;
  const isAnswered = error instanceof ApiError && ANSWERED.includes(error.kind);
  onProblems(SCOPE, isAnswered ? [{ code: "site-lease-refused", subject: "the Lease of the site", detail }] : []);
  if (state.role.kind === "leader") {
    if (!isConfirmed(state)) setRole(state, { kind: "leader", isConfirmed: false });
    return;
  }
  setRole(state, isAnswered ? { kind: "alone" } : rememberedRole(state));
}
