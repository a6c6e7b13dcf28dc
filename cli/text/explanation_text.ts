import {
  clientText,
  endpointText,
  type ExplainedEndpoint,
  type ExplainedRules,
  type ExplainedService,
  type Explanation,
  fateText,
  masqueradeTexts,
  type Outcome,
  placeText,
  sharesText,
  sinceText,
} from "../../answers/mod.ts";
import { printable } from "../../platform/mod.ts";

const MOST_ENDPOINTS = 12;
const MOST_LINES = 20;

/** Renders an explanation as text for a terminal: on one screen, or with every endpoint and every rule. */
export function explanationText(explanation: Explanation, all: boolean): string {
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
  ].map(printable).join("\n");
}

function outcomeLines(outcome: Outcome, mode: string): string[] {
  const lines = [`  from ${clientText(outcome.from)}: ${fateText(outcome, mode)}`];
  if (outcome.onlySources) lines.push(`    only from ${outcome.onlySources.join(", ")}; other sources are dropped`);
  return [...lines, ...masqueradeTexts(outcome).map((line) => `    ${line}`)];
}

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
  const place = Math.max(0, ...shown.map((endpoint) => placeText(endpoint).length));
  const shareOf = ({ shares }: ExplainedEndpoint) => shares === undefined ? "" : sharesText(shares);
  const share = Math.max(0, ...shown.map((endpoint) => shareOf(endpoint).length));
  const left = endpoints.length - shown.length;
  return [
    ...shown.map((endpoint) =>
      `  ${endpoint.used ? "in " : "out"} ${endpoint.target.padEnd(target)}  ${placeText(endpoint).padEnd(place)}  ` +
      (share === 0 ? "" : `${shareOf(endpoint).padStart(share)}  `) + endpoint.reason
    ),
    ...(left > 0 ? [`  and ${left} more (--all shows them)`] : []),
  ];
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
