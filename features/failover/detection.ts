/** Detects endpoints that do not answer, in both families, and reports them. */
import { endpointsIn } from "../../core/model/mod.ts";
import type { PlannedPort } from "../../core/planning/mod.ts";
import type { Problem } from "../../core/problems/mod.ts";
import { serviceKeyOf } from "../../core/tracking/mod.ts";
import type { Family } from "../../platform/mod.ts";
import type { Node, NodeFamily, RunningFeature } from "../contract.ts";
import { readAttempts } from "./calls.ts";
import { createEndpointProbe, probeTcp } from "./endpoint_probe.ts";
import type { FailoverOptions } from "./options.ts";
import { type EndpointUses, type FailureWatch, type Unreachable, watchFailures } from "./watch.ts";
import { addReadings } from "../../platform/metrics/mod.ts";

const NONE: ReadonlySet<string> = new Set();

/** Has the families leave out what the detection finds; it begins with the first round of planning. */
export function startDetection(
  node: Node,
  options: FailoverOptions,
  tryTcp = probeTcp,
): Required<Pick<RunningFeature, "addMetrics" | "planned">> {
  const { families, reportProblems, recordServiceProblem, clock, signal } = node;
  const watches = new Map<Family, FailureWatch>();
  const probe = createEndpointProbe(options, tryTcp, clock);
  for (const { family, leaveOut } of families) leaveOut(() => watches.get(family)?.unreachable() ?? NONE);

  const watch = ({ family, ports, planAgain, call }: NodeFamily) => {
    const onChange = (unreachable: readonly Unreachable[], changed: ReadonlySet<string>) => {
      const owners = [...ownersOf(ports(), changed).values()].flat();
      planAgain(new Set(owners.map(({ service }) => service)));
      reportProblems(`unreachable ${family}`, unreachable.map(problemOf));
      for (const one of unreachable) {
        if (!changed.has(one.endpoint)) continue;
        for (const service of new Set(one.servicePorts.map(serviceKeyOf))) {
          recordServiceProblem(service, problemOf(one), "Probe");
        }
      }
    };
    return watchFailures({
      settings: options,
      read: () => call(readAttempts, undefined),
      usesOf: (endpoints) => usesOf(ports(), endpoints),
      probe,
      onChange,
      clock,
      signal,
    });
  };

  return {
    planned() {
      if (watches.size === 0) families.forEach((served) => watches.set(served.family, watch(served)));
    },
    addMetrics(registry) {
      const each = (valueOf: (watch: FailureWatch) => number) => () =>
        [...watches].map(([family, watch]) => [{ ip_family: family }, valueOf(watch)] as const);
      const unreachable = each((watch) => watch.unreachable().size), ejections = each((watch) => watch.ejections());
      const help = "Endpoints that are left out because they do not answer";
      addReadings(registry, [
        ["gauge", "sluice_endpoints_unreachable", help, unreachable, "ip_family"],
        ["counter", "sluice_endpoint_ejections_total", "Times that an endpoint was left out", ejections, "ip_family"],
      ]);
    },
  };
}

function problemOf({ endpoint, servicePorts }: Unreachable): Problem {
  const [first, ...rest] = servicePorts;
  const names = `${first ?? "no service port"}${rest.length > 0 ? ` and ${rest.length} more` : ""}`;
  const detail = `connection attempts and probes are not answered; left out of ${names} if enough others are left`;
  return { code: "endpoint-unreachable", subject: endpoint, detail };
}

/** The planned service ports of each of these TCP endpoints, including service ports that leave it out. */
function ownersOf(
  ports: Iterable<PlannedPort>,
  endpoints: ReadonlySet<string>,
): ReadonlyMap<string, readonly PlannedPort[]> {
  const owners = new Map<string, PlannedPort[]>();
  if (endpoints.size === 0) return owners;
  for (const owner of ports) {
    if (owner.wanted.protocol !== "tcp") continue;
    for (const endpoint of endpointsIn(owner.wanted)) {
      if (!endpoints.has(endpoint)) continue;
      const known = owners.get(endpoint);
      if (known) known.push(owner);
      else owners.set(endpoint, [owner]);
    }
  }
  return owners;
}

/** The uses of each of these TCP endpoints. */
export function usesOf(
  ports: Iterable<PlannedPort>,
  endpoints: ReadonlySet<string>,
): ReadonlyMap<string, EndpointUses> {
  const uses = new Map<string, EndpointUses>();
  for (const [endpoint, owners] of ownersOf(ports, endpoints)) {
    const siblings = new Set(owners.flatMap(({ wanted }) => [...endpointsIn(wanted)]));
    siblings.delete(endpoint);
    uses.set(endpoint, { servicePorts: owners.map(({ wanted }) => wanted.name), siblings: [...siblings] });
  }
  return uses;
}
