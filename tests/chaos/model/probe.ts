import type { Outcome } from "../../../demo/agent.ts";
import type { Namespace } from "../../../demo/lab.ts";
import { sleep, systemClock } from "../../../platform/clock.ts";
import type { ChaosLab } from "../lab.ts";
import { TIMEOUT_FACTOR } from "../wait.ts";
import { type ServiceNumber, SERVICES } from "./history.ts";
import { addressOf, type Cluster, type Expectation, expected, type Target } from "./reference.ts";

/** The connections to open, by source and target. */
const PROBES: readonly (readonly [Namespace, Target])[] = [
  ["pod-1", "cluster IP"],
  ["pod-1", "node port"],
  ["pod-1", "load balancer"],
  ["node", "cluster IP"],
  ["outside", "cluster IP"],
  ["outside", "node port"],
  ["outside", "load balancer"],
];

/** The time to wait for an expected outcome. */
const TIMEOUTS_MS = {
  "answer": 250 * TIMEOUT_FACTOR,
  // Silence takes all of it each time.
  "silence": 250,
  "no answer": 250,
  // An ICMPv6 refusal fails a connection only on the second SYN, a second after the first.
  "refused": 2000 * TIMEOUT_FACTOR,
};
/** With three endpoints at random, the chance that 40 connections miss one is about one in ten million. */
const MOST_CONNECTIONS = 40;
const REST_MS = 100;

/**
 * Opens connections from every source to every target until all match the reference model.
 * @returns the differences that remain after `withinMs`; empty if everything matches
 */
export async function differences(lab: ChaosLab, cluster: Cluster, withinMs: number): Promise<string[]> {
  const deadlineMs = systemClock.monotonic() + withinMs * TIMEOUT_FACTOR;
  let open = PROBES.flatMap(([from, target]) => SERVICES.map((service) => ({ from, target, service })));
  for (;;) {
    const found = await Promise.all(open.map(async ({ from, target, service }) => {
      const wanted = expected(cluster, from, service, target);
      const seen = await probe(lab, from, service, target, wanted);
      return seen && `${from} to the ${target} of service ${service}: ${seen}, not ${JSON.stringify(wanted)}`;
    }));
    open = open.filter((_, i) => found[i] !== undefined);
    if (open.length === 0) return [];
    if (systemClock.monotonic() > deadlineMs) return found.filter((text) => text !== undefined);
    await sleep(systemClock, REST_MS);
  }
}

/** Describes an unexpected outcome; undefined if everything is as expected. */
async function probe(
  lab: ChaosLab,
  from: Namespace,
  service: ServiceNumber,
  target: Target,
  wanted: Expectation,
): Promise<string | undefined> {
  const missing = new Set<string>(typeof wanted === "object" ? wanted.by : []);
  for (let i = 0; i < MOST_CONNECTIONS; i++) {
    const outcome = await lab.connect(from, {
      protocol: "tcp",
      ...addressOf(service, target),
      timeoutMs: TIMEOUTS_MS[typeof wanted === "object" ? "answer" : wanted],
    });
    if (!isWanted(outcome, wanted)) return outcome.kind === "answered" ? `answered by ${outcome.by}` : outcome.kind;
    if (outcome.kind === "answered") missing.delete(outcome.by);
    if (missing.size === 0) return undefined;
  }
  return `never answered by ${[...missing]}`;
}

function isWanted(outcome: Outcome, wanted: Expectation): boolean {
  if (typeof wanted === "object") return outcome.kind === "answered" && wanted.by.some((pod) => pod === outcome.by);
  return wanted === "no answer" ? outcome.kind !== "answered" : outcome.kind === wanted;
}
