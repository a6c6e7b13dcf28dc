import type { Backend, BackendOptions } from "../backends/contract/mod.ts";
import { notifyServiceManager } from "../backends/host/mod.ts";
import {
  type CallName,
  FAILURE_REASONS,
  isNotifySocket,
  PATH_CAUSES,
  type PathFinding,
  type RuleInTheWay,
  type ServedAddresses,
  type ServiceNotification,
  type TrafficFailure,
  type TrafficReading,
  type WorkerCalls,
} from "../core/model/mod.ts";
import {
  type Check,
  isBoolean,
  isCount,
  isPortNumber,
  isPrefix,
  list,
  oneOf,
  optional,
  record,
  text,
} from "./checks.ts";

/** The parts of a family's worker that answer calls. */
export interface CallContext {
  readonly backend: Backend;
  readonly options: BackendOptions;
  /** The search path of tools. */
  readonly path: string;
}

type Request<Name extends CallName> = WorkerCalls[Name]["request"];
type Answer<Name extends CallName> = WorkerCalls[Name]["answer"];

/** A call: its checks in both isolates, and its handler. */
interface Call<Name extends CallName> {
  /** Whether a request is safe in the arguments and the input of tools. */
  readonly isRequest: Check;
  /** Sanitizes an answer; undefined if it is unusable. Every answer is used as it is by default. */
  readonly checked?: (answer: Answer<Name>) => Answer<Name> | undefined;
  /** The timeout of the answer in milliseconds, if it takes longer than others. */
  readonly timeoutMs?: number;
  /** Answers it in the worker; undefined if the mode has no answer. */
  readonly handle: (
    context: CallContext,
    request: Request<Name>,
  ) => Promise<Answer<Name> | undefined> | Answer<Name> | undefined;
}

const isNothing: Check = (value) => value === undefined;

/** All calls. Code that only some of them need is loaded with the first of these. */
export const CALLS: { readonly [Name in CallName]: Call<Name> } = {
  describe: {
    isRequest: (value) => typeof value === "string",
    handle: ({ backend }, key) => backend.describe?.(key),
  },
  packetCounts: { isRequest: isNothing, handle: ({ backend }) => backend.packetCounts?.() },
  traffic: {
    isRequest: isNothing,
    checked: checkedTraffic,
    // The counts of a late reading would be lost.
    timeoutMs: 120_000,
    handle: ({ backend }) => backend.readTraffic?.(),
  },
  attempts: { isRequest: isNothing, handle: ({ backend }) => backend.attemptCounts?.() },
  examine: {
    isRequest: oneOf("settings", "everything"),
    checked: checkedFindings,
    async handle({ options }, what) {
      const { examinePath } = await import("../backends/diagnosis/mod.ts");
      return await examinePath(options, what);
    },
  },
  rulesInTheWay: {
    isRequest: record<ServedAddresses>({
      prefixes: list(isPrefix),
      ports: list(isPortNumber),
      nodePorts: list(isPortNumber),
    }),
    checked: (rules) => rules.filter((rule) => isRuleInTheWay(rule)).map(shortened),
    async handle({ options }, served) {
      const { findRulesInTheWay } = await import("../backends/diagnosis/mod.ts");
      return await findRulesInTheWay(options, served);
    },
  },
  notify: {
    isRequest: record<ServiceNotification>({
      socket: isNotifySocket,
      status: text(/^\P{Cc}{0,200}$/u),
      ready: isBoolean,
    }),
    handle: ({ options, path }, notification) => notifyServiceManager(options.runner, path, notification),
  },
};

/** Sanitizes the answer of a call; undefined if there is none, or if it is unusable. */
export function checkedAnswer<Name extends CallName>(name: Name, answer: unknown): Answer<Name> | undefined {
  if (answer === undefined) return undefined;
  const { checked = (one: Answer<Name>) => one }: Call<Name> = CALLS[name];
  return checked(answer as Answer<Name>);
}

/** A reading of a worker; undefined if it has counts that are not numbers or are negative. */
export function checkedTraffic(reading: TrafficReading): TrafficReading | undefined {
  const { durationMs, ports, endpoints, counts, failures } = reading;
  const isText = (value: unknown) => typeof value === "string";
  const isValid = Number.isFinite(durationMs) && list(isText)(ports) && list(isText)(endpoints) &&
    counts instanceof Float64Array && counts.length === 3 * ports.length && endpoints.length === ports.length &&
    counts.every((count) => count >= 0 && count < Infinity) && list(isFailure)(failures);
  return isValid ? reading : undefined;
}

const isFailure = record<TrafficFailure>({
  port: (value) => typeof value === "string",
  reason: oneOf(...FAILURE_REASONS),
  packets: isCount,
});

/** The longest detail of a finding that is passed on. */
const LONGEST_DETAIL = 400;

/** The findings of a worker whose cause is known: causes become labels of metrics. */
function checkedFindings(findings: readonly PathFinding[]): readonly PathFinding[] {
  return findings.filter(({ cause }) => PATH_CAUSES.includes(cause)).map(({ cause, detail, certain }) => ({
    cause,
    detail: String(detail).slice(0, LONGEST_DETAIL),
    certain: certain === true,
  }));
}

const isRuleInTheWay = record<RuleInTheWay>({
  detail: (value) => typeof value === "string",
  packets: optional(isCount),
});

function shortened({ detail, packets }: RuleInTheWay): RuleInTheWay {
  return { detail: detail.slice(0, LONGEST_DETAIL), packets };
}
