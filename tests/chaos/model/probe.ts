import type { Outcome } from "../../../demo/agent.ts";
import type { Place } from "../../../demo/lab.ts";
import { sleep, systemClock } from "../../../platform/clock.ts";
import type { ChaosLab } from "../lab.ts";
import { PATIENCE } from "../until.ts";
import { type ServiceNumber, SERVICES } from "./history.ts";
import { addressOf, type Cluster, type Expectation, expected, type Target } from "./reference.ts";

/** From where to where connections are opened. */
const PROBES: readonly (readonly [Place, Target])[] = [
  ["pod-1", "cluster IP"],
  ["pod-1", "node port"],
  ["pod-1", "load balancer"],
  ["node", "cluster IP"],
  ["outside", "cluster IP"],
  ["outside", "node port"],
  ["outside", "load balancer"],
];

const SILENT_AFTER_MS = 250 * PATIENCE;
/** A client takes an ICMPv6 refusal for one only when its second packet, a second later, meets it too. */
const REFUSED_WITHIN_MS = 2000 * PATIENCE;
/** Of three endpoints chosen at random, one goes unseen in 40 connections once in ten million times. */
const MOST_CONNECTIONS = 40;
const REST_MS = 100;

/**
 * Opens connections from everywhere to everything until all of them become what the reference model says, and resolves
 * with what is different still when the time is over; with nothing where all is as it should be.
 */
export async function differences(lab: ChaosLab, cluster: Cluster, withinMs: number): Promise<string[]> {
  const deadlineMs = systemClock.monotonic() + withinMs * PATIENCE;
  let open = PROBES.flatMap(([from, target]) => SERVICES.map((service) => ({ from, target, service })));
  for (;;) {
    const found = await Promise.all(open.map(async ({ from, target, service }) => {
      const wanted = expected(cluster, from, service, target);
      const seen = await look(lab, from, service, target, wanted);
      return seen && `${from} to the ${target} of service ${service}: ${seen}, not ${JSON.stringify(wanted)}`;
    }));
    open = open.filter((_, i) => found[i] !== undefined);
    if (open.length === 0) return [];
    if (systemClock.monotonic() > deadlineMs) return found.filter((text) => text !== undefined);
    await sleep(systemClock, REST_MS);
  }
}

/** What is seen that is not wanted, or undefined. */
async function look(
  lab: ChaosLab,
  from: Place,
  service: ServiceNumber,
  target: Target,
  wanted: Expectation,
): Promise<string | undefined> {
  const missing = new Set<string>(typeof wanted === "object" ? wanted.by : []);
  for (let i = 0; i < MOST_CONNECTIONS; i++) {
    const outcome = await lab.connect(from, {
      protocol: "tcp",
      ...addressOf(service, target),
      timeoutMs: wanted === "refused" ? REFUSED_WITHIN_MS : SILENT_AFTER_MS,
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
