import type { RulePart, ServicePortKey } from "../../core/model/mod.ts";
import { contributionOf } from "./contribution.ts";
import type { Desired } from "./desired.ts";
import { parsePickChain, pickRules } from "./pick_chains.ts";
import { declareSets, type Dialect, type SetName } from "./table.ts";

/** The parts of the table that a service port uses; undefined for an unknown one. */
export function describeServicePort(
  desired: Desired,
  dialect: Dialect,
  key: ServicePortKey,
): readonly RulePart[] | undefined {
  const port = desired.servicePort(key), settings = desired.settings();
  if (port === undefined || settings === undefined) return undefined;
  const { elements, sharedElements, pickChains, ownChains, clientSets } = contributionOf(port, settings, dialect);
  const declared = declareSets(dialect);
  const bySet = new Map<SetName, string[]>();
  for (const { set, key, value } of [...elements, ...sharedElements.map((shared) => ({ ...shared, value: "" }))]) {
    const line = value === "" ? key : `${key} : ${value}`;
    const lines = bySet.get(set);
    if (lines) lines.push(line);
    else bySet.set(set, [line]);
  }
  return [
    ...[...bySet].map(([set, lines]): RulePart => ({ place: `${declared.get(set)!.kind} ${set}`, lines })),
    ...pickChains.map((name): RulePart => ({
      place: `chain ${name}`,
      lines: pickRules(parsePickChain(name)!, settings, dialect),
    })),
    ...ownChains.map(({ name, rules }): RulePart => ({ place: `chain ${name}`, lines: rules })),
    ...clientSets.map(({ name, lines }): RulePart => ({ place: `set ${name}`, lines })),
  ];
}
