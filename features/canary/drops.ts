import { frontendsOf } from "../../core/model/mod.ts";
/** Looks for rules of other programs that drop packets of services or pods while the canary answers. */
import { type Family, hostPrefix, plural, splitHostPort } from "../../platform/mod.ts";
import type { Node, NodeFamily } from "../contract.ts";
import { rulesInTheWay } from "./calls.ts";
import type { RuleInTheWay, ServedAddresses } from "./path_findings.ts";
import type { CanaryStatus } from "./state.ts";

const LOOK_MS = 60_000;
/** The time for which a rule counts after it dropped a packet, so that rare drops are one problem. */
const COUNTS_FOR_MS = 600_000;
const MOST_NAMED = 3;

/** Returns a listener for the states of a canary: it looks when the canary starts to answer, and then once a minute. */
export function watchDrops(node: Node, { family, ports, call }: NodeFamily): (status: CanaryStatus) => void {
  const { clock, signal } = node;
  const judge = createDropJudge();
  const report = (details: readonly string[]) =>
    node.reportProblems(`rules in the way ${family}`, problemsOf(family, details));
  let isOn = false, cancel = () => {};
  const stop = () => {
    isOn = false;
    cancel();
  };
  const look = async () => {
    const rules = await call(rulesInTheWay, servedBy(node, family, ports()));
    if (!isOn) return;
    if (rules !== undefined) report(judge(rules, clock.monotonic()));
    cancel = clock.schedule(LOOK_MS, look);
  };
  signal.addEventListener("abort", stop, { once: true });
  return ({ state }) => {
    if (isOn === (state === "answering") || signal.aborted) return;
    if (state === "answering") {
      isOn = true;
      look();
    } else {
      stop();
      // A canary that fails names its own suspects.
      report([]);
    }
  };
}

/**
 * Creates the decision which of the found rules drop something, at this time of the monotonic clock: rules without a counter, and
 * those whose counter has grown between two calls in the last ten minutes.
 */
export function createDropJudge(): (rules: readonly RuleInTheWay[], nowMs: number) => readonly string[] {
  let known: ReadonlyMap<string, { readonly packets: number; readonly grewAtMs: number }> | undefined;
  return (rules, nowMs) => {
    const now = new Map<string, { readonly packets: number; readonly grewAtMs: number }>();
    const dropping = rules.filter(({ detail, packets }) => {
      if (packets === undefined) return true;
      const before = known?.get(detail);
      // Rules that have dropped nothing are not found.
      const hasGrown = known !== undefined && packets > (before?.packets ?? 0);
      const grewAtMs = hasGrown ? nowMs : before?.grewAtMs ?? -Infinity;
      now.set(detail, { packets, grewAtMs });
      return nowMs - grewAtMs < COUNTS_FOR_MS;
    });
    known = now;
    return dropping.map(({ detail }) => detail);
  };
}

function problemsOf(family: Family, details: readonly string[]) {
  if (details.length === 0) return [];
  const named = details.slice(0, MOST_NAMED), others = details.length - named.length;
  const detail = `${named.join("; ")}${others === 0 ? "" : `; and ${plural(others, "other rule")}`}`;
  return [{ code: "packets-dropped-by-others", subject: family, detail }] as const;
}

/** The addresses and ports of a family's services, and the pods of this node. */
function servedBy(node: Node, family: Family, ports: ReturnType<NodeFamily["ports"]>): ServedAddresses {
  const prefixes = new Set<string>(), served = new Set<number>(), nodePorts = new Set<number>();
  const own = new Set(node.ownAddresses());
  const podCIDR = node.tracking.node.state().podCIDRs[family];
  if (podCIDR !== undefined) prefixes.add(podCIDR);
  for (const { planned } of ports) {
    if (planned === undefined) continue;
    for (const { kind, address, port } of frontendsOf(planned)) {
      if (kind !== "nodePort") prefixes.add(hostPrefix(address));
      (kind === "nodePort" ? nodePorts : served).add(port);
    }
    for (const endpoint of planned.endpointsOnThisNode) {
      const { address, port } = splitHostPort(endpoint);
      served.add(port);
      if (!own.has(address)) prefixes.add(hostPrefix(address));
    }
  }
  return { prefixes: [...prefixes], ports: [...served], nodePorts: [...nodePorts] };
}
