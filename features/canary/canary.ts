import { INTERNAL_PORT, type SyncReport } from "../../core/model/mod.ts";
import { examine } from "./calls.ts";
import type { PathExamination, PathFinding } from "./path_findings.ts";
import {
  addressBytes,
  addressOfBytes,
  errorText,
  type Family,
  familyOf,
  isLoopback,
  joinHostPort,
  prefixContains,
  sleep,
  waitAtMost,
} from "../../platform/mod.ts";
import { type Responder, startResponder, tryCanary, type TryOutcome } from "./probe.ts";
import {
  type CanaryParts,
  type CanaryStatus,
  change,
  count,
  createState,
  decide,
  type FailedTry,
  type Placed,
  type State,
  unusable,
} from "./state.ts";

/** The canary of one family. */
export interface Canary {
  /** Places the canary on the node with this address, or removes it: the family has no services. Idempotent. */
  place(nodeIP: string | undefined): void;
  /** Notes a sync, which may have repaired the rules. */
  reported(report: SyncReport): void;
  /** Undefined while it is not placed. */
  status(): CanaryStatus | undefined;
}

/** The time after which a canary that could not be placed is placed again. */
const PLACED_AGAIN_MS = 5_000;

/** Repeated comparisons with the kernel while packets do not flow take at most this share of the time. */
const COMPARING_SHARE = 0.1;

/** Creates a canary that is not placed. */
export function createCanary(parts: CanaryParts): Canary {
  const { clock, signal } = parts.node;
  const state = createState(parts);
  signal.addEventListener("abort", () => close(state), { once: true });
  return {
    place(nodeIP) {
      if (signal.aborted || nodeIP === state.nodeIP) return;
      state.nodeIP = nodeIP;
      remove(state);
      if (nodeIP !== undefined) place(state, nodeIP);
      else parts.served.serveInternal(undefined, () => {});
    },
    reported({ ok, full, counts, durationMs }) {
      if (!full) return;
      state.isComparing = false;
      state.comparisonFromMs = clock.monotonic() + durationMs / COMPARING_SHARE;
      if (!ok) return;
      const repaired = counts.drift_repaired ?? 0;
      state.repaired += repaired;
      state.onCompared?.(repaired);
      if (repaired > 0 && state.status.state === "failing") state.wake();
    },
    status: () => state.nodeIP === undefined ? undefined : { ...state.status, failures: { ...state.failures } },
  };
}

function place(state: State, nodeIP: string): void {
  const { served: { family, serveInternal }, range, network, node: { ownAddresses, clock, logger, signal } } = state;
  const own = ownAddresses();
  const address = firstFree(range, own), at = responderAddress(family, nodeIP, own);
  const fail = (detail: string) => {
    unusable(state, detail);
    // The host may get an address of the family, or a free one in the range.
    state.cancelRetry = clock.schedule(PLACED_AGAIN_MS, () => place(state, nodeIP));
  };
  if (address === undefined) return fail(`every address of ${range} that was tried belongs to this host`);
  if (at === undefined) return fail(`this host has no ${family} address at which it could answer`);
  let responder: Responder;
  try {
    responder = startResponder(at, (client) => client === address || ownAddresses().includes(client), network?.listen);
  } catch (error) {
    return fail(`cannot listen on ${at}: ${errorText(error)}`);
  }
  const placed: Placed = {
    address: joinHostPort(address, INTERNAL_PORT),
    isCurrent: () => ownAddresses().includes(at) && !ownAddresses().includes(address),
    responder,
    end: new AbortController(),
  };
  state.placed = placed;
  state.status.address = placed.address;
  state.onChange({ ...state.status });
  logger.debug("canary placed", { family, address: placed.address, responder: responder.target });
  serveInternal({ address, target: responder.target }, () => {
    if (placed.end.signal.aborted || signal.aborted) return;
    watch(state, placed);
  });
}

