/** Changes of endpoints alone, of which nftables mode renders only the slots that differ. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { changedSlots, contributionOf } from "../../backends/nftables/desired.ts";
import { keepSlots } from "../../backends/nftables/endpoints.ts";
import { DIALECTS } from "../../backends/nftables/table.ts";
import { difference, type Item } from "../../backends/nftables/transaction.ts";
import type { ServicePort } from "../../core/model/mod.ts";
import { nftSettings } from "../unit/backends/nftables/host.ts";
import { plannedPorts } from "./planned_ports.ts";
import { runs } from "./runs.ts";

const settings = nftSettings(), dialect = DIALECTS.IPv4;

const endpoints = (most: number) =>
  fc.subarray(Array.from({ length: most }, (_, i) => `10.244.${i >> 8}.${i & 255}:80`), { minLength: 1 });
/** Few endpoints, or so many that those with session affinity need several chains. */
const lists = fc.oneof(
  fc.record({ clusterEndpoints: endpoints(4), localEndpoints: endpoints(4) }),
  fc.record({ clusterEndpoints: endpoints(140), localEndpoints: endpoints(3) }),
);

/** A service port with other endpoints, and none where its verdicts say so: the planner never gives one that contradicts them. */
function withLists(
  port: ServicePort,
  { clusterEndpoints, localEndpoints }: Pick<ServicePort, "clusterEndpoints" | "localEndpoints">,
): ServicePort {
  const hasLocal = port.internal !== "drop" && port.external !== "drop", hasAny = port.external !== "reject";
  return { ...port, clusterEndpoints: hasAny ? clusterEndpoints : [], localEndpoints: hasLocal ? localEndpoints : [] };
}

const textOf = (items: Iterable<Item>) => Array.from(items, ({ list, key, text }) => `${list} ${key} ${text}`).sort();

Deno.test("a change of endpoints alone is the same whether all slots are rendered or only those that differ", () => {
  fc.assert(
    fc.property(plannedPorts, fc.array(lists, { minLength: 2, maxLength: 6 }), (port, versions) => {
      let before = keepSlots(withLists(port, versions[0]!), undefined);
      for (const version of versions.slice(1)) {
        const after = keepSlots(withLists(port, version), before), slots = changedSlots(before, after);
        assert.ok(slots);
        const [whole, part] = [undefined, slots].map((only) => {
          const [old, next] = [before, after].map((each) => contributionOf(each, settings, dialect, only));
          const { deleted, added } = difference(old!.own, next!.own);
          const uses = (one: readonly string[], other: readonly string[]) =>
            [...new Set(one).difference(new Set(other))].sort();
          return [deleted, added].map(textOf).concat([
            uses(old!.shared, next!.shared),
            uses(next!.shared, old!.shared),
          ]);
        });
        assert.deepEqual(part, whole);
        before = after;
      }
    }),
    runs(60),
  );
});
