import {
  endpointText,
  type ExplainedEndpoint,
  type ExplainedRules,
  type ExplainedService,
  type Explanation,
  type FateReason,
  type KeepReason,
  type MasqueradeReason,
  type Origin,
  type Outcome,
  type Source,
} from "../../answers/mod.ts";

/** Options of `explanationText`. Without `all`, the text fits on a screen. */
export interface TextOptions {
  /** Shows every endpoint and every rule. */
  readonly all: boolean;
}

const MOST_ENDPOINTS = 12;
const MOST_LINES = 20;

/** Renders an explanation as text for a terminal. */
export function explanationText(explanation: Explanation, { all }: TextOptions): string {
  const { destination, node, mode, service, outcomes, remarks } = explanation;
  const { address, port, protocol } = destination;
  const zone = node.zone === "" ? "" : `, zone ${node.zone}`;
  return [
    `${endpointText(address, port, protocol)} on node ${node.name} (${node.address}${zone}, ${mode} mode)`,
    service
      ? `  is ${service.frontendText} of ${service.name} (${service.type})`
      : "  no service has this address and port",
    ...remarks.map((remark) => `  note: ${remark}`),
    "",
    "A new connection",
    ...outcomes.flatMap((outcome) => outcomeLines(outcome, mode)),
    ...(service ? serviceLines(service, all) : []),
    "",
  ].join("\n");
}

function outcomeLines(outcome: Outcome, mode: string): string[] {
  const lines = [`  from ${fromText(outcome.from)}: ${fateText(outcome, mode)}`];
  if (outcome.onlySources) lines.push(`    only from ${outcome.onlySources.join(", ")}; other sources are dropped`);
  if (outcome.masquerade) lines.push(`    ${masqueradeText(outcome.masquerade)}`);
  if (outcome.masquerade?.applies === false && outcome.hairpin.length > 0) {
    lines.push(`    masqueraded only to ${outcome.hairpin.join(", ")}, the client itself`);
  }
  return lines;
}

const ORIGIN_NAMES: Readonly<Record<Origin, string>> = {
  pod: "a pod of this node",
  node: "this node",
  outside: "outside",
};

function fromText({ origin, address }: Source): string {
  return address === undefined ? ORIGIN_NAMES[origin] : `${ORIGIN_NAMES[origin]} (${address})`;
}

function fateText(outcome: Outcome, mode: string): string {
  switch (outcome.fate) {
    case "balanced": {
      const { length } = outcome.endpoints;
      const whose = outcome.policy === "local" ? " on this node" : "";
      return length === 1
        ? `goes to ${outcome.endpoints[0]}`
        : `goes to one of ${length} endpoints${whose} with equal probability`;
    }
    case "rejected":
      return `is rejected: ${reasonText(outcome.reason, mode)}`;
    case "dropped":
      return `is dropped: ${reasonText(outcome.reason, mode)}`;
    case "untouched":
      return `passes untouched: ${reasonText(outcome.reason, mode)}`;
  }
}

function reasonText(reason: FateReason, mode: string): string {
  return reason === "not-refused-here"
    ? `no usable endpoint, but ${mode} mode does not refuse this node's own traffic`
    : REASONS[reason];
}

const REASONS: Readonly<Record<Exclude<FateReason, "not-refused-here">, string>> = {
  endpoints: "there are endpoints",
  "no-endpoints": "no usable endpoint",
  "no-local-endpoints": "traffic policy Local, and this node has no usable endpoint",
  "source-range": "the source is not in the load balancer's source ranges",
  "unused-port": "a cluster IP, but no service has this port",
  "unused-service-port": "an address of a service, but no service has this port there",
  "unused-address": "in a range of cluster IPs, but no service has this address",
  "no-service": "no service has this address and port",
};

function masqueradeText(masquerade: NonNullable<Outcome["masquerade"]>): string {
  return masquerade.applies
    ? `masqueraded: ${MASQUERADED[masquerade.reason]}`
    : `not masqueraded: ${KEPT[masquerade.reason]}`;
}

