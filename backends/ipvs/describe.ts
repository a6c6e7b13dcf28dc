import { DUMMY_INTERFACE, type RulePart } from "../../core/model/mod.ts";
import type { Contribution } from "./contribution.ts";
import type { Entry } from "./sets.ts";
import { operationLine, weightsOf } from "./virtual_servers.ts";

/** Describes a contribution in the tools' own notation: virtual servers, set elements and addresses. */
export function describeContribution({ servers, entries, addresses }: Contribution): readonly RulePart[] {
  const virtual = [...servers].map(([server, virtual]): RulePart => ({
    place: `virtual server ${server}`,
    lines: [
      operationLine({ does: "add", server, definition: virtual.definition }).trimEnd(),
      ...[...weightsOf(virtual)].map(([real, weight]) =>
        operationLine({ does: "add-real", server, real, weight }).trimEnd()
      ),
    ],
  }));
  const bySet = new Map<string, Entry[]>();
  for (const entry of entries) {
    const [set = "", element = ""] = entry.split(" ");
    bySet.set(set, [...bySet.get(set) ?? [], element]);
  }
  const sets = [...bySet].map(([set, lines]): RulePart => ({ place: `set ${set}`, lines }));
  return [...virtual, ...sets, { place: `addresses of ${DUMMY_INTERFACE}`, lines: [...addresses] }];
}
