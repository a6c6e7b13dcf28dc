import { errorText, joinHostPort } from "../../platform/mod.ts";
import { CANARY_PORT } from "../../core/planning/mod.ts";
import type { SyncReport } from "../../core/model/mod.ts";
import type { CanaryStatus } from "../mod.ts";
import { firstFree, responderAddress } from "./address.ts";
import { type Responder, startResponder } from "./responder.ts";
import { watch } from "./rounds.ts";
import { type CanaryOptions, change, createState, type Placed, type State, unusable } from "./state.ts";

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
export function createCanary(options: CanaryOptions): Canary {
  const { signal } = options;
  const state = createState(options);
  signal.addEventListener("abort", () => close(state), { once: true });
  return {
    place(nodeIP) {
      if (signal.aborted || nodeIP === state.nodeIP) return;
      state.nodeIP = nodeIP;
      remove(state);
      if (nodeIP !== undefined) place(state, nodeIP);
      else options.plan(undefined, () => {});
    },
    reported({ ok, full, figures, durationMs }) {
      if (!full) return;
      state.isComparing = false;
      state.comparisonFromMs = options.clock.monotonic() + durationMs / COMPARING_SHARE;
      if (!ok) return;
      const repaired = figures.drift_repaired ?? 0;
      state.onCompared?.(repaired);
      if (repaired > 0 && state.status.state === "failing") state.wake();
    },
    status: () => state.nodeIP === undefined ? undefined : { ...state.status, failures: { ...state.failures } },
  };
}

function place(state: State, nodeIP: string): void {
  const { family, range, ownAddresses, plan, listen, logger, signal } = state.options;
  const own = ownAddresses();
  const address = firstFree(range, own), at = responderAddress(family, nodeIP, own);
  const fail = (detail: string) => {
    unusable(state, detail);
    placeLater(state, nodeIP);
  };
  if (address === undefined) return fail(`every address of ${range} that was tried belongs to this host`);
  if (at === undefined) return fail(`this host has no ${family} address at which it could answer`);
  let responder: Responder;
  try {
    responder = startResponder(at, (client) => client === address || ownAddresses().includes(client), listen);
  } catch (error) {
    return fail(`cannot listen on ${at}: ${errorText(error)}`);
  }
  const placed: Placed = {
    plan: { address, target: responder.target },
    address: joinHostPort(address, CANARY_PORT),
    isCurrent: () => isBetween(ownAddresses(), at, address),
    responder,
    end: new AbortController(),
  };
  state.placed = placed;
  state.placeAgain = () => {
    remove(state);
    place(state, nodeIP);
  };
  state.status.address = placed.address;
  state.options.onChange({ ...state.status });
  logger.debug("canary placed", { family, address: placed.address, responder: responder.target });
  let hasStarted = false;
  plan(placed.plan, () => {
    if (hasStarted || placed.end.signal.aborted || signal.aborted) return;
    hasStarted = true;
    watch(state, placed);
  });
}

/** Whether a host with these addresses can answer at one address for the other one. */
function isBetween(own: readonly string[], at: string, address: string): boolean {
  return own.includes(at) && !own.includes(address);
}

/** Places it again later: the host may get an address of the family, or a free one in the range. */
function placeLater(state: State, nodeIP: string): void {
  const { clock } = state.options;
  state.cancelRetry = clock.schedule(PLACED_AGAIN_MS, () => place(state, nodeIP));
}

/** Ends the tries and the responder. */
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