const MASQUERADED: Readonly<Record<MasqueradeReason, string>> = {
  "masquerade-all": "configured for all traffic to cluster IPs (masqueradeAll)",
  "not-from-local-pod": "not from a pod of this node, so replies must come back through this node",
  "external-policy-cluster": "external traffic policy Cluster; the endpoint may be on another node",
  "relayed": "the relay connects from this node's own address",
  "from-this-node": "this node's own traffic to an external address may go to any endpoint",
};

const KEPT: Readonly<Record<KeepReason, string>> = {
  "from-local-pod": "from a pod of this node",
  "local-traffic-unknown": "detection of pods' traffic is not configured (detectLocalMode, clusterCIDR)",
  "external-policy-local": "external traffic policy Local keeps the client's address",
};

function serviceLines({ policies, endpoints, rules }: ExplainedService, all: boolean): string[] {
  const width = Math.max(0, ...policies.map(({ name, value }) => name.length + value.length + 1));
  return [
    "",
    "Policies",
    ...policies.map(({ name, value, effect }) => `  ${`${name} ${value}`.padEnd(width)}  ${effect}`),
    "",
    `Endpoints (${endpoints.filter(({ used }) => used).length} of ${endpoints.length} in use)`,
    ...endpointLines(endpoints, all),
    ...(rules ? ruleLines(rules, all) : []),
  ];
}

function endpointLines(endpoints: readonly ExplainedEndpoint[], all: boolean): string[] {
  // Readers look for unused endpoints, so those come first in a truncated list.
  const sorted = all || endpoints.length <= MOST_ENDPOINTS
    ? endpoints
    : [...endpoints].sort((a, b) => Number(a.used) - Number(b.used));
  const shown = all ? sorted : sorted.slice(0, MOST_ENDPOINTS);
  const target = Math.max(0, ...shown.map((endpoint) => endpoint.target.length));
  const place = Math.max(0, ...shown.map((endpoint) => placeOf(endpoint).length));
  const left = endpoints.length - shown.length;
  return [
    ...shown.map((endpoint) =>
      `  ${endpoint.used ? "in " : "out"} ${endpoint.target.padEnd(target)}  ${placeOf(endpoint).padEnd(place)}  ` +
      endpoint.reason
    ),
    ...(left > 0 ? [`  and ${left} more (--all shows them)`] : []),
  ];
}

function placeOf({ node, zone, onThisNode }: ExplainedEndpoint): string {
  const where = onThisNode ? "this node" : node === "" ? "no node" : node;
  return zone === "" ? where : `${where} (${zone})`;
}

function ruleLines(rules: ExplainedRules, all: boolean): string[] {
  const lines = rules.parts.flatMap(({ place, lines }, i) => [
    ...(place === rules.parts[i - 1]?.place ? [] : [`  ${place}`]),
    ...lines.map((line) => `    ${line}`),
  ]);
  const shown = all || lines.length <= MOST_LINES ? lines : lines.slice(0, MOST_LINES);
  const left = lines.length - shown.length;
  return [
    "",
    `Rules (${sinceText(rules)})`,
    ...(rules.problem === undefined ? [] : [`  not in effect: ${rules.problem}`]),
    ...shown,
    ...(left > 0 ? [`  and ${left} more lines (--all shows them)`] : []),
  ];
}

function sinceText({ from, since }: ExplainedRules): string {
  if (from === "rendering" || since === undefined) return "as a proxy would write them";
  if (since.state === "refused") return `not in effect: the kernel refuses them: ${since.refusal}`;
  if (since.state === "waiting") return "pending; the sync that writes them has not finished";
  if (since.syncedAtMs === undefined) return "in effect";
  const at = new Date(since.syncedAtMs).toISOString();
  return `in effect since the sync of revision ${since.revision}${since.orEarlier ? " or an earlier one" : ""}, ${at}`;
}