function close(state: State): void {
  state.cancelRetry();
  state.placed?.end.abort();
  state.placed?.responder.close();
  state.wake();
  state.placed = undefined;
}

function remove(state: State): void {
  close(state);
  state.status.address = undefined;
  change(state, "waiting");
}

const MOST_TRIED = 64;

/** The first free address of a range after the network's own; undefined if all are taken. */
function firstFree(range: string, taken: readonly string[]): string | undefined {
  const bytes = addressBytes(range.split("/")[0]!);
  for (let step = 1; step <= MOST_TRIED; step++) {
    // There is no carry: a range that does not begin at a last byte of 0 ends within that byte.
    bytes[bytes.length - 1]!++;
    const address = addressOfBytes(bytes);
    if (!prefixContains(range, address)) return undefined;
    if (!taken.includes(address)) return address;
  }
  return undefined;
}

/**
 * The address at which the responder listens, as the pods of the host network do: the node's, or another one of this host if
 * that is not its own. Undefined if the host has none of the family.
 */
function responderAddress(family: Family, nodeIP: string, own: readonly string[]): string | undefined {
  // Link-local IPv6 addresses are ambiguous without an interface.
  const usable = own.filter((address) =>
    familyOf(address) === family && !isLoopback(address) && !prefixContains("fe80::/10", address)
  );
  return usable.includes(nodeIP) ? nodeIP : usable[0];
}

/** The maximum time that the search for a cause delays the report of a failure. */
const CAUSE_WITHIN_MS = 1_000;
/** The time for which the canary must have been answered before a certain cause counts as gone. */
const HELD_MS = 5_000;
/** The chains of other programs are listed at most this often, and for at most a twentieth of the time. */
const LISTED_AFTER_MS = 4_000, LISTED_SHARE = 0.05;
/** The longest pause after a listing: one that was slow once must not delay the next cause. */
const LONGEST_PAUSE_MS = 10_000;

async function watch(state: State, placed: Placed): Promise<void> {
  const { node: { clock }, options: { intervalMs } } = state;
  while (!placed.end.signal.aborted) {
    const startedMs = clock.monotonic();
    const woken = Promise.withResolvers<void>();
    state.wake = woken.resolve;
    await round(state, placed);
    const cancel = clock.schedule(Math.max(0, startedMs + intervalMs - clock.monotonic()), woken.resolve);
    await woken.promise;
    cancel();
  }
}

/** One try, and if packets flowed until now, a second one before it counts. */
async function round(state: State, placed: Placed): Promise<void> {
  const { status, node: { clock }, options: { timeoutMs } } = state;
  const { signal } = placed.end;
  const startedMs = clock.monotonic();
  const examining = within(state, timeoutMs, examineInTurn(state));
  const first = await attempt(state, placed);
  const { findings, what } = await examining ?? { findings: [], what: undefined };
  prove(state, findings, what);
  if (signal.aborted) return;
  if (first.kind === "answered") return answered(state, first.durationMs, findings);
  if (!placed.isCurrent()) {
    remove(state);
    return place(state, state.nodeIP!);
  }
  if (first.kind === "no-route" && status.lastAnswerMs === undefined) {
    return unusable(state, `${placed.address}: ${first.message}`);
  }
  if (status.state === "failing") {
    // An earlier comparison may have been too soon after the last listing to see everything.
    if (!findings.some(({ certain }) => certain)) compare(state);
    return what === "everything" ? decide(state, first, findings) : count(state, status.cause ?? "unknown");
  }
  const examined = state.served.call(examine, "everything");
  await sleep(clock, Math.max(0, startedMs + timeoutMs - clock.monotonic()), signal).catch(() => {});
  const second = await attempt(state, placed);
  if (signal.aborted) return;
  if (second.kind === "answered") {
    count(state, "unknown");
    return answered(state, second.durationMs, findings);
  }
  await fails(state, placed, second, examined);
}

