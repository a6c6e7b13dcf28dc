import type { Verdict } from "../core/model/mod.ts";
import { hasOutside, type ListedService } from "./listing.ts";

/** What traffic is stopped, and why: one sentence each. */
export function stoppedTraffic(service: ListedService): readonly string[] {
  if (!service.served) return ["Not served: nothing of what it asks for is left."];
  const { internal, external } = service;
  const inside = stopText(internal), outside = hasOutside(service) ? stopText(external) : undefined;
  return [
    ...(inside === undefined ? [] : [`Traffic to the cluster IP is ${inside}.`]),
    ...(outside === undefined ? [] : [`Traffic from outside is ${outside}.`]),
  ];
}

function stopText(verdict: Verdict): string | undefined {
  if (verdict === "reject") return "rejected: no endpoint can serve";
  if (verdict === "drop") return "dropped: its policy is Local, and no endpoint on this node can serve";
  return undefined;
}
