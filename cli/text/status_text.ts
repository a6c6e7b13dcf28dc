/** The answer of `sluice status`: one screen. */
import type { ServicePage } from "../../answers/mod.ts";
import {
  type FamilyStatusDetails,
  type ProxyStatus,
  stateOfCanary,
  stateOfFamily,
  stateOfLink,
  stateOfProxy,
  stateOfSite,
} from "../../answers/control/mod.ts";
import { countText, durationText, plural } from "../../platform/mod.ts";
import { ago, type Layout, type Line, statePieces, textOf } from "./lines.ts";
import { serviceRows } from "./service_rows.ts";
import { problemLines } from "./top_text.ts";

/** The lines of the status. `broken` is the first page of broken services; undefined if the cluster was not read yet. */
export function statusLines(
  status: ProxyStatus,
  broken: ServicePage | undefined,
  layout: Pick<Layout, "columns" | "colour">,
): readonly string[] {
  const { node, nodeAddresses, zone, kernel, version, mode, source, atMs, startedAtMs } = status;
  const link = stateOfLink(status);
  const site = stateOfSite(status);
  const lines: Line[] = [
    statePieces(stateOfProxy(status)),
    ["source    ", ...(link === undefined ? [source] : statePieces(link))],
    ...(site === undefined ? [] : [["site      ", ...statePieces(site)]]),
    ["node      ", ["bold", node], `  ${[...nodeAddresses, ...(zone === "" ? [] : [`zone ${zone}`])].join("  ")}`],
    [`proxy     Sluice ${version}, ${mode} mode, up ${
      durationText(Math.max(1000, atMs - startedAtMs))
    }, kernel ${kernel}`],
    ...status.families.map((family) => familyLine(family, status)),
    ...driftLines(status),
    ...brokenLines(status, broken),
    ...problemLines(status),
  ];
  return lines.map((line) => textOf(line, layout));
}

function familyLine(details: FamilyStatusDetails, status: ProxyStatus): Line {
  const { family, servicePorts, changesPending, syncs, lastChangeMs } = details;
  const canary = stateOfCanary(details, status.atMs);
  const succeeded = syncs.find(({ ok }) => ok);
  const facts = [
    plural(servicePorts, "service port"),
    ...(changesPending > 0 ? [`${countText(changesPending)} waiting`] : []),
    succeeded === undefined ? "never synced" : `last sync ${ago(status.atMs, succeeded.endedAtMs)}`,
    ...(canary === undefined ? [] : [canary.words]),
    ...(lastChangeMs === undefined ? [] : [`last change ${ago(status.atMs, lastChangeMs)}`]),
  ];
  return [`${family}      `, ...statePieces(stateOfFamily(details, status)), ["soft", `  ${facts.join(", ")}`]];
}

function driftLines({ families }: ProxyStatus): Line[] {
  const repaired = families.reduce((sum, { driftRepaired }) => sum + driftRepaired, 0);
  if (repaired === 0) return [];
  return [[`repaired  ${plural(repaired, "change")} by other programs`]];
}

function brokenLines({ services }: ProxyStatus, broken: ServicePage | undefined): Line[] {
  if (broken === undefined) return ["services  not read yet"].map((text) => [text]);
  const total = `services  ${countText(services)}`;
  if (broken.total === 0) return [[`${total}, none broken`]];
  return [
    [`${total}, `, ["bad", `${plural(broken.total, "service port")} broken`]],
    ...serviceRows(broken.services, false),
    ...(broken.pages > 1 ? [[["soft", "  and more; `sluice top` and the status page list them"] as const]] : []),
  ];
}