async function attempt(state: State, { address, responder: { nonce } }: Placed): Promise<TryOutcome> {
  const { node: { clock }, options: { timeoutMs }, network } = state;
  const outcome = await tryCanary(address, nonce, timeoutMs, clock, network?.connect);
  state.status.tries++;
  if (outcome.kind === "answered") return outcome;
  state.undecided++;
  if (state.proof) state.proof.answersFromMs = undefined;
  return outcome;
}

function answered(state: State, durationMs: number, findings: readonly PathFinding[]): void {
  const { status, proof, node: { clock } } = state;
  status.lastAnswerMs = clock.now();
  status.durationMs = durationMs;
  state.repaired = 0;
  if (findings.some(({ certain }) => certain)) return decide(state, undefined, findings);
  if (proof) {
    proof.answersFromMs ??= clock.monotonic();
    if (!proof.isRefuted || clock.monotonic() - proof.answersFromMs < HELD_MS) return;
  }
  change(state, "answering");
}

/**
 * Notes a certain cause. It stays until an examination that can see it no longer finds it, and the canary has been answered for
 * 5 s: otherwise the state would change with every examination that cannot see it.
 */
function prove(state: State, findings: readonly PathFinding[], what: PathExamination | undefined): void {
  const certain = findings.filter((finding) => finding.certain);
  if (certain.length > 0) {
    const isListed = certain.some(({ cause }) => cause === "foreign-chain");
    state.proof = { isListed, isRefuted: false, answersFromMs: undefined };
  } else if (state.proof) {
    state.proof.isRefuted ||= what === "everything" || (what === "settings" && !state.proof.isListed);
  }
}

/** Packets have stopped: reports that at once, and the cause as soon as it is found. */
async function fails(
  state: State,
  placed: Placed,
  failed: FailedTry,
  examined: Promise<readonly PathFinding[] | undefined>,
): Promise<void> {
  const { status } = state;
  status.state = "failing";
  status.sinceMs = state.node.clock.now();
  status.cause = "unknown";
  state.onChange({ ...status });
  const compared = Promise.withResolvers<void>();
  state.onCompared = () => compared.resolve();
  state.isComparing = false;
  state.comparisonFromMs = -Infinity;
  compare(state);
  const found = Promise.all([examined, compared.promise]).then(([findings]) => findings);
  const findings = await within(state, CAUSE_WITHIN_MS, found) ?? await within(state, 0, examined) ?? [];
  if (placed.end.signal.aborted) return;
  prove(state, findings, undefined);
  decide(state, failed, findings, state.repaired);
  // A comparison of a large ruleset takes longer.
  state.onCompared = (changes) => {
    if (changes > 0) decide(state, failed, findings, state.repaired);
  };
}

/** Requests a comparison with the kernel, unless one runs or the last one is too recent. */
function compare(state: State): void {
  if (state.isComparing || state.node.clock.monotonic() < state.comparisonFromMs) return;
  state.isComparing = true;
  state.served.compare();
}

/** Examines the kernel settings that stop packets even if the canary answers, and the chains as often as that is cheap. */
async function examineInTurn(state: State) {
  const { served, node: { clock }, options: { intervalMs } } = state;
  const startedMs = clock.monotonic();
  const pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(LISTED_AFTER_MS, state.listedForMs / LISTED_SHARE));
  // Half an interval less, since the pause may not be a multiple of the interval.
  const isComplete = startedMs - state.listedAtMs >= pauseMs - intervalMs / 2;
  if (isComplete) state.listedAtMs = startedMs;
  const what = isComplete ? "everything" : "settings";
  const findings = await served.call(examine, what);
  if (isComplete) state.listedForMs = clock.monotonic() - startedMs;
  return findings && { findings, what } as const;
}

/** The result if it comes in time; undefined otherwise, or if it fails. */
function within<T>(state: State, timeoutMs: number, work: Promise<T | undefined>): Promise<T | undefined> {
  return waitAtMost(state.node.clock, timeoutMs, work.catch(() => undefined));
}
