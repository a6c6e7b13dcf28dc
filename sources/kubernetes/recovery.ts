/** The state that all reflectors of one API server share: its failures as problems, and the waits until it answers. */
import type { Problem, ProblemCode, ReportProblems } from "../../core/problems/mod.ts";
import type { ApiErrorKind } from "../../core/objects/mod.ts";
import { type Clock, sleep } from "../../platform/mod.ts";

/** The failures of one API server: one problem for each cause, whatever the number of resources that meet it. */
export interface ServerFailures {
  failed(resource: string, failure: { readonly kind: ApiErrorKind; readonly message: string }): void;
  /** The server answered a request for the resource, which ends its failure. */
  answered(resource: string): void;
  isFailing(): boolean;
}

/** The causes that have fixes of their own; any other failure is `source-unreachable`. */
const CODES: Partial<Record<ApiErrorKind, ProblemCode>> = {
  unreachable: "api-unreachable",
  dns: "api-unreachable",
  timeout: "api-slow",
  "certificate-expired": "api-certificate-expired",
  certificate: "api-certificate-untrusted",
  credentials: "api-unauthorized",
  unauthorized: "api-unauthorized",
  forbidden: "api-forbidden",
};

/** Creates the failures of the server of `api` without any. The reflectors log them, so they are reported as logged. */
export function createServerFailures(api: { readonly server: string }, report: ReportProblems): ServerFailures {
  const failing = new Map<string, { readonly code: ProblemCode; readonly message: string }>();

  const publish = () => {
    const problems = new Map<ProblemCode, Problem>();
    for (const { code, message } of failing.values()) {
      if (problems.has(code)) continue;
      const resources = [...failing].filter(([, failure]) => failure.code === code).map(([resource]) => resource);
      const others = resources.length > 1 ? ` (all of ${resources.join(", ")})` : "";
      problems.set(code, { code, subject: api.server, detail: message + others });
    }
    report("API server", [...problems.values()], { isLogged: true });
  };

  return {
    failed(resource, { kind, message }) {
      failing.set(resource, { code: CODES[kind] ?? "source-unreachable", message });
      publish();
    },
    answered(resource) {
      if (failing.delete(resource)) publish();
    },
    isFailing: () => failing.size > 0,
  };
}

/**
 * The waits shared by all reflectors of one API server. After an outage all of them recover soon after the server answers, at
 * the cost of one request every few seconds instead of one per reflector.
 */
export interface Recovery {
  /**
   * Waits after a failure, at most `waitMs`. One waiter, the scout, waits at most `SCOUT_MS` and retries; the waits of the others
   * end early when a request succeeds. Rejects with the signal's reason.
   */
  wait(waitMs: number, signal: AbortSignal): Promise<void>;
  /** A request succeeded: the waiters retry, each after a random part of `SPREAD_MS`. */
  answered(): void;
}

/** The longest wait of the scout, and the spread of the others, in milliseconds; less than 5 s together. */
const SCOUT_MS = 3_600;
const SPREAD_MS = 900;

/** A recovery without waiters. */
export function createRecovery({ clock, random }: {
  readonly clock: Clock;
  /** A number from 0 up to 1, so that many nodes do not retry at the same moment. */
  readonly random: () => number;
}): Recovery {
  const followers = new Set<() => void>();
  let hasScout = false;

  const scout = async (waitMs: number, signal: AbortSignal) => {
    hasScout = true;
    try {
      await sleep(clock, Math.min(waitMs, SCOUT_MS * (1 + random()) / 2), signal);
    } finally {
      hasScout = false;
    }
  };
  const follow = async (waitMs: number, signal: AbortSignal) => {
    const early = new AbortController();
    const wake = () => early.abort();
    followers.add(wake);
    try {
      await sleep(clock, waitMs, AbortSignal.any([signal, early.signal])).catch(() => {});
    } finally {
      followers.delete(wake);
    }
    signal.throwIfAborted();
    if (early.signal.aborted) await sleep(clock, SPREAD_MS * random(), signal);
  };

  return {
    wait: (waitMs, signal) => hasScout ? follow(waitMs, signal) : scout(waitMs, signal),
    answered() {
      for (const wake of followers) wake();
    },
  };
}
